"""One strategy's answer as a plan: its size, its bound and whether it is proved optimal."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from edgemem.plans import OffsetPlan, SearchReport, SharedObjectsPlan
from edgemem.strategy.options import default_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from edgemem.planning.choice import Choice
    from edgemem.plans import LowerBounds, Plan
    from edgemem.records.problem import Problem, Size

__all__ = ["run"]


def run(problem: Problem, choice: Choice, bounds: LowerBounds, seconds: float | None = None) -> Plan:
    """One strategy's plan.

    Args:
        problem: the usage records.
        choice: what to run; its options are kept with the plan.
        bounds: of the problem.
        seconds: what is left to a strategy that takes a time limit, instead of the one among its options.
    """
    strategy, options = choice.strategy, dict(choice.options)
    found = strategy.solve(problem, **options if seconds is None else options | {"time_limit": seconds})
    result = found.values
    result.flags.writeable = False
    bound = bounds.offsets if strategy.family == "offsets" else bounds.shared_objects
    report = None
    if found.bound is not None:
        seed = options.get("seed", default_of(strategy.options["seed"])) if "seed" in strategy.options else None
        bound = max(bound, found.bound)
        report = SearchReport(bound, found.stopped, found.work, seed if isinstance(seed, int) else None)
    if strategy.family == "offsets":
        tops = (result + problem.size)[problem.size > 0]
        size = int(tops.max()) if len(tops) else 0
        return OffsetPlan(strategy.name, options, result, size, size == bound, report)
    objects = _object_sizes(problem, result.tolist())
    size = sum(o if isinstance(o, int) else prod(o) for o in objects)
    return SharedObjectsPlan(strategy.name, options, result, objects, size, size == bound, report)


def _object_sizes(problem: Problem, assignment: Sequence[int]) -> tuple[Size, ...]:
    count = max(assignment, default=-1) + 1
    if problem.extents is None:
        sizes = [0] * count
        for number, size in zip(assignment, problem.size.tolist(), strict=True):
            sizes[number] = max(sizes[number], size)
        return tuple(sizes)
    rank = problem.extents.shape[1]
    extents = [(0,) * rank] * count
    for number, extent in zip(assignment, problem.extents.tolist(), strict=True):
        extents[number] = tuple(map(max, extents[number], extent))
    return tuple((e[0], e[1]) if rank == 2 else (e[0], e[1], e[2]) for e in extents)
