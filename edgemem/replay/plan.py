"""A recording's plan in the form that the allocator replays."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from edgemem.errors import InvalidPlanError
from edgemem.replay.library import Handle, library

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from edgemem.plans import PlanSet
    from edgemem.proof import Proved

__all__ = ["ReplayPlan", "places_of", "replay_plan"]

_MOST_ALIGNMENT = 64  # of what the allocator is asked for


class ReplayPlan(Handle):
    """Expected events and their places, proved by the library before it takes them.

    Args:
        stream: signed events as `Trace.events`.
        offsets: bytes for each request, or -1 for the heap.
        size: of the arena in bytes.
        alignment: of the offsets, up to 64.

    Raises:
        InvalidPlanError: two requests would overlap, or an event makes no sense.
    """

    def __init__(
        self, stream: NDArray[np.int64], offsets: NDArray[np.int64], size: int, *, alignment: int = 64
    ) -> None:
        c = library().c
        events = np.ascontiguousarray(stream, np.int64)
        places = np.ascontiguousarray(offsets, np.int64)
        pointer = c.em_plan_create(events.ctypes.data, len(events), places.ctypes.data, len(places), size, alignment)
        if not pointer:
            raise InvalidPlanError(f"the allocator refuses the plan: {library().error()}; plan again")
        super().__init__(pointer, c.em_plan_release, "no plan")
        self.size = size
        self.events = len(events)


def replay_plan(proved: Proved) -> ReplayPlan:
    """The plan of a recording for the allocator.

    Args:
        proved: plans of a recording; the smallest offset plan is taken.

    Raises:
        InvalidPlanError: the plan set is not of a recording, has no offset plan, takes more memory than its records end
            to end (a proof accepts that, but no strategy makes such a plan), or the allocator refuses the plan.
    """
    planset = proved.planset
    best = planset.best_offsets
    if planset.recording is None or best is None:
        raise InvalidPlanError("there is no offset plan of a recording to replay; record the model again")
    # Each record padded: the naive size leaves the last one as it is, which need not be the last one in the arena.
    most = -(-planset.naive // planset.problem.alignment) * planset.problem.alignment
    if best.size > most:
        raise InvalidPlanError(
            f"the plan takes {best.size:,} bytes, and its records end to end {most:,}; record the model again"
        )
    return ReplayPlan(
        planset.recording.trace.events,
        places_of(planset),
        best.size,
        alignment=min(planset.problem.alignment, _MOST_ALIGNMENT),
    )


def places_of(planset: PlanSet) -> NDArray[np.int64]:
    """The place of every request of a recording's plan in bytes, -1 for those on the heap; int64 [requests].

    Record i of the problem is the request that the event `first_op[i]` makes.
    """
    assert planset.recording is not None
    assert planset.best_offsets is not None
    requests = planset.recording.trace.requests
    places = np.full(len(requests), -1, np.int64)
    places[np.searchsorted(requests, planset.problem.first_op)] = planset.best_offsets.offsets
    return places
