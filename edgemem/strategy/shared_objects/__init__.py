"""Shared objects (Pisarchyk & Lee 2020, §4): one file a strategy, imported here in the order they are listed."""

from edgemem.strategy.shared_objects import (  # noqa: I001  (the order of registration)
    naive,
    equality,
    greedy_in_order,
    min_cost_flow,
    greedy_by_size,
    greedy_by_size_improved,
    greedy_by_breadth,
    search,
)

__all__ = [
    "equality",
    "greedy_by_breadth",
    "greedy_by_size",
    "greedy_by_size_improved",
    "greedy_in_order",
    "min_cost_flow",
    "naive",
    "search",
]
