"""Candidates of any model whose operators run in parts along channels, heads, tokens or other axes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from edgemem.errors import EdgememError
from edgemem.formats.workspace import graph_under
from edgemem.passes.protocol import sampled_graphs
from edgemem.passes.splitting.choice import find_splits
from edgemem.runtime.split_pass import SplitOperators
from edgemem.schedule.peak import peak_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from edgemem.passes.splitting.stage import SplitStage
    from edgemem.shrinking.branch import Branch, Workshop
    from edgemem.shrinking.candidate import Candidate

__all__ = ["lowered", "split_candidates"]

_TIGHTER: Final = 3  # searches for a budget, where the changed graph needs more than was estimated
_LEAST: Final = 0  # a budget that nothing meets
_WORTH: Final = 1 / 64  # of the memory that was reached, which parts have to save


def lowered(shop: Workshop, base: Branch, uncut: frozenset[int], reached: int) -> Branch:
    """The model with parts of operators that nothing else cuts, if they are what is in the way of less memory.

    Args:
        shop: makes it.
        base: what is changed.
        uncut: operators that run neither in tiles nor in stripes.
        reached: bytes of the best tiles or stripes.
    """
    graph, *others = sampled_graphs(base.model)
    found = find_splits(graph, base.target, budget=int(reached * (1 - _WORTH)), among=uncut, others=others)
    if not found.stages:
        return base
    try:
        return shop.apply(base, SplitOperators(found.stages))
    except EdgememError as e:
        shop.refusals.append(str(e))
        return base


def split_candidates(shop: Workshop, base: Branch, level: str = "", *, halves: bool = True) -> Iterator[Candidate]:
    """The model in parts, for the budget, or with the least memory.

    Args:
        shop: makes them.
        base: what is changed.
        level: to which ONNX Runtime optimises the changed graph.
        halves: without a budget, parts that save half as much are another candidate.
    """
    (graph, *others), limits = sampled_graphs(base.model), shop.limits
    before = peak_of(graph_under(base.model, base.target) if base.target.scratch == "tflm" else graph, base.target)
    tried: set[tuple[SplitStage, ...]] = set()

    def made_for(goal: int) -> Candidate | None:
        try:
            found = find_splits(graph, base.target, budget=goal, others=others)
            if found.stages in tried or found.peak > before * (1 - _WORTH):
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
        if halves and (half := made_for((before + least.arena) // 2)):
            yield half
        return
    tail = shop.tail(graph)
    goal = limits.budget - tail
    for _ in range(_TIGHTER):
        made = made_for(goal)
        if made is None:
            return
        yield made
        if made.memory <= limits.budget:
            return
        goal = goal * goal // (made.memory - tail + 1)
