"""Candidates for an .onnx model: levels of optimisation, orders, tiles and recomputation."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from edgemem.errors import EdgememError, MissingDependencyError, RuntimeLoadError
from edgemem.formats import Rewritable
from edgemem.passes.order_pass import OrderOperators
from edgemem.runtime.onnxruntime.baked_file import LEVELS
from edgemem.runtime.onnxruntime.cut_graph import CUT_LEVEL, can_cut
from edgemem.runtime.onnxruntime.optimise_pass import OptimiseGraph
from edgemem.runtime.onnxruntime.tile_pass import TileOperators
from edgemem.runtime.split_pass import SplitOperators
from edgemem.shrinking.parts import lowered, split_candidates

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from edgemem.passes.tiling.stage import TileStage
    from edgemem.shrinking.branch import Branch, Workshop
    from edgemem.shrinking.candidate import Candidate

__all__ = ["onnx_candidates"]

_WORTH: Final = 1 / 64  # of the peak: what a lower level, which runs slower, has to save
_SLOWER: Final = (
    1 / 32
)  # of the memory of tiles at the highest level: what tiles below it, which run slower, have to save
_SHARES: Final = (1.0, 0.4, 0.15, 0.05)  # of the arithmetic that may be added, for fronts
_FEW: Final = (1.0, 0.15)
_FINE: Final = ("basic", "none")  # the levels whose graphs have most operators
_TIGHTER: Final = 3  # searches, where the optimised graph takes more memory or arithmetic than was estimated
# Numbers of threads for which sums of the graph that is cut keep their blocks, so that every bit stays the same; more
# numbers allow fewer tiles. Kernels of the level `all` have blocks of their own: one thread only keeps parts from
# becoming very small, and none does not.
_THREADS: Final[tuple[tuple[int, ...], ...]] = ((1, os.cpu_count() or 1), (1, 2, 4, 8, 16))
_ANY_SUM: Final[tuple[tuple[int, ...], ...]] = ((1,), ())
_HIGHEST: Final = "all"  # the level of a default session


def onnx_candidates(shop: Workshop) -> Iterator[Candidate]:
    """Every way to run the model whose order ONNX Runtime keeps; those that run quickly first.

    Tiles at the level `all` come before the levels below it, which run slower than they.
    """
    yield shop.candidate(shop.start)
    if not shop.target.is_dense:
        return
    bases: dict[str, Branch] = {}
    least = None
    for level in reversed(LEVELS):
        if not shop.allows(OptimiseGraph.name) and level != _HIGHEST:
            continue
        try:
            base = shop.apply(shop.start, OptimiseGraph(level), restart=True)
        except RuntimeLoadError as e:  # its operators are another engine's, which runs them in the order of the file
            shop.refusals.append(str(e))
            if shop.allows(OrderOperators.name):
                yield shop.candidate(shop.apply(shop.start, OrderOperators()))
            return
        except MissingDependencyError:
            raise
        except EdgememError as e:
            shop.refusals.append(str(e))
            continue
        if shop.allows(OrderOperators.name):
            base = shop.apply(base, OrderOperators())
        bases[level] = base
        found = shop.candidate(base)
        if least is None or found.arena < least * (1 - _WORTH):
            least = found.arena
            yield found
        if level == _HIGHEST and shop.allows(SplitOperators.name) and can_cut(base.model.graph()):
            yield from split_candidates(shop, base)
        if level == CUT_LEVEL and (shop.allows(TileOperators.name) or shop.allows(SplitOperators.name)):
            yield from _cut(shop, base, bases.get(_HIGHEST))
        if level in _FINE and shop.limits.budget is None:  # with more operators there are more places to cut
            if level == _FINE[0] and shop.allows(TileOperators.name):
                yield from _tiled_at(shop, base, "", ())
            if shop.allows(SplitOperators.name):
                yield from split_candidates(shop, base, halves=False)
    if not bases:
        return
    lowest = min(bases.values(), key=lambda b: shop.candidate(b).arena)
    yield from shop.recomputed(lowest)


def _cut(shop: Workshop, base: Branch, highest: Branch | None) -> Iterator[Candidate]:
    """The model in tiles and parts: for the budget, or for several amounts of arithmetic.

    What was cut is optimised to the level of a default session. Tiles that stay at the level they were cut at keep
    every bit of that level's outputs, and run slower: they are made where that is wanted, where nothing else fits, or
    where they take clearly less memory.
    """
    if not isinstance(base.model, Rewritable):
        return
    limits = shop.limits
    # Kernels for blocks of channels compute what pads the last block, too, whether the model was changed or not.
    again = replace(base, macs=highest.macs) if highest is not None else base
    cuts = [] if limits.outputs == "identical" or not shop.allows(OptimiseGraph.name) else [(again, _HIGHEST)]
    least: int | None = None
    for cut, level in (*cuts, (base, "")):
        enough = None if least is None else least * (1 - _SLOWER)
        for made in _cut_at(shop, cut, level):
            if enough is None or made.arena < enough:
                yield made
            if not made.breaks(limits):
                least = made.arena if least is None else min(least, made.arena)
        if least is not None and limits.budget is not None and least <= limits.budget:
            return


def _cut_at(shop: Workshop, base: Branch, level: str) -> Iterator[Candidate]:
    """Parts alone, tiles alone, and both: parts of what tiles cannot cut, before and behind them."""
    splits = shop.allows(SplitOperators.name)
    if splits:
        yield from split_candidates(shop, base, level)
    if not shop.allows(TileOperators.name):
        return
    tiled: list[Candidate] = []
    for made in _tiled_at(shop, base, level, _SHARES):
        tiled.append(made)
        yield made
    if not splits:
        return
    search = shop.tile_search(base, (1,))
    reached = min((c.arena for c in tiled), default=search.peak_without())
    other = lowered(shop, base, search.uncut(), reached)
    for made in _tiled_at(shop, other, level, _FEW) if other is not base else ():
        tiled.append(made)
        yield made
    if not tiled:
        return
    *steps, tiles = min(tiled, key=lambda c: c.arena).steps
    assert isinstance(tiles, TileOperators)
    cut = base
    for step in (*steps[len(base.steps) :], replace(tiles, level="")):
        cut = shop.apply(cut, step)
    yield from split_candidates(shop, cut, level, halves=False)


def _tiled_at(shop: Workshop, base: Branch, level: str, shares: Sequence[float]) -> Iterator[Candidate]:
    limits = shop.limits
    tried: set[tuple[TileStage, ...]] = set()

    def made_for(most: float, limit: int | None, threads: tuple[int, ...]) -> Candidate | None:
        found = shop.tile_search(base, threads).find(max_macs=most, budget=limit)
        if not found.stages or found.stages in tried:
            return None
        tried.add(found.stages)
        try:
            return shop.candidate(shop.apply(base, TileOperators(found.stages, level)))
        except EdgememError as e:
            shop.refusals.append(str(e))
            return None

    ways = _THREADS if limits.outputs == "identical" else _ANY_SUM
    if limits.budget is None:
        wanted = [*((ways[0], share) for share in shares), *((threads, 1.0) for threads in ways[1:])]
        for threads, share in wanted:
            most = 1 + (limits.max_macs - 1) * share
            for _ in range(_TIGHTER):
                made = made_for(most, None, threads)
                if made is None:
                    break
                yield made
                if made.macs <= limits.max_macs:
                    break
                most = 1 + (most - 1) * (limits.max_macs - 1) / (made.macs - 1)
        return
    limit: int | None = limits.budget
    for threads in ways:
        for _ in range(_TIGHTER):
            made = made_for(limits.max_macs, limit, threads)
            if made is None:
                break
            yield made
            if made.arena <= limits.budget:
                return
            assert limit is not None
            limit = limit * limits.budget // (made.arena + 1)
    if made := made_for(limits.max_macs, None, ways[-1]):
        yield made
