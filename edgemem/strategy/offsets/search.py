"""edgemem's search for the smallest arena: best fit on the skyline first, then a tree search with work limits.

Records with relations are searched otherwise: by first fit in an order that a local search improves. docs/search.md
describes both algorithms and their results.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from edgemem.native.offset_search import is_related, search_offsets
from edgemem.strategy.offsets.greedy_by_size import greedy_by_size
from edgemem.strategy.options import SEED, THREADS, TIME_LIMIT
from edgemem.strategy.registry import Solution, offsets_strategy

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from edgemem.records.problem import Problem

# Steps of the search. A million take about half a second. The result is the same on every machine.
WORK = {"fast": 100_000, "default": 10_000_000, "max": 1_000_000_000}
# The same where records are related. A million take about a sixth of a second.
RELATED_WORK = {"fast": 4_000_000, "default": 20_000_000, "max": 4_000_000_000}


@offsets_strategy(
    "search",
    paper="edgemem, docs/search.md",
    complexity="O(n log n) for a first plan, then as much work as asked for",
    options={"effort": ("default", "fast", "max"), "seed": SEED, "time_limit": TIME_LIMIT, "threads": THREADS},
    auto={"effort": "fast"},
    honours=("pinned", "reserved", "overlap", "within"),
)
def search(
    problem: Problem, effort: str = "default", seed: int = 1, time_limit: float | None = None, threads: int = 1
) -> Solution:
    """The smallest arena found within the given work, with the best lower bound it proved.

    Every thread does this amount of work with a seed of its own. The plan is never larger than that of one thread, nor,
    unless a time limit ended the search or records are related, than that of Greedy by Size, which is smaller than a
    first plan on the skyline for some problems whose tree the work does not reach (a million records, say). The plan
    is the same on every machine unless there is a time limit (seconds). Records with relations are searched in one
    thread. Raises PlanError for more pairs of them in use together than the kernel keeps.
    """
    steps = RELATED_WORK if is_related(problem) else WORK
    found = Solution(*search_offsets(problem, steps[effort], seed=seed, time_limit=time_limit, threads=threads))
    if found.stopped != "work" or is_related(problem):
        return found
    rule = greedy_by_size(problem)
    return replace(found, values=rule) if _arena(problem, rule) < _arena(problem, found.values) else found


def _arena(problem: Problem, offsets: NDArray[np.int64]) -> int:
    return int((offsets + problem.size).max(initial=0))
