"""What runs within a budget cost at least if the first runs have a given order: what is idle at a step must be dropped.

    first run         0    1    2    3    4
    class of 0        w---------r---------r     idle at 1 and 3: not alive there only if operator 0 runs again
    class of 1             w--------------r     idle at 2 and 3

At each operator's first run, as much must be dropped as all that was made and is still to be read takes above the
budget. Which operators run again for that is a knapsack problem; its fractional solution is a bound.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from edgemem.remat.program import Program

__all__ = ["idle_bound"]

_MOST_STEPS: Final = 200


def idle_bound(program: Program, order: Sequence[int], budget: int) -> int:
    """A lower bound of the cost of all runs within a budget whose first runs are in this order."""
    problem, size = program.problem, program.problem.size
    place = {k: at for at, k in enumerate(order)}
    writer = {c: k for k, made in enumerate(problem.writes) for c in made}
    first = {c: place[k] for c, k in writer.items()} | dict.fromkeys(problem.start, -1)
    last = {
        c: len(order) if c in problem.kept else max((place[r] for r in problem.readers[c]), default=-1) for c in first
    }
    alive = [0] * (len(order) + 1)  # before each first run
    for c in first:
        for at in range(first[c] + 1, min(last[c], len(order) - 1) + 1):
            alive[at] += size[c]

    def is_droppable(c: int) -> bool:
        return writer.get(c) in program.repeatable

    excess = []
    for at, k in enumerate(order):
        is_taken = any(last[c] == place[k] or is_droppable(c) for c in problem.over[k])
        results = problem.born[k] + problem.own[k] - (size[problem.writes[k][0]] if is_taken else 0)
        excess.append((alive[at] + max(results, problem.early[k] + problem.inside[k]) - budget, at))
    most = 0
    for over, at in sorted(excess, reverse=True)[:_MOST_STEPS]:
        if over <= 0:
            break
        idle: dict[int, int] = {}  # bytes that a second run of an operator spares
        for c in first:
            if first[c] < at < last[c] and is_droppable(c) and c not in problem.reads[order[at]]:
                idle[writer[c]] = idle.get(writer[c], 0) + size[c]
        most = max(most, _cheapest(over, sorted((program.costs[k], spared) for k, spared in idle.items() if spared)))
    return program.base_cost + most


def _cheapest(wanted: int, choices: Sequence[tuple[int, int]]) -> int:
    """What it costs at least to gather so many bytes from choices of (cost, bytes), the last one in part."""
    cost = 0
    for price, spared in sorted(choices, key=lambda choice: choice[0] / choice[1]):
        if spared >= wanted:
            return cost + -(-price * wanted // spared)
        cost += price
        wanted -= spared
    return cost
