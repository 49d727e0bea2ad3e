"""Proof by a sweep over time: records alive at the same operator never overlap in the arena, nor share an object."""

from __future__ import annotations

import heapq
from bisect import bisect_left, insort
from collections import Counter
from itertools import islice
from math import prod
from typing import TYPE_CHECKING

from edgemem.plans import OffsetPlan
from edgemem.proof.pins import sweep_pinned_bound, sweep_pins
from edgemem.proof.violations import MOST, Cause, Violation, violation

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from edgemem.plans import Plan, PlanSet, SharedObjectsPlan
    from edgemem.records.problem import Problem
    from edgemem.targets import Target

__all__ = ["sweep_claims", "sweep_plan"]


def sweep_plan(problem: Problem, plan: Plan, target: Target | None = None) -> tuple[Violation, ...]:
    """Everything that is wrong with one plan for these records; () proves it right.

    With the target they come from, also that its reserved ranges are kept clear.
    """
    if isinstance(plan, OffsetPlan):
        reserved = problem.reserved if target is None else (*problem.reserved, *target.region.reserved)
        check = _offsets(problem, plan, _joined(reserved))
    else:
        check = _objects(problem, plan)
    return tuple(islice(check, MOST))


def sweep_claims(planset: PlanSet) -> Iterator[Violation]:
    """Bounds, naive size and `optimal` flags, recomputed by sweeps of their own."""
    offsets, objects = _sweep_bounds(planset.problem)
    if planset.problem.constraints:
        offsets = sweep_pinned_bound(planset.problem)
    for family, claimed, true in (
        ("offsets", planset.bounds.offsets, offsets),
        ("shared objects", planset.bounds.shared_objects, objects),
    ):
        if claimed != true:
            yield Violation(Cause.WRONG_BOUND, f"the lower bound for {family} is {true}, not {claimed}")
    sizes = [s for s in planset.problem.size.tolist() if s]
    padded = [_pad(s, planset.problem.alignment) for s in sizes]
    naive = sum(padded[:-1]) + sizes[-1] if sizes else 0
    if planset.naive != naive:
        yield Violation(Cause.WRONG_NAIVE, f"the records take {naive} end to end, not {planset.naive}")
    yield from _sweep_optimal(planset.offsets, offsets)
    yield from _sweep_optimal(planset.shared_objects, objects)


def _sweep_optimal(plans: Sequence[Plan], bound: int) -> Iterator[Violation]:
    """Sizes against the bound, and against what searches say they proved, which no plan may disprove."""
    smallest = min(plans, key=lambda p: p.size, default=None)
    proved = bound
    for plan in plans:
        if plan.size < bound:
            yield Violation(Cause.BELOW_BOUND, f"{plan.size} is below the lower bound {bound}", plan.strategy)
        if plan.search and smallest and plan.search.bound > max(smallest.size, bound):
            message = f"it proved that nothing is below {plan.search.bound}, but {smallest.strategy} is {smallest.size}"
            yield Violation(Cause.WRONG_BOUND, message, plan.strategy)
        elif plan.search:
            proved = max(proved, plan.search.bound)
    for plan in plans:
        if plan.size == proved and not plan.optimal:
            yield Violation(Cause.FALSE_OPTIMAL, "it meets the lower bound and says it is not optimal", plan.strategy)


def _sweep_bounds(problem: Problem) -> tuple[int, int]:
    """Both lower bounds by one sweep over time with the sizes alive in order."""
    alignment = problem.alignment
    sizes = problem.size.tolist()
    ends: list[tuple[int, int]] = []
    alive: list[int] = []  # sizes, ascending
    paddings: Counter[int] = Counter()
    total = best = 0
    maxima: list[int] = []
    starts = sorted(range(len(problem)), key=problem.first_op.tolist().__getitem__)
    first, last = problem.first_op.tolist(), problem.last_op.tolist()
    for position, index in enumerate(starts):
        while ends and ends[0][0] < first[index]:
            size = heapq.heappop(ends)[1]
            del alive[bisect_left(alive, size)]
            total -= _pad(size, alignment)
            paddings[_pad(size, alignment) - size] -= 1
        size = sizes[index]
        if size:
            heapq.heappush(ends, (last[index], size))
            insort(alive, size)
            total += _pad(size, alignment)
            paddings[_pad(size, alignment) - size] += 1
        if position + 1 == len(starts) or (ends and first[starts[position + 1]] > ends[0][0]):
            # Something ends before anything else begins: only here can a profile be greater than all others.
            best = max(best, total - max((p for p, count in paddings.items() if count), default=0))
            maxima += [0] * (len(alive) - len(maxima))
            maxima[: len(alive)] = map(max, maxima, reversed(alive))
    return best, sum(maxima)


