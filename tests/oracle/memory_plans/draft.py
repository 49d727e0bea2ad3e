"""Changes of honest plan sets, each of one kind: of places, records, what is unplanned, the target, and the rest.

Most are made consistent again afterwards (`repaired`): bounds and sizes are those of the changed records, so that a
checker has to look at the graph to find out.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from edgemem import OffsetPlan, PlanSet, Problem, SharedObjectsPlan, UsageRecord, lower_bounds
from edgemem.strategy.bounds import naive_size

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from random import Random

    from edgemem.records.problem import Size
    from tests.oracle.memory_plans.program import Program

__all__ = ["MUTATIONS", "Draft", "draft_of", "kind", "larger", "names_of", "planset_of", "random_size", "remove"]


@dataclass(slots=True)
class Draft:
    """A plan set with one plan, taken apart: records in order, with an offset or an object each."""

    program: Program
    planset: PlanSet
    plan: OffsetPlan | SharedObjectsPlan
    records: list[UsageRecord]
    places: list[int]
    objects: list[Size]
    overlap: list[tuple[int, int, int]]
    within: list[tuple[int, int, int]]
    alignment: int
    steps: int
    regions: list[int] | None = None

    @property
    def offsets(self) -> bool:
        return isinstance(self.plan, OffsetPlan)

    def any(self, rng: Random) -> int:
        return rng.randrange(len(self.records))

    def add(self, record: UsageRecord, place: int) -> None:
        self.records.append(record)
        self.places.append(place)
        if self.regions is not None:
            self.regions.append(0)

    def two(self, rng: Random) -> tuple[int, int]:
        a = self.any(rng)
        b = self.any(rng)
        return a, b if a != b else (a + 1) % len(self.records)


def draft_of(program: Program, planset: PlanSet, plan: OffsetPlan | SharedObjectsPlan) -> Draft:
    problem = planset.problem
    places = plan.offsets if isinstance(plan, OffsetPlan) else plan.assignment
    overlap, within = ([] if t is None else t.tolist() for t in (problem.overlap, problem.within))
    return Draft(
        program,
        planset,
        plan,
        list(problem.records),
        places.tolist(),
        [] if isinstance(plan, OffsetPlan) else list(plan.objects),
        overlap,
        within,
        problem.alignment,
        max(len(planset.steps), 1),
        plan.regions.tolist() if isinstance(plan, OffsetPlan) and plan.regions is not None else None,
    )


def planset_of(draft: Draft, *, repaired: bool) -> PlanSet:
    """The plan set that a draft says. Raises what the parts of a plan set raise when they are put together wrongly."""
    old = draft.planset
    problem = Problem(
        draft.records,
        alignment=draft.alignment,
        reserved=old.problem.given_reserved,
        overlap=draft.overlap,
        within=draft.within,
    )
    bounds, naive = old.bounds, old.naive
    size: int
    if repaired:
        bounds, naive = lower_bounds(problem), naive_size(problem)
    places = np.array(draft.places, np.int64)
    plan: Any = draft.plan
    if isinstance(plan, OffsetPlan):
        size = plan.size
        if repaired and plan.regions is None:
            live = problem.size > 0
            size = int((places + problem.size)[live].max(initial=0))
        regions = None if draft.regions is None else np.array(draft.regions, np.int64)
        plan = replace(plan, offsets=places, size=size, optimal=size == bounds.offsets, search=None, regions=regions)
        return replace(old, problem=problem, bounds=bounds, naive=naive, offsets=(plan,), shared_objects=())
    objects = list(draft.objects)
    if repaired:
        objects = [
            larger([r.size for r, p in zip(draft.records, draft.places, strict=True) if p == k]) or o
            for k, o in enumerate(objects)
        ]
    size = sum(int(np.prod(o)) for o in objects)
    plan = replace(
        plan, assignment=places, objects=tuple(objects), size=size, optimal=size == bounds.shared_objects, search=None
    )
    return replace(old, problem=problem, bounds=bounds, naive=naive, offsets=(), shared_objects=(plan,))


def larger(sizes: Sequence[Size]) -> Size | None:
    """What holds all of them."""
    if not sizes:
        return None
    if isinstance(sizes[0], tuple):
        return tuple(map(max, zip(*sizes, strict=True)))
    return max(sizes)


# A change gives the changed draft or plan set, or None where it does not apply.
Mutation: TypeAlias = "Callable[[Random, Draft], Draft | PlanSet | None]"
MUTATIONS: dict[str, Mutation] = {}


def kind(name: str) -> Callable[[Mutation], Mutation]:
    """Registers a change under a name."""

    def register(change: Mutation) -> Mutation:
        MUTATIONS[name] = change
        return change

    return register


def random_size(rng: Random, size: Size) -> Size:
    if isinstance(size, int):
        return max(size + rng.choice((-16, -4, -1, 1, 4, 16, 64)), 0)
    w, h = size[0], size[1]
    return rng.choice(
        ((h, w), (w + 1, h), (max(w - 1, 0), h), (w, max(h - 1, 0)), (w * h, 1), (1, w * h), (2 * w, -(-h // 2)))
    )


def names_of(record: UsageRecord) -> tuple[str, ...]:
    return record.tensors or (record.name,)


def remove(d: Draft, k: int) -> None:
    del d.records[k], d.places[k]
    if d.regions is not None:
        del d.regions[k]
    d.overlap = [(i - (i > k), j - (j > k), v) for i, j, v in d.overlap if k not in (i, j)]
    d.within = [(i - (i > k), j - (j > k), v) for i, j, v in d.within if k not in (i, j)]
