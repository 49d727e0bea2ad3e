"""What must hold of a cycle in a plan file: complete, within range, and that of the records beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from edgemem.errors import PlanFileError

if TYPE_CHECKING:
    from edgemem.records.problem import Problem
    from edgemem.trace.cycle import Cycle

__all__ = ["check_cycle"]

# Most events for each request, and besides. A period has two for each request, and frees of dynamic ones before it;
# what is computed for a period takes memory for each of its events.
_MOST_EVENTS: Final = 16
_MORE_EVENTS: Final = 1 << 20
_LATEST: Final = 2**62


def check_cycle(cycle: Cycle, problem: Problem) -> None:
    """Raise PlanFileError unless each part of a cycle is within range, and its records are those of the problem."""
    count = len(cycle.size)
    columns = (cycle.start, cycle.end, cycle.lane, cycle.section, cycle.free_section, cycle.is_dynamic)
    if any(len(column) != count for column in columns):
        raise PlanFileError("the columns of the cycle differ in length")
    if not 0 <= cycle.length <= _MOST_EVENTS * count + _MORE_EVENTS:
        raise PlanFileError(f"a period of {cycle.length} events has {count} requests")
    if (cycle.size < 1).any():
        raise PlanFileError("a request of the cycle asks for no bytes")
    if (np.diff(cycle.start, prepend=-1) <= 0).any() or (cycle.start >= cycle.length).any():
        raise PlanFileError("the requests of the cycle are not in the order of their events")
    if ((cycle.end != -1) & (cycle.end <= cycle.start)).any() or (cycle.end > _LATEST).any():
        raise PlanFileError("a request of the cycle ends before it begins, or beyond all time")
    if (cycle.lane < 0).any():
        raise PlanFileError("a request of the cycle has no lane")
    for column in (cycle.section, cycle.free_section):
        if (column < -1).any() or (column >= len(cycle.sections)).any():
            raise PlanFileError(f"a request of the cycle is in a section that is none of the {len(cycle.sections)}")
    if any(section.phase < -1 for section in cycle.sections):
        raise PlanFileError("a section of the cycle has a phase below -1")
    if not cycle.has_problem(problem):
        raise PlanFileError("the records are not those of the cycle")
