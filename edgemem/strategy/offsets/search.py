"""A search of our own: best fit on the skyline first, then the places that must be filled, from the bound upwards.

docs/search.md tells how it works and what it reaches.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgemem.native import kernels
from edgemem.strategy.registry import Found, offsets_strategy

if TYPE_CHECKING:
    from edgemem.records import Problem

# Steps of the search. A million take about half a second. The result is the same on every machine.
WORK = {"fast": 100_000, "default": 10_000_000, "max": 1_000_000_000}


@offsets_strategy(
    "search",
    paper="edgemem, docs/search.md",
    complexity="O(n log n) for a first plan, then as much work as asked for",
    options={"effort": ("default", "fast", "max")},
    auto={"effort": "fast"},
)
def search(problem: Problem, effort: str = "default") -> Found:
    """The smallest arena that the work asked for finds, with the best lower bound it proved."""
    records = (problem.first_op, problem.last_op, problem.size)
    return Found(*kernels.search_offsets(*records, problem.alignment, WORK[effort]))
