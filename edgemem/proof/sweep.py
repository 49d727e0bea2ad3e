"""Proof by a sweep over time: records alive at the same operator never overlap in the arena, nor share an object.

The sweeps run in a kernel of the proof's own (kernels/proof), which shares no code with the planner's.
"""

from __future__ import annotations

from itertools import chain, islice
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from edgemem.errors import PlanError
from edgemem.native import kernels
from edgemem.plans import OffsetPlan
from edgemem.proof.faults import COLUMNS, describe_object_faults, describe_offset_faults
from edgemem.proof.regions import regions_of, sweep_alignments, sweep_capacity, sweep_regions
from edgemem.proof.relations import Regions, Relations, relations_of
from edgemem.proof.violations import MOST, Cause, Violation, violation

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from edgemem.plans import Plan, PlanSet, SharedObjectsPlan
    from edgemem.records.problem import Problem, Size
    from edgemem.targets import Target

    Column = NDArray[np.int64]

__all__ = ["sweep_claims", "sweep_plan"]

INT64_MAX = 2**63 - 1
# The sides of an object as kernels take them: none in this dimension, and any that is less than nothing.
_ABSENT, _NEGATIVE = -2, -1


def sweep_plan(
    problem: Problem,
    plan: Plan,
    target: Target | None = None,
    relations: Relations | None = None,
    regions: Regions | None = None,
) -> tuple[Violation, ...]:
    """Everything that is wrong with one plan for these records; () proves it right.

    With the target they come from, also that its reserved ranges are kept clear. Relations and regions are those of the
    problem and the plan unless others are given; they concern offset plans only. At most 100 violations.

    Raises:
        PlanError: offsets or objects are not integers within int64.
        ValueError: relations or regions that no records can have (`Relations`).
    """
    if isinstance(plan, OffsetPlan):
        reserved = problem.reserved if target is None else (*problem.reserved, *target.region.reserved)
        where = regions_of(plan, target) if regions is None else regions
        check = _offsets(problem, plan, reserved, relations or relations_of(problem), where)
    else:
        check = _objects(problem, plan)
    return tuple(islice(check, MOST))


def sweep_claims(planset: PlanSet, relations: Relations | None = None) -> Iterator[Violation]:
    """Bounds, naive size and `optimal` flags, recomputed by sweeps of their own; states that are not kept."""
    problem = planset.problem
    given = relations or relations_of(problem)
    columns = (problem.first_op, problem.last_op, problem.size, problem.alignment)
    offsets, objects, naive = kernels.recompute_claims(*columns, **problem.constraints, **given.columns)
    if problem.regions is not None:
        offsets = _bound_of_regions(problem, given)
    for family, claimed, true in (
        ("offsets", planset.bounds.offsets, offsets),
        ("shared objects", planset.bounds.shared_objects, objects),
    ):
        if claimed != true:
            yield Violation(Cause.WRONG_BOUND, f"the lower bound for {family} is {true}, not {claimed}")
    if planset.naive != naive:
        yield Violation(Cause.WRONG_NAIVE, f"the records take {naive} end to end, not {planset.naive}")
    yield from _sweep_states(problem, given)
    yield from sweep_capacity(planset)
    yield from _sweep_optimal(planset.offsets, offsets)
    yield from _sweep_optimal(planset.shared_objects, objects)


