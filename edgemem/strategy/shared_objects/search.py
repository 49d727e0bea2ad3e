"""edgemem's exact search: tries sets of objects in order of total size, and excludes sets that few records do not fit.

docs/shared-objects.md describes the algorithm and its results.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgemem.native import kernels
from edgemem.strategy.options import SEED, TIME_LIMIT
from edgemem.strategy.registry import Solution, shared_objects_strategy

if TYPE_CHECKING:
    from edgemem.records.problem import Problem

# Steps of the search. A million take about a tenth of a second. The result is the same on every machine.
WORK = {"fast": 500_000, "default": 20_000_000, "max": 1_000_000_000}


@shared_objects_strategy(
    "search",
    paper="edgemem, docs/shared-objects.md",
    complexity="O(k n log n) for a first plan, then as much work as asked for",
    options={"effort": ("default", "fast", "max"), "seed": SEED, "time_limit": TIME_LIMIT},
    auto={"effort": "fast"},
)
def search(problem: Problem, effort: str = "default", seed: int = 1, time_limit: float | None = None) -> Solution:
    """The smallest total of objects found within the given work, with the best lower bound it proved.

    The plan is the same on every machine unless there is a time limit (seconds).
    """
    extent = problem.size.reshape(-1, 1) if problem.extents is None else problem.extents
    columns = (problem.first_op, problem.last_op, extent)
    return Solution(*kernels.search_shared_objects(*columns, WORK[effort], seed, time_limit))
