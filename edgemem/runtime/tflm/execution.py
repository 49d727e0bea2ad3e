"""A model run in TensorFlow Lite Micro, in a process of its own, because that aborts on what it dislikes."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

from edgemem.errors import MissingDependencyError, RuntimeBindError, UnsupportedError
from edgemem.model.macs import count_macs
from edgemem.runtime.feeds import make_feeds
from edgemem.system.child_call import ChildError, Message, call_child

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from edgemem.model.graph import Graph

__all__ = ["TflmRun", "execute", "input_values", "is_installed", "trial_refusal"]

_TIMEOUT_S: Final = 600.0
# What TensorFlow Lite Micro says about a model that it cannot run, the most telling first. The lines about its arena
# come last: it says how large that is whatever went wrong.
_TELLING: Final = ("op for builtin", "not supported", "failed to", "arena")
_TRIAL_S: Final = 20.0
_TRIAL_MACS: Final = (
    10_000_000  # of a model that is not only prepared, but run; in reference kernels a tenth of a second
)
_FOLD: Final = "edgemem shrink --steps fold stores constants so that it need not decompress them"


@dataclass(frozen=True, slots=True, eq=False)
class TflmRun:
    """A run.

    Attributes:
        outputs: of the last run, in order.
        each: the outputs after the runs with each set of inputs; `outputs` are the last of these.
        head, tail: bytes of the arena.
        smallest: bytes of the smallest arena that is enough; None if it was not asked for or not found.
        reason: why it was not found, or "".
        seconds: processor time of the quickest run.
    """

    outputs: tuple[NDArray[Any], ...]
    head: int
    tail: int
    smallest: int | None
    reason: str = ""
    each: tuple[tuple[NDArray[Any], ...], ...] = ()
    seconds: float = 0.0


def is_installed() -> bool:
    """Whether tflite-micro is there to run models."""
    return find_spec("tflite_micro") is not None


def input_values(graph: Graph, *, seed: int = 0) -> tuple[NDArray[Any], ...]:
    """A random value, not all zero, for every input of a graph, in order.

    Raises UnsupportedError for an input of a dtype that no values can be made of.
    """
    inputs = [graph.tensors[i] for i in graph.inputs]
    made = make_feeds({t.name: (t.dtype, t.shape) for t in inputs}, seed=seed)
    return tuple(made[t.name] for t in inputs)


def execute(
    model: bytes,
    inputs: Sequence[NDArray[Any]],
    *,
    outputs: int,
    arena: int | None = None,
    runs: int = 1,
    then: Sequence[Sequence[NDArray[Any]]] = (),
    apart: bool = False,
    find_smallest: bool = False,
    fill: int = 0,
    timeout_s: float | None = None,
) -> TflmRun:
    """Run a .tflite file in TensorFlow Lite Micro.

    Args:
        model: the file.
        inputs: one array an input of the main subgraph, in order.
        outputs: how many outputs it has.
        arena: bytes to give it; ample by default.
        runs: how often it runs with these inputs, and with each set of the others.
        then: more sets of inputs, which run afterwards, in the same interpreter.
        apart: each set in an interpreter of its own: none finds what variables had after another.
        find_smallest: look for the smallest arena that is enough, in steps of 16 bytes, in a process of its own:
            should it fail, the rest is known all the same.
        fill: what each byte of the arena is at first, as far as the system can do that; 0 for whatever it is.
        timeout_s: seconds for each process; None for ten minutes.

    Raises:
        MissingDependencyError: tflite-micro is not installed.
        RuntimeBindError: it cannot run the model, or not in that arena, or not in that time.
    """
    if not is_installed():
        raise MissingDependencyError("tflite-micro", purpose="running TensorFlow Lite Micro")
    given = arena or 4 * len(model) + (1 << 29)
    sets = (inputs, *then)
    counts = {"sets": len(sets), "inputs": len(inputs), "outputs": outputs, "runs": runs}
    job = {"arena": given, **counts, "apart": apart, "fill": fill, "smallest": 0}
    arrays = [value for values in sets for value in values]
    done = _ask(Message(job, arrays, model), timeout_s)
    head, tail = done.data["head"], done.data["tail"]
    each = tuple(tuple(done.arrays[n * outputs : (n + 1) * outputs]) for n in range(len(sets)))
    smallest, reason = 0, ""
    if find_smallest:
        try:
            smallest = _ask(Message({**job, "smallest": head + tail}, arrays, model), timeout_s).data["smallest"]
        except RuntimeBindError as e:
            reason = f"the smallest arena was not found: {e}"
    return TflmRun(each[-1], head, tail, smallest or None, reason, each, done.data["seconds"])


def trial_refusal(model: bytes, graph: Graph) -> str:
    """Why the installed TensorFlow Lite Micro does not prepare a model or, if it is small, run it once; "" if it does.

    Also "" if the package is not installed, or nothing came of the trial within 20 seconds.

    Args:
        model: a .tflite file.
        graph: the model's.
    """
    if not is_installed():
        return ""
    try:
        runs = int(count_macs(graph) <= _TRIAL_MACS)
        execute(model, input_values(graph), outputs=len(graph.outputs), runs=runs, timeout_s=_TRIAL_S)
    except _SlowError:
        return ""
    except (RuntimeBindError, UnsupportedError) as e:  # the latter: no values can be made for an input
        return str(e)
    return ""


class _SlowError(RuntimeBindError):
    """It did not end in time."""


def _ask(question: Message, timeout_s: float | None) -> Message:
    timeout_s = _TIMEOUT_S if timeout_s is None else timeout_s
    try:
        return call_child("edgemem.runtime.tflm.worker", question, timeout_s=timeout_s)
    except ChildError as e:
        if e.status is None:
            raise _SlowError(
                f"TensorFlow Lite Micro did not end within {timeout_s:g} s, and was ended: the model may loop for ever"
            ) from None
        raise RuntimeBindError(f"TensorFlow Lite Micro cannot run the model: {_reason(e)}") from None


def _reason(error: ChildError) -> str:
    """The line that says most about what went wrong."""
    lines = [line.strip() for line in error.output.splitlines() if line.strip()]
    for mark in _TELLING:
        for line in lines:
            if mark in line.lower():
                return f"{line}; {_FOLD}" if "DEQUANTIZE" in line or "DENSIFY" in line else line
    return str(error)
