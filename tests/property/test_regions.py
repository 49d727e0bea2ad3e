"""Plans in several regions: against trying everything, and against an integer program with offsets."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from edgemem.errors import BudgetExceededError, ModelError
from edgemem.planning.regions import plan_in_regions
from edgemem.plans import Settings
from edgemem.proof import prove
from edgemem.records.problem import Problem, UsageRecord
from edgemem.report.regions import region_uses
from edgemem.targets import BUILT_IN, Region
from tests.extent import run_for_seeds
from tests.oracle.brute import offsets_optimum
from tests.oracle.regions import Memory, cheapest, cheapest_by_program
from tests.oracle.relations import Related
from tests.related import related_records

if TYPE_CHECKING:
    from collections.abc import Sequence


def planned(problem: Problem, memories: Sequence[Memory]) -> tuple[int | None, int | None]:
    """The cost of the plan and its lower bound; None for the cost if nothing fits, which is proved if both are None.

    The plan is proved, capacities included.
    """
    regions = tuple(Region(f"r{k}", m.capacity, tuple(m.reserved), m.cost, m.alignment) for k, m in enumerate(memories))
    error: BudgetExceededError | None = None
    try:
        planset = plan_in_regions(problem, regions, Settings())
    except BudgetExceededError as e:
        error = e
    if error is not None:
        assert any(name in str(error) for name in problem.names), error
        assert any(region.name in str(error) for region in regions), error
        return None, None if error.impossible else 0
    target = replace(BUILT_IN["generic"], alignment=1, regions=regions)
    planset = replace(planset, target=target)
    prove(planset)
    uses = region_uses(planset)
    for use, memory in zip(uses, memories, strict=True):
        assert memory.capacity is None or use.arena <= memory.capacity
    best = planset.best_offsets
    assert best is not None
    return sum(use.cost for use in uses), best.cost_bound


def drawn(seed: int, count: int, steps: int) -> tuple[list[tuple[int, int, int]], list[int], list[Memory]]:
    """Records, what operators move in them, and two or three memories of which the first ones are short."""
    rng = random.Random(seed)
    records, traffic = [], []
    for _ in range(count):
        first = rng.randrange(steps)
        last = min(steps - 1, first + (rng.randrange(1, 4) if rng.random() < 0.8 else rng.randrange(steps)))
        size = rng.randrange(1, 200) * rng.choice((1, 1, 4))
        records.append((first, last, size))
        traffic.append(size * rng.randrange(1, 7))
    alive = max(sum(size for a, b, size in records if a <= t <= b) for t in range(steps))
    memories = [
        Memory(int(alive * rng.uniform(0.05, 0.4)), 1),
        Memory(int(alive * rng.uniform(0.3, 0.7)), rng.randrange(1, 6), alignment=rng.choice((1, 32))),
        Memory(int(alive * rng.uniform(0.2, 1.3)) if rng.random() < 0.4 else None, rng.randrange(6, 20)),
    ]
    return records, traffic, memories if rng.random() < 0.8 else memories[:2]


def problem_of(records: Sequence[tuple[int, int, int]], traffic: Sequence[int], regions: int) -> Problem:
    every = tuple(range(regions))
    rows = [
        UsageRecord(f"t{k}", *record, regions=every, traffic=moved)
        for k, (record, moved) in enumerate(zip(records, traffic, strict=True))
    ]
    return Problem(rows, alignment=16)


@run_for_seeds(range(200), quick=20, most=40)
def test_few_records_cost_as_little_as_can_be(seed: int) -> None:
    records, traffic, memories = drawn(seed, 2 + seed % 5, 6)
    least = cheapest(
        Related(records, 16), traffic, memories, arena=lambda part: offsets_optimum(part.records, part.alignment)
    )
    cost, bound = planned(problem_of(records, traffic, len(memories)), memories)
    assert cost == least
    assert bound is None if least is None else bound is not None and bound <= least


@run_for_seeds(range(100), quick=4, most=8)
def test_it_finds_what_an_integer_program_finds(seed: int) -> None:
    pytest.importorskip("ortools")
    records, traffic, memories = drawn(seed, 12 + seed % 24, 20)
    memories[-1] = replace(memories[-1], capacity=None)  # something fits
    least = cheapest_by_program(records, 16, traffic, memories)
    cost, bound = planned(problem_of(records, traffic, len(memories)), memories)
    assert least is not None
    assert cost is not None
    assert bound is not None
    assert bound <= least <= cost <= 1.02 * least


@given(related_records(most=4), st.data())
@settings(deadline=None)
def test_relations_pins_and_reserved_ranges_hold_in_each_region(related: Related, data: st.DataObject) -> None:
    count = len(related.records)
    traffic = data.draw(st.lists(st.integers(0, 9), min_size=count, max_size=count))
    memories = [
        Memory(data.draw(st.none() | st.integers(1, 12)), data.draw(st.integers(0, 3))),
        Memory(
            data.draw(st.none() | st.integers(1, 12)),
            data.draw(st.integers(0, 3)),
            data.draw(st.sampled_from((1, 2, 4))),
            data.draw(st.sampled_from(((), ((4, 8),)))),
        ),
    ]
    allowed = [data.draw(st.sampled_from(((0,), (1,), (0, 1), (0, 1)))) for _ in range(count)]
    rows = [
        UsageRecord(f"t{i}", *record, offset=related.pinned.get(i), regions=allowed[i], traffic=traffic[i])
        for i, record in enumerate(related.records)
    ]
    try:
        problem = Problem(
            rows,
            alignment=related.alignment,
            reserved=related.reserved,
            overlap=related.overlap,
            within=related.within,
        )
    except ModelError:
        assume(False)
    least = cheapest(related, traffic, memories, allowed)
    cost, bound = planned(problem, memories)
    assert cost == least
    assert bound is None or least is None or bound <= least
