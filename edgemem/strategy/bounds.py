"""Lower bounds of both problems, and what they are made of (Pisarchyk & Lee 2020, §3, §4.1, §5.1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from edgemem.errors import PlanError
from edgemem.native import kernels
from edgemem.plans import LowerBounds
from edgemem.records.relations import relation_columns
from edgemem.records.sizes import padded

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from edgemem.records.problem import Problem

__all__ = ["lower_bounds", "naive_size", "operator_breadths", "operator_sections", "positional_maxima"]

# Operator indices beyond this are timestamps, for which per-operator arrays make no sense.
_MOST_OPERATORS = 1 << 26


def lower_bounds(problem: Problem) -> LowerBounds:
    """What no plan can go below.

    Offsets: the greatest operator breadth. Every size but one is padded to the alignment, because the record that
    lies highest needs no padding after it: at an operator, the padded sizes less the largest single padding. Where
    records are pinned or ranges reserved: the end of every pinned record, and at each operator the lowest address below
    which the free records find room beside them (less the largest padding, if that is above all pinned ones).
    Relations: a record does not count while one that it lies within is alive, records of one nest count with the bytes
    that they cover together (kernels/planner/offsets/related/cover.h), and at each operator the sum is less the most
    bytes that its inputs and results in overlaps can have in common (kernels/planner/offsets/related/shares.h has the
    rule and why it holds). Where records are tied to regions, sizes count without padding, and reserved ranges not
    at all, because each region has a record that lies highest.
    Shared objects: the sum of the positional maxima, in bytes, or in texels for extents.
    """
    if problem.features & {"overlap", "within", "regions"}:
        offsets = _related_bound(problem)
    else:
        columns = (problem.first_op, problem.last_op, problem.size)
        offsets = kernels.offset_lower_bound(*columns, problem.alignment, **problem.constraints)
    return LowerBounds(offsets, sum(positional_maxima(problem)))


def positional_maxima(problem: Problem) -> tuple[int, ...]:
    """The greatest k-th largest size over all operator profiles, for every k, in bytes or texels."""
    return tuple(kernels.positional_maxima(problem.first_op, problem.last_op, problem.size).tolist())


def operator_breadths(problem: Problem) -> NDArray[np.int64]:
    """The sum of the sizes in each operator's profile, for operators 0 to the last one used.

    Raises PlanError above 2**26 operators, where the indices are timestamps rather than operators.
    """
    count = _operator_count(problem)
    starts, breadths = kernels.section_breadths(problem.first_op, problem.last_op, problem.size)
    return np.repeat(breadths, np.diff(starts, append=count)) if count else np.zeros(0, np.int64)


def operator_sections(problem: Problem) -> list[tuple[int, int, int]]:
    """First and last operator, and the sum of sizes, of each run of operators at which the same records are alive.

    The runs cover operators 0 to the last one used, and are at most twice as many as records and one more.
    """
    starts, breadths = kernels.section_breadths(problem.first_op, problem.last_op, problem.size)
    lasts = [*(start - 1 for start in starts.tolist()[1:]), int(problem.last_op.max(initial=0))]
    return list(zip(starts.tolist(), lasts, breadths.tolist(), strict=True)) if len(starts) else []


def naive_size(problem: Problem) -> int:
    """Bytes (or texels) without any sharing: all records end to end, each at the next aligned offset.

    What is pinned or reserved makes no difference to it, so that a plan around that may be larger.
    """
    sizes = problem.size[problem.size > 0]
    if not len(sizes):
        return 0
    return int(padded(sizes[:-1], problem.alignment).sum()) + int(sizes[-1])


def _related_bound(problem: Problem) -> int:
    """What `lower_bounds` says of offsets, where records are related or tied to regions."""
    columns = (problem.first_op, problem.last_op, problem.size)
    relations = relation_columns(problem.overlap, problem.within)
    if problem.regions is None:
        return kernels.related_lower_bound(*columns, problem.alignment, **problem.constraints, **relations)
    if problem.overlap is not None:
        # Distances of offsets that are multiples of the alignment.
        rows = problem.overlap.copy()
        rows[:, 2] = padded(rows[:, 2], problem.alignment)
        relations["overlap"] = rows.reshape(-1)
    bound = kernels.related_lower_bound(*columns, 1, **relations)
    if problem.pinned is None:
        return bound
    held = (problem.pinned >= 0) & (problem.size > 0)
    return max(bound, int((problem.pinned + problem.size)[held].max(initial=0)))


def _operator_count(problem: Problem) -> int:
    count = int(problem.last_op.max()) + 1 if len(problem) else 0
    if count > _MOST_OPERATORS:
        raise PlanError(f"operator indices up to {count - 1} are timestamps; renumber them to list them one by one")
    return count
