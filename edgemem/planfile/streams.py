"""A recorded stream taken apart: the usage records of a problem, and the requests that stay on the heap.

    event      0    1    2    3    4    5
    stream   +64  +32   -0  +64   -2  +16
    records  |--------|     |---|              first_op 0, last_op 1; first_op 3, last_op 3
    heap          |-------------------------   event 1, 32 bytes, no end;  event 5, 16 bytes, no end
                                        |---

The record of a request goes from its allocation to the event before its free. A request that is never freed either is
on the heap, or has a record that goes to the last event. So the two columns of requests and the number of events say
all that the stream says.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from edgemem.errors import PlanFileError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from edgemem.records.problem import Problem
    from edgemem.trace.trace import Trace

__all__ = ["HeapRequests", "heap_requests", "stream_of"]


@dataclass(frozen=True, slots=True, eq=False)
class HeapRequests:
    """Requests without a place in the plan, in order; int64 columns of one length.

    Attributes:
        events: that allocate them, ascending.
        sizes: bytes.
        ends: the events that free them, -1 for those that are never freed.
    """

    events: NDArray[np.int64]
    sizes: NDArray[np.int64]
    ends: NDArray[np.int64]


def heap_requests(trace: Trace, problem: Problem) -> HeapRequests:
    """The requests of a trace that have no record in the problem."""
    requests = trace.requests
    rest = ~np.isin(requests, problem.first_op)
    return HeapRequests(requests[rest], trace.size[requests[rest]], trace.ends[rest])


def stream_of(problem: Problem, heap: HeapRequests, count: int) -> NDArray[np.int64]:
    """The `count` events as `Trace.from_stream` reads them: n > 0 asks for n bytes, -k - 1 frees request k.

    Takes time and memory in proportion to the requests, whatever `count` is. Raises PlanFileError unless the records
    are in the order of their requests, and each event is the allocation or the free of exactly one request.
    """
    if not len(heap.events) == len(heap.sizes) == len(heap.ends):
        raise PlanFileError("the columns of requests on the heap differ in length")
    if problem.extents is not None:
        raise PlanFileError("the records of a recording have sizes in texels")
    if (np.diff(problem.first_op) <= 0).any() or (np.diff(heap.events) <= 0).any():
        raise PlanFileError("the requests are not in the order of their events")
    if (problem.last_op >= count).any() or (heap.ends >= count).any():
        raise PlanFileError(f"a request ends after the last of {count} events")
    starts = np.concatenate((problem.first_op, heap.events))
    ends = np.concatenate((problem.last_op + 1, np.where(heap.ends < 0, count, heap.ends)))
    sizes = np.concatenate((problem.size, heap.sizes))
    if (heap.events < 0).any() or (heap.ends < -1).any() or (ends <= starts).any():
        raise PlanFileError("a request on the heap has an event that is none, or ends before it begins")
    if (sizes <= 0).any():
        raise PlanFileError("a request asks for no bytes")
    freed = ends < count
    if count != len(starts) + int(freed.sum()):
        raise PlanFileError(f"{count} events for {len(starts)} requests, of which {int(freed.sum())} are freed")
    asks, frees = np.zeros(count, bool), np.zeros(count, bool)
    asks[starts] = True
    frees[ends[freed]] = True
    if not (asks ^ frees).all():
        raise PlanFileError("events are missing, or one belongs to two requests")
    numbers = np.cumsum(asks) - 1  # the request that an allocation makes
    stream = np.zeros(count, np.int64)
    stream[starts] = sizes
    stream[ends[freed]] = -numbers[starts[freed]] - 1
    return stream
