"""Control edges that make weight updates run early (OLLA, Steiner et al. 2022, section 4.3, functions 3 and 4).

    forward      f1 --> f2 --> loss --> b2 ----------> b1
                                |        |              |
    gradient                    +-> g2   +-> g1         |     g2 waits for the loss, u2 for g2
    update                           +-> u2 - - - - - ->+     the control edge: u2 runs before b1

An update frees a gradient, so there is little reason to run it late. An anchor is an operator that must run soon, and
that the update cannot wait for; an edge from the update to the anchor leaves a solver fewer orders to look at.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tests.oracle.constraint_orders.contraction import topological

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from edgemem.schedule.problem import OrderProblem

__all__ = ["early_updates", "with_pairs"]


def early_updates(problem: OrderProblem, updates: Iterable[int]) -> tuple[tuple[int, int], ...]:
    """Pairs (update, anchor): the update is to run before the anchor. At most one pair for each update.

    All pairs together leave an order: an anchor's level, the longest way to it, is above that of its update.

    They are a heuristic. An update runs early only if its gradient is computed early, and where that raises the peak,
    the best orders are lost. Of 720 random training steps of 2 to 20 layers, 61 lost up to 18.5 %, most of them the
    short ones; ResNet-18 with one sample loses 0.01 %, a GPT of 12 layers 46 %. CP-SAT's work for both proofs falls to
    a half (6 layers) and to a twentieth or less (20 layers).

    Nothing is lost by a pair if the update can only release memory, as `contract` has it, and all that it waits for
    must run before the anchor anyway.

    Args:
        problem: what is to be ordered.
        updates: the operators that update weights.
    """
    order = topological(problem)
    forward = _levels(order, problem.before)
    backward = _levels(order[::-1], problem.after)
    pairs = []
    for update in updates:
        anchor = _anchor(problem, update, forward, backward)
        if anchor >= 0:
            pairs.append((update, anchor))
    return tuple(pairs)


def with_pairs(problem: OrderProblem, pairs: Iterable[tuple[int, int]]) -> OrderProblem:
    """The problem in which the first operator of each pair also runs before the second."""
    before = [set(b) for b in problem.before]
    for first, then in pairs:
        before[then].add(first)
    return replace(problem, before=tuple(tuple(sorted(b)) for b in before))


def _levels(order: Iterable[int], earlier: Sequence[Sequence[int]]) -> list[int]:
    """The most edges on a way to each operator."""
    level = [0] * len(earlier)
    for k in order:
        level[k] = max((level[e] + 1 for e in earlier[k]), default=0)
    return level


def _anchor(problem: OrderProblem, update: int, forward: Sequence[int], backward: Sequence[int]) -> int:
    """The anchor of an update, or -1 (function 3): in ever wider surroundings, the candidate of the highest level."""
    visited: dict[int, int] = {}
    starts = {update}
    while starts:
        starts = {b for start in starts for b in problem.before[start]}
        found = [_candidate(problem, start, forward[update], forward, backward, visited) for start in sorted(starts)]
        best = max((c for c in found if c >= 0), key=lambda c: backward[c], default=-1)
        if best >= 0:
            return best
    return -1


def _candidate(
    problem: OrderProblem,
    start: int,
    level: int,
    forward: Sequence[int],
    backward: Sequence[int],
    visited: dict[int, int],
) -> int:
    """Of the operators after `start` that first come above a level, the one that must run soonest, or -1 (function 4).

    What is found for each operator on the way is kept in `visited`.
    """
    stack = [start]
    while stack:
        k = stack[-1]
        below = [then for then in problem.after[k] if forward[then] <= level and then not in visited]
        if k not in visited and below:
            stack += below
            continue
        stack.pop()
        candidates = (then if forward[then] > level else visited[then] for then in problem.after[k])
        visited[k] = max((c for c in candidates if c >= 0), key=lambda c: backward[c], default=-1)
    return visited[start]
