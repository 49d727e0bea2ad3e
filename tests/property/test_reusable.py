"""Dynamic Reusable Space against the equations, byte by byte."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from edgemem.planning import make_plans
from edgemem.planning.choice import choices
from edgemem.trace.cycle import Cycle
from edgemem.trace.reusable_spaces import reusable_spaces
from edgemem.trace.trace import Section
from tests.oracle import reusable as oracle

ALIGNMENT = 4
SECTIONS = 4


@st.composite
def cycles(draw: st.DrawFn) -> Cycle:
    """A few requests, static and dynamic; each section is entered by one lane alone."""
    n = draw(st.integers(1, 9))
    idle = draw(st.integers(0, 3))
    positions = draw(st.permutations(range(2 * n + idle)))
    length = len(positions)
    starts, ends = positions[:n], positions[n : 2 * n]
    periods = draw(st.lists(st.sampled_from((0, 0, 0, 1)), min_size=n, max_size=n))
    # A free comes after the request, in this period or a later one.
    end = [e + length * (p + (e < s)) for s, e, p in zip(starts, ends, periods, strict=True)]
    never = draw(st.sets(st.integers(0, n - 1), max_size=1))
    end = [-1 if k in never else e for k, e in enumerate(end)]
    section = draw(st.lists(st.integers(-1, SECTIONS - 1), min_size=n, max_size=n))
    freed_in = draw(st.lists(st.integers(-1, SECTIONS - 1), min_size=n, max_size=n))
    lanes = draw(st.integers(1, 2))
    order = np.argsort(starts)

    def column(values: list[int]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        return np.array(values, np.int64)[order]

    return Cycle(
        length,
        column(draw(st.lists(st.integers(1, 12), min_size=n, max_size=n))),
        column(starts),
        column(end),
        np.maximum(column(section), 0) % lanes,
        column(section),
        column([-1 if e < 0 else s for e, s in zip(end, freed_in, strict=True)]),
        np.array(draw(st.lists(st.booleans(), min_size=n, max_size=n)), bool),
        tuple(Section(f"layer {k}", 0, is_dynamic=False) for k in range(SECTIONS)),
    )


@given(cycles())
def test_equal_to_the_equations(cycle: Cycle) -> None:
    problem, _ = cycle.problem(ALIGNMENT)
    planset = make_plans(problem, choices("offsets/greedy_by_size"))
    slots = cycle.slots(planset)
    space, spaces = reusable_spaces(cycle, planset)
    assert (space[~cycle.is_dynamic] == -1).all()
    lanes = dict(zip(cycle.section[::-1].tolist(), cycle.lane[::-1].tolist(), strict=True))
    made = [
        oracle.Event(*row)
        for row in zip(cycle.start.tolist(), cycle.lane.tolist(), cycle.section.tolist(), strict=True)
    ]
    freed = {
        k: oracle.Event(end % cycle.length, lanes.get(section, lane), section)
        for k, (end, lane, section) in enumerate(
            zip(cycle.end.tolist(), cycle.lane.tolist(), cycle.free_section.tolist(), strict=True)
        )
        if end >= 0
    }
    static = []
    for k, (offset, other) in enumerate(zip(slots.offset.tolist(), slots.other.tolist(), strict=True)):
        places = [place for place in (offset, other) if place >= 0]
        span = range(int(cycle.start[k]), int(cycle.end[k])) if len(places) == 1 else range(cycle.length)
        positions = frozenset(p % cycle.length for p in span)
        static += [oracle.Static(place, int(cycle.size[k]), positions) for place in places]
    for k in np.flatnonzero(cycle.is_dynamic).tolist():
        found = spaces[space[k]]
        if not static:
            assert not len(found)
            continue
        if k in freed:
            lifetime = int(cycle.end[k] - cycle.start[k])
            during = oracle.temporal_range([*made, *freed.values()], made[k], freed[k], lifetime, cycle.length)
        else:
            during = set(range(cycle.length))
        wanted = oracle.reusable_bytes(static, during)
        bytes_found = {byte for low, high in found.tolist() for byte in range(low, high)}
        assert bytes_found == {b for b in wanted if set(range(b // ALIGNMENT * ALIGNMENT, b)) <= wanted}
        assert all(low % ALIGNMENT == 0 and low < high for low, high in found.tolist())
        assert found.reshape(-1).tolist() == sorted(set(found.reshape(-1).tolist()))
