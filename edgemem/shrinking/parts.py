"""Candidates of any model whose operators run in parts along channels, heads, tokens or other axes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from edgemem.errors import EdgememError
from edgemem.passes.splitting.choice import find_splits
from edgemem.runtime.split_pass import SplitOperators
from edgemem.schedule.peak import peak_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from edgemem.passes.splitting.stage import SplitStage
    from edgemem.shrinking.branch import Branch, Workshop
    from edgemem.shrinking.candidate import Candidate

__all__ = ["split_candidates"]

_TIGHTER: Final = 3  # searches for a budget, where the changed graph needs more than was estimated
_LEAST: Final = 0  # a budget that nothing meets


def split_candidates(shop: Workshop, base: Branch, level: str = "") -> Iterator[Candidate]:
    """The model in parts, for the budget, or with the least memory and half of what that saves.

    `level` is the one to which ONNX Runtime optimises the changed graph.
    """
    graph, limits = base.model.graph(), shop.limits
    tried: set[tuple[SplitStage, ...]] = set()

    def made_for(goal: int) -> Candidate | None:
        try:
            found = find_splits(graph, base.target, budget=goal)
            if not found.stages or found.stages in tried:
                return None
            tried.add(found.stages)
            return shop.candidate(shop.apply(base, SplitOperators(found.stages, level)))
        except EdgememError as e:
            shop.refusals.append(str(e))
            return None

    if limits.budget is None:
        least = made_for(_LEAST)
        if least is None:
            return
        yield least
        if half := made_for((peak_of(graph, base.target) + least.arena) // 2):
            yield half
        return
    tail = shop.tail(base)
    goal = limits.budget - tail
    for _ in range(_TIGHTER):
        made = made_for(goal)
        if made is None:
            return
        yield made
        if made.memory <= limits.budget:
            return
        goal = goal * goal // (made.memory - tail + 1)
