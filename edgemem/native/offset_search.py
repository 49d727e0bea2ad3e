"""The search kernels for the smallest arena, called with a problem: related records have a kernel of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

from edgemem.errors import PlanError
from edgemem.native import kernels
from edgemem.records.relations import relation_columns

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from edgemem.records.problem import Problem

    # Offsets (int64 [n]), the lower bound that was proved, why the search ended, and the steps that it took.
    Answer: TypeAlias = tuple[NDArray[np.int64], int, Literal["bound", "proof", "work", "time"], int]

__all__ = ["is_related", "search_offsets"]


def is_related(problem: Problem) -> bool:
    """Whether `search_offsets` takes the kernel for related records, whose steps are other ones."""
    return problem.overlap is not None or problem.within is not None


def search_offsets(
    problem: Problem, work: int, *, seed: int = 1, time_limit: float | None = None, threads: int = 1
) -> Answer:
    """The offsets of the smallest arena found in so many steps (docs/search.md), around what is pinned and reserved.

    Args:
        problem: without regions.
        work: steps of every thread.
        seed: 0 or more.
        time_limit: seconds; None for no limit.
        threads: of the search; related records are searched in one.

    Raises PlanError for more pairs of related records in use together than the kernel keeps.
    """
    columns = (problem.first_op, problem.last_op, problem.size, problem.alignment)
    if not is_related(problem):
        return kernels.search_offsets(*columns, work, seed, time_limit, threads, **problem.constraints)
    relations = relation_columns(problem.overlap, problem.within)
    try:
        return kernels.search_related_offsets(
            *columns, work, seed, time_limit, roles=problem.roles, **problem.constraints, **relations
        )
    except ValueError as e:
        remedy = "leave the relations out (a plan without overlaps or slots), or plan a part of the records"
        raise PlanError(f"search cannot plan these {len(problem)} related records: {e}; {remedy}") from None
