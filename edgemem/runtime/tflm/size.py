"""TensorFlow Lite Micro: how large an arena a model takes there, what it is made of, and a run inside it.

The *head* of its arena holds tensors and workspace; offsets in the file (`OfflineMemoryAllocation`) decide where the
tensors are, and its own greedy planner where all others. The *tail* holds what lives as long as the interpreter. The
head without workspace follows from the file alone; what kernels ask for as they are prepared is in no file, so it
is measured where tflite-micro is installed.
"""

from __future__ import annotations

import json
import tempfile
from bisect import insort
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, runtime_checkable

from edgemem.errors import MissingDependencyError, ModelError, RuntimeBindError
from edgemem.records.lifetime import lifetimes
from edgemem.runtime.child import run_child
from edgemem.targets import BUILT_IN

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from edgemem.model.graph import Graph

__all__ = ["TflmRun", "TflmSize", "execute", "predicted_head", "size_of", "zeros"]

_ALIGNMENT: Final = 16


@runtime_checkable
class Offline(Protocol):
    """A model file whose format has a place for TensorFlow Lite Micro's offsets."""

    def graph(self) -> Graph: ...
    def content(self) -> bytes: ...
    def offline(self) -> dict[str, int]: ...
    def without_plan(self) -> Offline: ...


@dataclass(frozen=True, slots=True)
class TflmSize:
    """What TensorFlow Lite Micro's arena is made of, in bytes.

    Attributes:
        tensors: the head without workspace, as predicted from the file.
        planned: tensors whose place the file decides.
        workspace: what kernels' workspace adds to the head; None if that was not measured.
        tail: structures and state that live as long as the interpreter; None if that was not measured.
        arena: the smallest arena in which the model runs; None if that was not measured.
        reason: why it was not measured, or "".
    """

    tensors: int
    planned: int
    workspace: int | None = None
    tail: int | None = None
    arena: int | None = None
    reason: str = ""

    @property
    def head(self) -> int:
        """The head, as far as it is known."""
        return self.tensors + (self.workspace or 0)


@dataclass(frozen=True, slots=True, eq=False)
class TflmRun:
    """A run: the outputs in order, `head` and `tail` of the arena in bytes, and the smallest arena if asked for."""

    outputs: tuple[NDArray[Any], ...]
    head: int
    tail: int
    smallest: int | None


def size_of(model: object, *, measure: bool = True) -> TflmSize:
    """The arena that a .tflite model takes in TensorFlow Lite Micro, planned or not.

    Args:
        model: as `edgemem.load` gives it.
        measure: also run it on zeros, where tflite-micro is installed.

    Raises:
        ModelError: the model is not a .tflite file, or has sizes that are not known.
    """
    if not isinstance(model, Offline):
        raise ModelError("TensorFlow Lite Micro runs .tflite files")
    graph, offline = model.graph(), model.offline()
    size = TflmSize(predicted_head(graph, offline), len(offline))
    if not measure:
        return replace(size, reason="not asked for")
    if find_spec("tflite_micro") is None:
        return replace(size, reason="tflite-micro is not installed")
    try:
        run = execute(model.content(), zeros(graph), outputs=len(graph.outputs), find_smallest=True)
    except RuntimeBindError as e:
        return replace(size, reason=str(e))
    return replace(size, workspace=run.head - size.tensors, tail=run.tail, arena=run.smallest)


def predicted_head(graph: Graph, offline: Mapping[str, int]) -> int:
    """The head of the arena in bytes, without workspace.

    Args:
        graph: of a .tflite file.
        offline: offsets that the file decides, by tensor.

    Tensors without one go where TensorFlow Lite Micro's planner puts them: large ones first, each into the first gap
    between what is alive at the same time.
    """
    problem = lifetimes(graph, replace(BUILT_IN["tflm"], aliasing="none")).problem
    placed: list[tuple[int, int, int, int]] = []  # offset, end, first, last; by offset
    rows = []
    for record in problem.records:
        assert isinstance(record.size, int)
        size = -(-record.size // _ALIGNMENT) * _ALIGNMENT
        if record.name in offline:
            insort(placed, (offline[record.name], offline[record.name] + size, record.first_op, record.last_op))
        else:
            rows.append((size, record.first_op, record.last_op))
    rows.reverse()  # among equals the last one first
    for size, first, last in sorted(rows, key=lambda r: -r[0]):
        offset = 0
        for start, end, other_first, other_last in placed:
            if other_first <= last and first <= other_last:
                if start - offset >= size:
                    break
                offset = max(offset, end)
        insort(placed, (offset, offset + size, first, last))
    return max((end for _, end, _, _ in placed), default=0)


def zeros(graph: Graph) -> tuple[NDArray[Any], ...]:
    """A valid value for every input of a graph."""
    import numpy as np

    return tuple(np.zeros(graph.tensors[i].shape, graph.tensors[i].dtype) for i in graph.inputs)


def execute(
    model: bytes,
    inputs: Sequence[NDArray[Any]],
    *,
    outputs: int,
    arena: int | None = None,
    runs: int = 1,
    find_smallest: bool = False,
) -> TflmRun:
    """Run a .tflite file in TensorFlow Lite Micro, in a process of its own.

    Args:
        model: the file.
        inputs: one array an input of the main subgraph, in order.
        outputs: how many outputs it has.
        arena: bytes to give it; ample by default.
        runs: how often it runs with these inputs.
        find_smallest: look for the smallest arena that is enough, in steps of 16 bytes.

    Raises:
        MissingDependencyError: tflite-micro is not installed.
        RuntimeBindError: it cannot run the model, or not in that arena.
    """
    import numpy as np

    if find_spec("tflite_micro") is None:
        raise MissingDependencyError("tflite-micro", extra="tflite", purpose="running TensorFlow Lite Micro")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "model.tflite").write_bytes(model)
        for k, value in enumerate(inputs):
            np.save(folder / f"input{k}.npy", value)
        given = arena or 4 * len(model) + (1 << 29)
        job = {"arena": given, "inputs": len(inputs), "outputs": outputs, "runs": runs, "smallest": 0}
        done = _work(folder, job)
        if find_smallest:
            done["smallest"] = _work(folder, {**job, "smallest": done["head"] + done["tail"]})["smallest"]
        found = tuple(np.load(folder / f"output{k}.npy") for k in range(outputs))
    return TflmRun(found, done["head"], done["tail"], done["smallest"] or None)


def _work(folder: Path, job: Mapping[str, int]) -> dict[str, int]:
    (folder / "job.json").write_text(json.dumps(job))
    done = run_child("edgemem.runtime.tflm.worker", [str(folder)])
    if done.returncode:
        lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
        telling = [line for line in lines if "op for builtin" in line or "arena" in line.lower()]
        told = (telling or lines[-1:] or [f"status {done.returncode}"])[0]
        raise RuntimeBindError(f"TensorFlow Lite Micro cannot run the model: {told}")
    result: dict[str, int] = json.loads(done.stdout)
    return result
