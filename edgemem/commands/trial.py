"""One model, run inside its plan and, if wanted, beside a plain session."""

from __future__ import annotations

import re
import warnings
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from edgemem import api
from edgemem.errors import ModelError, PlanError, RuntimeBindError
from edgemem.files import atomic_write
from edgemem.formats import onnx_editor
from edgemem.proof import Cause, Violation
from edgemem.runtime.feeds import example_feeds
from edgemem.runtime.onnxruntime.io_binding import BoundMemory, make_session
from edgemem.runtime.onnxruntime.optimise import failures, metadata_for, onnxruntime, session_options_for
from edgemem.runtime.onnxruntime.record import embed, record
from edgemem.runtime.onnxruntime.session import InferenceSession, SessionMemory

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from edgemem.replay.recording import RecordedPlan
    from edgemem.runtime.litert.interpreter import Memory
    from edgemem.runtime.tflm.size import TflmSize

__all__ = ["Trial", "run", "same", "store", "verify_run", "write_outputs"]


@dataclass(frozen=True, slots=True, eq=False)
class Trial:
    """What a model gave and took.

    Attributes:
        outputs: of the last run, by name.
        memory: what the session says of itself.
        identical: every output of every run is that of a plain session, bit for bit; None if not compared.
        different: the outputs that are not.
    """

    outputs: Mapping[str, Any]
    memory: SessionMemory | BoundMemory | Memory | TflmSize
    identical: bool | None
    different: tuple[str, ...]


def run(
    model: Path,
    feeds: Mapping[str, NDArray[Any]] | None = None,
    *,
    dims: Mapping[str, int] | None = None,
    input_shapes: Mapping[str, Sequence[int]] | None = None,
    executor: str = "replay",
    threads: int = 1,
    runs: int = 3,
    compare: bool = False,
    poison: bool = False,
) -> Trial:
    """Run a model a few times inside its plan.

    Args:
        model: an .onnx file.
        feeds: inputs by name; made up otherwise (`example_feeds`).
        dims: values for symbolic dimensions, when there are no feeds.
        input_shapes: shapes of inputs, when there are no feeds.
        executor: `replay` (an ordinary session whose requests are served from the plan) or `io-binding`.
        threads: of one operator.
        runs: how many; the first one records where no plan is stored.
        compare: run a plain session on the same feeds, too.
        poison: fill unused arena memory with a pattern.

    Raises:
        MissingDependencyError, ModelError, UnknownShapeError, RuntimeBindError: as the session does.
    """
    if executor not in ("replay", "io-binding"):
        raise PlanError(f"no executor {executor!r}; there are replay and io-binding")
    ort = onnxruntime()
    parts = onnx_editor().parts(model.read_bytes(), model.parent)
    values = dict(feeds) if feeds else example_feeds(parts.input_forms(), dims=dims, input_shapes=input_shapes)
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    with _told(model):
        if executor == "replay":
            with InferenceSession(str(model), options, poison=poison) as session:
                names = [o.name for o in session.get_outputs()]
                results = [session.run(names, values) for _ in range(runs)]
                memory: SessionMemory | BoundMemory = session.memory
        else:
            bound = make_session(
                model,
                feeds=values,
                dims=dims,
                input_shapes=input_shapes,
                sess_options=options,
                poison=0xCD if poison else None,
            )
            names = [o.name for o in bound.get_outputs()]
            results = [bound.run(names, values) for _ in range(runs)]
            memory = bound.memory
        different: tuple[str, ...] = ()
        if compare:
            plain_options = session_options_for(metadata_for(model.read_bytes()))
            plain_options.intra_op_num_threads = threads
            plain = ort.InferenceSession(str(model), plain_options, providers=["CPUExecutionProvider"])
            wanted = plain.run(names, values)
            different = tuple(
                name for k, name in enumerate(names) if any(not same(result[k], wanted[k]) for result in results)
            )
    outputs = dict(zip(names, results[-1], strict=True))
    return Trial(outputs, memory, not different if compare else None, different)


@contextmanager
def _told(model: Path) -> Iterator[None]:
    """Turns what ONNX Runtime raises into a ModelError that says it in one line."""
    try:
        yield
    except failures() as e:
        raise ModelError(f"ONNX Runtime cannot run {model.name}: {str(e).splitlines()[0]}") from None


def same(a: Any, b: Any) -> bool:
    """Whether two results are the same, bit for bit; sequences element by element."""
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same, a, b))
    return bool(a == b)


def write_outputs(trial: Trial, folder: str | Path) -> None:
    """Write every output that is an array to FOLDER/NAME.npy; other characters than letters and digits become `_`."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    for name, value in trial.outputs.items():
        if isinstance(value, np.ndarray):
            with atomic_write(Path(folder) / f"{re.sub(r'[^A-Za-z0-9.-]', '_', name)}.npy") as file:
                np.save(file, value, allow_pickle=False)


def store(
    planned: Path,
    feeds: Mapping[str, NDArray[Any]] | None = None,
    *,
    dims: Mapping[str, int] | None = None,
    input_shapes: Mapping[str, Sequence[int]] | None = None,
    threads: int = 1,
) -> RecordedPlan:
    """Record a model and put the plan of what ONNX Runtime asked for into its file, atomically.

    Raises what `record` raises; the file stays as it was then.
    """
    options = onnxruntime().SessionOptions()
    options.intra_op_num_threads = threads
    with _told(planned):
        recorded = record(planned, feeds, dims=dims, input_shapes=input_shapes, sess_options=options)
    embed(planned, [recorded], planned)
    return recorded


def verify_run(planned: Path, feeds: Mapping[str, NDArray[Any]] | None = None) -> tuple[Violation, ...]:
    """Run a planned ONNX model in poisoned arenas under both executors and compare with a plain run, bit for bit.

    Returns a violation for every output that differs. Raises RuntimeBindError when neither executor stayed inside its
    plan: then nothing was verified.
    """
    planset, model = api.read_plan(planned)
    if model is None or planned.suffix != ".onnx":
        raise ModelError(f"{planned.name}: only planned .onnx files can be run here")
    found: list[Violation] = []
    outside = []
    for executor in ("replay", "io-binding"):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # a fallback is told by `reason`
                trial = run(
                    planned,
                    feeds,
                    dims=planset.dims,
                    input_shapes=planset.input_shapes,
                    executor=executor,
                    compare=True,
                    poison=True,
                )
        except RuntimeBindError as e:
            outside.append(f"{executor}: {e}")
            continue
        memory = trial.memory
        inside = memory.replayed if isinstance(memory, SessionMemory) else getattr(memory, "steps", 0)
        if not inside:
            outside.append(f"{executor}: {getattr(memory, 'reason', '')}")
        found += [
            Violation(Cause.DIFFERENT_OUTPUT, f"output {name!r} differs from a plain run's", executor, (name,))
            for name in trial.different
        ]
    if len(outside) == 2 and not found:
        raise RuntimeBindError(
            f"{planned.name} was not run inside a plan, so nothing is verified; {'; '.join(outside)}"
        )
    return tuple(found)
