"""The memory and latency of this process while it runs a model over and over: what `edgemem measure` reads.

Everything but numpy is imported where it is needed: what a runtime imports is a part of what its process takes.
"""

from __future__ import annotations

import gc
import time
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np

from edgemem.system.child_call import Message, serve
from edgemem.system.process_memory import anonymous_bytes, begin_peak, peak_bytes, proportional_bytes, resident_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

__all__ = ["MeasuredModel", "serve_measurement"]

_READ: Final = {"anonymous": anonymous_bytes, "proportional": proportional_bytes, "resident": resident_bytes}


class MeasuredModel(Protocol):
    """A model inside a runtime."""

    def allocate(self) -> None:
        """Allocate the tensors, where making the interpreter has not."""

    def feed(self, values: Sequence[NDArray[Any]]) -> None:
        """Set every input, in order."""

    def invoke(self) -> None:
        """Run once."""

    def outputs(self) -> Sequence[NDArray[Any]]:
        """Copies of the outputs of the last run, in order."""

    def report(self) -> dict[str, Any]:
        """What else is to be told, read after the memory."""


def serve_measurement(load: Callable[[Mapping[str, Any]], Callable[[], MeasuredModel]]) -> None:
    """Answer a task with figures.

    The task has the number of `requests` and of `inputs`, whose arrays it brings, `warm`, `served` and `repeats`. With
    a `meeting` the answer is `turns_ms`: processor time of runs that alternate with those of another process, without
    setting inputs. Else the figures are bytes, `None` where the system does not tell them: `imports`, anonymous memory
    of the runtime's modules; `anonymous`, `proportional`, `peak`, growth from before the interpreter is made until
    after the last run, with the greatest resident memory on the way for `peak`; `made`, what of `anonymous` was there
    before tensors were allocated. `load_ms` and `first_ms` are processor time.

    Args:
        load: imports the runtime for a task, and gives what makes its interpreter.
    """
    serve(lambda question: Message(_figures(question.data, question.arrays, load)))


def _figures(
    task: Mapping[str, Any],
    arrays: Sequence[NDArray[Any]],
    load: Callable[[Mapping[str, Any]], Callable[[], MeasuredModel]],
) -> dict[str, Any]:
    if "meeting" in task:
        return {"turns_ms": _turns(task, arrays, load)}
    requests = [arrays[k * task["inputs"] : (k + 1) * task["inputs"]] for k in range(task["requests"])]
    start = _readings()
    make = load(task)
    before = _readings()
    begin_peak()
    began = time.process_time()
    served = make()
    made_ms = (time.process_time() - began) * 1e3
    made = _readings()
    began = time.process_time()
    served.allocate()
    answer: dict[str, Any] = {"load_ms": made_ms + (time.process_time() - began) * 1e3}
    for k in range(task["warm"] + task["served"]):
        served.feed(requests[k % len(requests)])
        began = time.process_time()
        served.invoke()
        answer.setdefault("first_ms", (time.process_time() - began) * 1e3)
    peak = peak_bytes()
    after = _readings()
    answer["imports"] = _grown(start["anonymous"], before["anonymous"])
    answer["made"] = _grown(before["anonymous"], made["anonymous"])
    answer["anonymous"] = _grown(before["anonymous"], after["anonymous"])
    answer["proportional"] = _grown(before["proportional"], after["proportional"])
    answer["peak"] = _grown(before["resident"], peak)
    answer["digest"] = _digest(served, requests)
    return answer | served.report()


def _turns(
    task: Mapping[str, Any],
    arrays: Sequence[NDArray[Any]],
    load: Callable[[Mapping[str, Any]], Callable[[], MeasuredModel]],
) -> list[float]:
    from edgemem.system.meeting import Meeting

    meeting = Meeting(task["meeting"], task["number"], task["together"])
    requests = [arrays[k * task["inputs"] : (k + 1) * task["inputs"]] for k in range(task["requests"])]
    served = load(task)()
    served.allocate()
    for k in range(task["warm"]):
        served.feed(requests[k % len(requests)])
        served.invoke()
    times = []
    for turn in range(task["repeats"]):
        served.feed(requests[(task["warm"] + turn) % len(requests)])
        with meeting.turn(turn):
            began = time.process_time()
            served.invoke()
            times.append((time.process_time() - began) * 1e3)
    return times


def _readings() -> dict[str, int | None]:
    gc.collect()
    return {name: read() for name, read in _READ.items()}


def _grown(before: int | None, now: int | None) -> int | None:
    return None if before is None or now is None else max(0, now - before)


def _digest(served: MeasuredModel, requests: Sequence[Sequence[NDArray[Any]]]) -> str:
    """Of the outputs of each request, in an arena that holds what runs before have left."""
    from hashlib import sha256

    digest = sha256()
    for values in requests:
        served.feed(values)
        served.invoke()
        for output in served.outputs():
            digest.update(np.ascontiguousarray(output).tobytes())
    return digest.hexdigest()