def _joined(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    joined: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if joined and joined[-1][1] >= low:
            joined[-1] = (joined[-1][0], max(joined[-1][1], high))
        elif low < high:
            joined.append((low, high))
    return joined


def _offsets(problem: Problem, plan: OffsetPlan, reserved: Sequence[tuple[int, int]]) -> Iterator[Violation]:
    count = len(problem)
    if len(plan.offsets) != count:
        yield violation(plan, Cause.WRONG_LENGTH, f"{len(plan.offsets)} offsets for {count} records")
        return
    offsets, sizes, names = plan.offsets.tolist(), problem.size.tolist(), problem.names
    top = 0
    for name, offset, size in zip(names, offsets, sizes, strict=True):
        if offset < 0:
            yield violation(plan, Cause.NEGATIVE_OFFSET, f"{name!r} is at {offset}", name)
        if offset % problem.alignment:
            yield violation(
                plan, Cause.MISALIGNED, f"{name!r} is at {offset}, no multiple of {problem.alignment}", name
            )
        if offset + size > plan.size:
            yield violation(
                plan, Cause.OUTSIDE_ARENA, f"{name!r} ends at {offset + size}, the arena at {plan.size}", name
            )
        top = max(top, offset + size if size else 0)
    if top < plan.size:
        yield violation(plan, Cause.WRONG_SIZE, f"the arena is {plan.size}, but the highest record ends at {top}")
    yield from sweep_pins(problem, plan, reserved)
    first, last = problem.first_op.tolist(), problem.last_op.tolist()
    ends: list[tuple[int, tuple[int, int, int]]] = []
    placed: list[tuple[int, int, int]] = []  # (offset, end, record), disjoint, ascending
    for index in sorted((i for i in range(count) if sizes[i]), key=lambda i: (first[i], i)):
        while ends and ends[0][0] < first[index]:
            entry = heapq.heappop(ends)[1]
            del placed[bisect_left(placed, entry)]
        entry = (offsets[index], offsets[index] + sizes[index], index)
        at = bisect_left(placed, entry)
        for other in placed[max(at - 1, 0) : at + 1]:
            if other[0] < entry[1] and entry[0] < other[1]:
                a, b = names[other[2]], names[index]
                yield violation(
                    plan,
                    Cause.OVERLAP,
                    f"{a!r} at {other[0]}..{other[1]} and {b!r} at {entry[0]}..{entry[1]} are both in use",
                    a,
                    b,
                    op=first[index],
                )
                break
        else:
            placed.insert(at, entry)
            heapq.heappush(ends, (last[index], entry))


def _objects(problem: Problem, plan: SharedObjectsPlan) -> Iterator[Violation]:
    count = len(problem)
    if len(plan.assignment) != count:
        yield violation(plan, Cause.WRONG_LENGTH, f"{len(plan.assignment)} objects assigned to {count} records")
        return
    members: list[list[int]] = [[] for _ in plan.objects]
    for index, number in enumerate(plan.assignment.tolist()):
        if 0 <= number < len(members):
            members[number].append(index)
        else:
            name = problem.names[index]
            yield violation(plan, Cause.NO_SUCH_OBJECT, f"{name!r} is in object {number} of {len(members)}", name)
    first, last, names = problem.first_op.tolist(), problem.last_op.tolist(), problem.names
    rows = problem.size[:, None].tolist() if problem.extents is None else problem.extents.tolist()
    total = 0
    for number, (object_size, inside) in enumerate(zip(plan.objects, members, strict=True)):
        extent = [object_size] if isinstance(object_size, int) else list(object_size)
        total += prod(extent)
        if not inside:
            yield violation(plan, Cause.EMPTY_OBJECT, f"nothing is in object {number}")
            continue
        needed = [max(column) for column in zip(*(rows[i] for i in inside), strict=True)]
        if len(extent) != len(needed) or any(has < needs for has, needs in zip(extent, needed, strict=True)):
            yield violation(plan, Cause.OBJECT_TOO_SMALL, f"object {number} is {extent}, its records need {needed}")
        elif extent != needed:
            yield violation(plan, Cause.WRONG_SIZE, f"object {number} is {extent}, its records need only {needed}")
        inside.sort(key=lambda i: (first[i], i))
        holder = inside[0]
        for index in inside[1:]:
            if first[index] <= last[holder]:
                a, b = names[holder], names[index]
                message = f"{a!r} and {b!r} are both in object {number}"
                yield violation(plan, Cause.OBJECT_SHARED, message, a, b, op=first[index])
            if last[index] > last[holder]:
                holder = index
    if total != plan.size:
        yield violation(plan, Cause.WRONG_SIZE, f"the objects add up to {total}, not {plan.size}")


def _pad(size: int, alignment: int) -> int:
    return -(-size // alignment) * alignment
