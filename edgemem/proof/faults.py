"""What the kernel finds, as rows of numbers, in words.

A row is (fault, a, b, op, number, number, number); kernels/proof/offsets.h and objects.h say what each of them holds.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

from edgemem.proof.violations import Cause, violation

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from edgemem.plans import OffsetPlan, SharedObjectsPlan
    from edgemem.proof.relations import Regions
    from edgemem.proof.violations import Violation
    from edgemem.records.problem import Problem

__all__ = ["COLUMNS", "Fault", "describe_object_faults", "describe_offset_faults"]

COLUMNS = 7


class Fault(IntEnum):
    """As in kernels/proof/faults.h."""

    NEGATIVE_OFFSET = 1
    MISALIGNED = 2
    OUTSIDE_ARENA = 3
    NO_SUCH_REGION = 4
    ARENA_TOO_LARGE = 5
    NOT_WHERE_PINNED = 6
    IN_RESERVED = 7
    NOT_WITHIN = 8
    OVERLAP = 9
    NO_SUCH_OBJECT = 10
    EMPTY_OBJECT = 11
    OBJECT_TOO_SMALL = 12
    OBJECT_TOO_LARGE = 13
    OBJECT_SHARED = 14


def describe_offset_faults(
    problem: Problem,
    plan: OffsetPlan,
    rows: Sequence[Sequence[int]],
    reserved: Sequence[tuple[int, int]],
    regions: Regions | None = None,
) -> Iterator[Violation]:
    """The violations that rows about offsets stand for. `reserved` are the ranges, in the order the kernel had them."""
    names = problem.names if rows else ()
    arenas = (plan.size,) if regions is None else regions.sizes

    def span(record: int) -> tuple[int, int]:
        offset = int(plan.offsets[record])
        return offset, offset + int(problem.size[record])

    for code, a, b, op, number, *_ in rows:
        fault = Fault(code)
        if fault is Fault.ARENA_TOO_LARGE:
            where = "" if regions is None else f" of region {a}"
            message = f"the arena{where} is {arenas[a]}, but the highest record ends at {number}"
            yield violation(plan, Cause.WRONG_SIZE, message)
            continue
        name, (low, high) = names[a], span(a)
        match fault:
            case Fault.NEGATIVE_OFFSET:
                yield violation(plan, Cause.NEGATIVE_OFFSET, f"{name!r} is at {low}", name)
            case Fault.MISALIGNED:
                message = f"{name!r} is at {low}, no multiple of {problem.alignment}"
                yield violation(plan, Cause.MISALIGNED, message, name)
            case Fault.OUTSIDE_ARENA:
                arena = arenas[0 if regions is None else int(regions.of[a])]
                yield violation(plan, Cause.OUTSIDE_ARENA, f"{name!r} ends at {high}, the arena at {arena}", name)
            case Fault.NO_SUCH_REGION:
                message = f"{name!r} is in region {number} of {len(arenas)}"
                yield violation(plan, Cause.WRONG_REGION, message, name)
            case Fault.NOT_WHERE_PINNED:
                assert problem.pinned is not None
                message = f"{name!r} is at {low}, but is pinned at {problem.pinned[a]}"
                yield violation(plan, Cause.NOT_WHERE_PINNED, message, name)
            case Fault.IN_RESERVED:
                begin, end = reserved[number]
                message = f"{name!r} at {low}..{high} is in the reserved range {begin}..{end}"
                yield violation(plan, Cause.IN_RESERVED, message, name)
            case Fault.NOT_WITHIN:
                outer, (outer_low, outer_high) = names[b], span(b)
                message = (
                    f"{name!r} at {low}..{high} is not {number} bytes into {outer!r} at {outer_low}..{outer_high}"
                    if regions is None or regions.of[a] == regions.of[b]
                    else f"{name!r} is in region {regions.of[a]}, but {outer!r} in {regions.of[b]}"
                )
                yield violation(plan, Cause.NOT_WITHIN, message, name, outer)
            case _:
                other, (other_low, other_high) = names[b], span(b)
                message = f"{name!r} at {low}..{high} and {other!r} at {other_low}..{other_high} are both in use"
                yield violation(plan, Cause.OVERLAP, message, name, other, op=op)


def describe_object_faults(
    problem: Problem, plan: SharedObjectsPlan, rows: Sequence[Sequence[int]]
) -> Iterator[Violation]:
    """The violations that rows about shared objects stand for."""
    names = problem.names if rows else ()
    rank = 1 if problem.extents is None else problem.extents.shape[1]
    for code, a, b, op, *numbers in rows:
        match Fault(code):
            case Fault.NO_SUCH_OBJECT:
                message = f"{names[a]!r} is in object {numbers[0]} of {len(plan.objects)}"
                yield violation(plan, Cause.NO_SUCH_OBJECT, message, names[a])
            case Fault.EMPTY_OBJECT:
                yield violation(plan, Cause.EMPTY_OBJECT, f"nothing is in object {a}")
            case Fault.OBJECT_TOO_SMALL:
                message = f"object {a} is {_extent(plan, a)}, its records need {numbers[:rank]}"
                yield violation(plan, Cause.OBJECT_TOO_SMALL, message)
            case Fault.OBJECT_TOO_LARGE:
                message = f"object {a} is {_extent(plan, a)}, its records need only {numbers[:rank]}"
                yield violation(plan, Cause.WRONG_SIZE, message)
            case _:
                message = f"{names[a]!r} and {names[b]!r} are both in object {numbers[0]}"
                yield violation(plan, Cause.OBJECT_SHARED, message, names[a], names[b], op=op)


def _extent(plan: SharedObjectsPlan, number: int) -> list[int]:
    size = plan.objects[number]
    return [size] if isinstance(size, int) else list(size)
