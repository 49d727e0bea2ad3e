"""edgemem's search for the smallest arena: best fit on the skyline first, then a tree search with work limits.

docs/search.md describes the algorithm and its results.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgemem.native import kernels
from edgemem.strategy.options import SEED, THREADS, TIME_LIMIT
from edgemem.strategy.registry import Found, offsets_strategy

if TYPE_CHECKING:
    from edgemem.records.problem import Problem

# Steps of the search. A million take about half a second. The result is the same on every machine.
WORK = {"fast": 100_000, "default": 10_000_000, "max": 1_000_000_000}


@offsets_strategy(
    "search",
    paper="edgemem, docs/search.md",
    complexity="O(n log n) for a first plan, then as much work as asked for",
    options={"effort": ("default", "fast", "max"), "seed": SEED, "time_limit": TIME_LIMIT, "threads": THREADS},
    auto={"effort": "fast"},
    honours=("pinned", "reserved"),
)
def search(
    problem: Problem, effort: str = "default", seed: int = 1, time_limit: float | None = None, threads: int = 1
) -> Found:
    """The smallest arena found within the given work, with the best lower bound it proved.

    Every thread does this amount of work with a seed of its own. The plan is never larger than that of one thread, and
    is the same on every machine unless there is a time limit (seconds).
    """
    records = (problem.first_op, problem.last_op, problem.size)
    found = kernels.search_offsets(
        *records, problem.alignment, WORK[effort], seed, time_limit, threads, **problem.constraints
    )
    return Found(*found)