def _bound_of_regions(problem: Problem, relations: Relations) -> int:
    """What all arenas together cannot go below where records are tied to regions.

    Each region may have a record on top that needs no padding, and there may be room in another than the one where
    something is pinned. So sizes count without padding, and what is pinned only by its end.
    """
    columns = relations.columns
    if "overlap" in columns:
        # Distances of offsets that are multiples of the alignment.
        rows = columns["overlap"].reshape(-1, 3).copy()
        rows[:, 2] = -(-rows[:, 2] // problem.alignment) * problem.alignment
        columns["overlap"] = rows.reshape(-1)
    bound: int = kernels.recompute_claims(problem.first_op, problem.last_op, problem.size, 1, **columns)[0]
    if problem.pinned is None:
        return bound
    held = (problem.pinned >= 0) & (problem.size > 0)
    return max(bound, int((problem.pinned + problem.size)[held].max(initial=0)))


def _sweep_states(problem: Problem, relations: Relations) -> Iterator[Violation]:
    """States that do not live from the first operator to the last."""
    if relations.state is None:
        return
    first, last, end = problem.first_op, problem.last_op, int(problem.last_op.max(initial=0))
    for index in np.flatnonzero(relations.state.astype(bool) & ((first > 0) | (last < end)))[:MOST].tolist():
        name = problem.names[index]
        message = f"{name!r} lives from {first[index]} to {last[index]}, the run from 0 to {end}"
        yield Violation(Cause.STATE_NOT_KEPT, message, records=(name,))


def _sweep_optimal(plans: Sequence[Plan], bound: int) -> Iterator[Violation]:
    """Sizes against the bound, and against what searches say they proved, which no plan may disprove.

    A plan is optimal at the bound, or at what a search of this process proved; not at what a file claims.
    """
    smallest = min(plans, key=lambda p: p.size, default=None)
    proved = bound
    for plan in plans:
        if plan.size < bound:
            yield Violation(Cause.BELOW_BOUND, f"{plan.size} is below the lower bound {bound}", plan.strategy)
        if plan.search and smallest and plan.search.bound > max(smallest.size, bound):
            who = "it claims" if plan.search.claimed else "it proved"
            message = f"{who} that nothing is below {plan.search.bound}, but {smallest.strategy} is {smallest.size}"
            yield Violation(Cause.WRONG_BOUND, message, plan.strategy)
        elif plan.search and not plan.search.claimed:
            proved = max(proved, plan.search.bound)
    # Above the bound a plan may be optimal by a search whose own plan was left out; no file brings such a plan.
    for plan in plans:
        if plan.size == proved and not plan.optimal:
            yield Violation(
                Cause.FALSE_OPTIMAL, "its size is the lower bound, but it is not marked as optimal", plan.strategy
            )


def _offsets(
    problem: Problem,
    plan: OffsetPlan,
    reserved: Iterable[tuple[int, int]],
    relations: Relations,
    regions: Regions | None,
) -> Iterator[Violation]:
    if len(plan.offsets) != len(problem):
        yield violation(plan, Cause.WRONG_LENGTH, f"{len(plan.offsets)} offsets for {len(problem)} records")
        return
    if regions is not None and len(regions.of) != len(problem):
        yield violation(plan, Cause.WRONG_LENGTH, f"{len(regions.of)} regions for {len(problem)} records")
        return
    arenas = (plan.size,) if regions is None else regions.sizes
    for size in arenas:
        if abs(size) > INT64_MAX:
            yield violation(plan, Cause.WRONG_SIZE, f"no arena has {size} bytes")
            return
    # What the problem and the target reserve is in the first region.
    of_regions = [_joined(chain(reserved, *(regions.reserved[:1] if regions else ())))]
    columns = {}
    if regions is not None:
        of_regions += [_joined(ranges) for ranges in regions.reserved[1:]]
        columns["region"] = _column(regions.of, "regions", plan)
        columns["reserved_region"] = np.repeat(np.arange(len(of_regions)), [len(ranges) for ranges in of_regions])
    ranges = list(chain.from_iterable(of_regions))
    ends = [min(end, INT64_MAX) for end in chain.from_iterable(ranges)]
    rows = kernels.find_offset_faults(
        problem.first_op,
        problem.last_op,
        problem.size,
        problem.alignment,
        _column(plan.offsets, "offsets", plan),
        np.array(arenas, np.int64),
        pinned=problem.pinned,
        reserved=np.array(ends, np.int64),
        **relations.columns,
        **columns,
    )
    yield from describe_offset_faults(problem, plan, rows.reshape(-1, COLUMNS).tolist(), ranges, regions)
    yield from sweep_regions(problem, plan)
    if regions is not None:
        yield from sweep_alignments(problem, plan, regions)


def _objects(problem: Problem, plan: SharedObjectsPlan) -> Iterator[Violation]:
    if len(plan.assignment) != len(problem):
        yield violation(plan, Cause.WRONG_LENGTH, f"{len(plan.assignment)} objects assigned to {len(problem)} records")
        return
    extents = problem.size.reshape(-1, 1) if problem.extents is None else problem.extents
    sides, total = _sides(plan.objects)
    assignment = _column(plan.assignment, "objects", plan)
    rows = kernels.find_object_faults(problem.first_op, problem.last_op, extents, assignment, sides)
    yield from describe_object_faults(problem, plan, rows.reshape(-1, COLUMNS).tolist())
    if total != plan.size:
        yield violation(plan, Cause.WRONG_SIZE, f"the objects add up to {total}, not {plan.size}")


def _sides(objects: Sequence[Size]) -> tuple[Column, int]:
    """The objects as rows of one length, as kernels take them, and their total in bytes or texels."""
    rows = [list(size) if isinstance(size, tuple) else [int(size)] for size in objects]
    rank = max(map(len, rows), default=1)
    known = [[min(max(side, _NEGATIVE), INT64_MAX) for side in row] + [_ABSENT] * (rank - len(row)) for row in rows]
    return np.array(known, np.int64).reshape(len(rows), rank), sum(map(prod, rows))


def _column(values: NDArray[np.int64], what: str, plan: Plan) -> Column:
    array = np.asarray(values)
    if array.size == 0:
        return np.zeros(0, np.int64)
    if array.dtype.kind not in "iu" or (array.dtype == np.uint64 and (array > INT64_MAX).any()):
        raise PlanError(f"{plan.strategy}: {what} of type {array.dtype} are no integers within int64; use int64")
    return np.ascontiguousarray(array, np.int64)


def _joined(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    joined: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if joined and joined[-1][1] >= low:
            joined[-1] = (joined[-1][0], max(joined[-1][1], high))
        elif low < high:
            joined.append((low, high))
    return joined
