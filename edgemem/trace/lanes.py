"""Cycles of programs whose threads each do the same again and again, but not in step with each other.

    iteration   0                  1                  2
    thread 0    a   b B    A       a b   B    A       a   b  B   A      the same requests and frees each time
    thread 1      c     C               c  C            c      C        the same, at other moments of thread 0

No cycle of both agrees. Each thread has one of its own; their plans must not share memory, because nobody knows what of
the other thread is alive when.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from edgemem.errors import ModelError
from edgemem.trace.cycle import Cycle

if TYPE_CHECKING:
    from edgemem.trace.trace import Trace

__all__ = ["of_lane", "steady_cycles"]


def steady_cycles(trace: Trace, *, one_stream: bool = False) -> tuple[Cycle, ...]:
    """The cycle of a trace, or if its threads are not in step those of the threads that repeat themselves.

    Args:
        trace: with at least two iterations.
        one_stream: only of the lane with the most bytes: lanes are streams of a device, of which one has places.

    Returns:
        One cycle of all requests; or one each of several threads, the one with the most bytes first. Threads that do
        not repeat themselves are left out.

    Raises:
        ModelError: as `Cycle.of`, if the thread with the most bytes does not repeat itself either.
    """
    made = trace.requests[trace.iteration[trace.requests] >= 0]
    lanes, number = np.unique(trace.thread[made], return_inverse=True)
    by_weight = lanes[np.argsort(-np.bincount(number, trace.size[made]), kind="stable")].tolist()
    if one_stream and len(lanes) > 1:
        return (Cycle.of(of_lane(trace, by_weight[0])),)
    try:
        return (Cycle.of(trace),)
    except ModelError:
        if len(lanes) < 2:
            raise
        found = _apart(trace, by_weight)
        if not found:
            raise
        return found


def _apart(trace: Trace, lanes: list[int]) -> tuple[Cycle, ...]:
    """The cycles of those lanes that have one; () if the first of them has none."""
    found: list[Cycle] = []
    for lane in lanes:
        try:
            found.append(Cycle.of(of_lane(trace, lane)))
        except ModelError:
            if not found:
                break
    return tuple(found)


def of_lane(trace: Trace, lane: int) -> Trace:
    """The requests of one thread, or stream of a device, and their frees wherever they come."""
    is_kept = trace.thread[trace.requests] == lane
    events = np.flatnonzero(is_kept[trace.request])
    number = np.cumsum(is_kept) - 1
    columns = {
        name: getattr(trace, name)[events] for name in ("size", "time_ns", "thread", "stream", "section", "iteration")
    }
    return replace(trace, request=number[trace.request[events]], **columns)
