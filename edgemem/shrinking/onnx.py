"""Candidates for an .onnx model: levels of optimisation, orders, tiles and recomputation."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from edgemem.errors import EdgememError, RuntimeLoadError
from edgemem.formats import Rewritable
from edgemem.passes.order_pass import OrderOperators
from edgemem.runtime.onnxruntime.baked_file import LEVELS
from edgemem.runtime.onnxruntime.optimise_pass import OptimiseGraph
from edgemem.runtime.onnxruntime.tile_pass import TILED_LEVEL, TileOperators

if TYPE_CHECKING:
    from collections.abc import Iterator

    from edgemem.passes.tiling.stage import TileStage
    from edgemem.shrinking.branch import Branch, Workshop
    from edgemem.shrinking.candidate import Candidate

__all__ = ["onnx_candidates"]

_WORTH: Final = 1 / 64  # of the peak: what a lower level, which runs slower, has to save
_SHARES: Final = (1.0, 0.4, 0.15, 0.05)  # of the arithmetic that may be added, for fronts
_TIGHTER: Final = 3  # searches for a budget, where the optimised graph needs more than was estimated
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
        if level == TILED_LEVEL and shop.allows(TileOperators.name):
            yield from _tiled(shop, base, bases.get(_HIGHEST))
    if not bases:
        return
    lowest = min(bases.values(), key=lambda b: shop.candidate(b).arena)
    yield from shop.recomputed(lowest)


def _tiled(shop: Workshop, base: Branch, highest: Branch | None) -> Iterator[Candidate]:
    """The model in tiles: for the budget, or for several amounts of arithmetic.

    What was cut is optimised to the level of a default session. Tiles that stay at the level they were cut at keep
    every bit of that level's outputs, and run slower: they are made where that is wanted, or where nothing else fits.
    """
    if not isinstance(base.model, Rewritable):
        return
    limits = shop.limits
    # Kernels for blocks of channels compute what pads the last block, too, whether the model was changed or not.
    again = replace(base, macs=highest.macs) if highest is not None else base
    cuts = [] if limits.outputs == "identical" or not shop.allows(OptimiseGraph.name) else [(again, _HIGHEST)]
    for cut, level in (*cuts, (base, "")):
        least = None
        for made in _tiled_at(shop, cut, level):
            yield made
            least = made.arena if least is None else min(least, made.arena)
        if least is not None and (limits.budget is None or least <= limits.budget):
            return


def _tiled_at(shop: Workshop, base: Branch, level: str) -> Iterator[Candidate]:
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
        for share in _SHARES:
            if made := made_for(1 + (limits.max_macs - 1) * share, None, ways[0]):
                yield made
        for threads in ways[1:]:
            if made := made_for(limits.max_macs, None, threads):
                yield made
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
