"""Whether a model's run ends. One that may go on for ever, or take any memory, runs in a process of its own first.

ONNX Runtime does not come back from a loop of 2^62 rounds, and what it allocates depends on values. Most models can do
neither: they have no loop, and the sizes of all their tensors are known.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from edgemem.errors import RuntimeBindError
from edgemem.runtime.onnxruntime.baked_file import bind_dimensions, onnxruntime, quiet_options, runtime_errors
from edgemem.system.child_call import ChildError, Message, call_child, serve

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from edgemem.model.graph import Graph

__all__ = ["check_run_ends", "is_bounded"]

# Operators whose number of rounds is a value.
_LOOPS: Final = frozenset(
    ("Loop", *(f"com.microsoft::{name}" for name in ("BeamSearch", "GreedySearch", "Sampling", "WhisperBeamSearch")))
)
_MOST_BYTES: Final = 1 << 30  # of all results, up to which a run needs no process of its own
_LIMIT_S: Final = 60.0
_LEAST_S: Final = 10.0  # in which a process starts and a small model runs on a busy machine


def is_bounded(graph: Graph) -> bool:
    """Whether a run ends, and takes no more memory than its tensors, which are small, as far as the graph shows."""
    return _bytes(graph) <= _MOST_BYTES


def _bytes(graph: Graph) -> float:
    """Bytes of all results, those of bodies included; infinite where they, or the number of rounds, follow values."""
    if any(t.kind == "opaque" for t in graph.tensors) or any(op.type in _LOOPS for op in graph.ops):
        return float("inf")
    bodies = sum(_bytes(body) for op in graph.ops for body in op.bodies)
    return bodies + sum(t.size for t in graph.tensors if t.kind == "activation")


def check_run_ends(
    path: Path,
    graph: Graph,
    requests: Sequence[Mapping[str, NDArray[Any]]],
    *,
    dims: Mapping[str, int] | None = None,
    limit_s: float | None = None,
) -> None:
    """Raise RuntimeBindError for an .onnx file whose runs do not end in time, or end the process that they run in.

    Args:
        path: the file.
        graph: of the model. Where it is bounded nothing is run.
        requests: inputs by name, of each run.
        dims: values of open dimensions.
        limit_s: seconds for loading the model and all runs, ten at least; a minute by default.
    """
    if is_bounded(graph):
        return
    limit_s = _LIMIT_S if limit_s is None else max(limit_s, _LEAST_S)
    question = Message(
        {"model": str(path.absolute()), "dims": dict(dims or {}), "inputs": [list(request) for request in requests]},
        [value for request in requests for value in request.values()],
    )
    try:
        call_child(__name__, question, timeout_s=limit_s)
    except ChildError as e:
        why = f"its runs did not end within {limit_s:g} s; the model may loop for ever" if e.status is None else str(e)
        raise RuntimeBindError(f"{path.name} was tried in ONNX Runtime in a process of its own: {why}") from None


def _answer(question: Message) -> Message:
    ort, values = onnxruntime(), iter(question.arrays)
    options = bind_dimensions(quiet_options(), question.data["dims"])
    options.intra_op_num_threads = 1
    try:
        session = ort.InferenceSession(question.data["model"], options, providers=["CPUExecutionProvider"])
        for names in question.data["inputs"]:
            session.run(None, {name: next(values) for name in names})
    except runtime_errors() as e:
        raise RuntimeBindError(str(e).splitlines()[0]) from None
    return Message({})


if __name__ == "__main__":
    serve(_answer, limits_memory=True)
