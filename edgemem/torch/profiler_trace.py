"""Traces from PyTorch's own profiler: no compiler is needed, and nothing of the program changes."""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from edgemem.errors import ModelError
from edgemem.trace import Trace

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

__all__ = ["trace_of_profiler"]


def trace_of_profiler(profiler: Any, *, device: str = "cpu", steps: str = "ProfilerStep#") -> Trace:
    """What was asked for while `torch.profiler.profile(profile_memory=True)` ran.

    Frees of what is older than the profile are left out. Of what a profiler notes on several threads at almost the same
    time the order may be wrong by as much; a block that is given again before its free was noted counts as freed.

    Args:
        profiler: the profiler, after it has stopped.
        device: whose memory: "cpu", or a device as PyTorch prints it, such as "cuda:0".
        steps: how the names of ranges begin that are iterations, one each: those that the profiler's `step` makes with
            a schedule, or those of `torch.profiler.record_function`.

    Raises:
        ModelError: the profiler has not stopped, or has noted no memory of the device.
    """
    results = getattr(getattr(profiler, "profiler", None), "kineto_results", None)
    if results is None:
        raise ModelError("the profiler has no results; end it first")
    events = list(_all(results.experimental_event_tree()))
    noted = [e for e in events if e.name == "[memory]" and str(e.extra_fields.device) == device]
    if not noted:
        raise ModelError(f"the profiler has noted no memory of {device}; profile with profile_memory=True")
    noted.sort(key=attrgetter("start_time_ns"))
    rows: list[tuple[int, int, int, int]] = []
    alive: dict[int, int] = {}
    made = 0
    for event in noted:
        place, size = event.extra_fields.ptr, event.extra_fields.alloc_size
        when, thread = event.start_time_ns, event.start_tid
        if place in alive:
            rows.append((0, alive.pop(place), when, thread))
        if size > 0:
            rows.append((size, made, when, thread))
            alive[place] = made
            made += 1
    size, request, time, thread = np.array(rows, np.int64).reshape(-1, 4).T
    ranges = [(e.start_time_ns, e.end_time_ns) for e in events if e.name.startswith(steps)]
    return Trace.from_columns(
        size, request, time - time[:1], thread, iteration=_iterations(time, np.array(sorted(ranges), np.int64))
    )


def _all(events: Any) -> Iterator[Any]:
    for event in events:
        yield event
        yield from _all(event.children)


def _iterations(time: NDArray[np.int64], ranges: NDArray[np.int64]) -> NDArray[np.int64]:
    """The range that each time lies in, or -1; ranges are half-open, ascending and disjoint."""
    if not len(ranges):
        return np.full(len(time), -1, np.int64)
    found = np.searchsorted(ranges[:, 0], time, side="right") - 1
    return np.where((found >= 0) & (time < ranges[found, 1]), found, -1)
