"""The pass that runs operators of an ONNX model in tiles, and tests that the outputs stay the same.

    file ─ optimise (extended) ─ tiles ─ optimise (all) ─► the graph that is planned and run

Tiles are cut in the graph of the level `extended`, because that of `all`, which sessions run by default, keeps channels
in blocks that cannot be cut into rows. What was cut is then optimised again, so that it runs the kernels of a default
session.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, Final

from edgemem.errors import ModelError, NumericDifferenceError, TilingError
from edgemem.formats import Rewritable, Stateful
from edgemem.passes.protocol import Guarantee
from edgemem.passes.tiling.choice import find_stages, peak_without_stages
from edgemem.passes.tiling.stage import parse_stages
from edgemem.passes.tiling.tile import tile
from edgemem.runtime.onnxruntime.baked_file import baked_note
from edgemem.runtime.onnxruntime.optimise_pass import OptimiseGraph, optimised_again
from edgemem.runtime.onnxruntime.tile_comparison import TiledComparison, compare_tiled, compare_with_session
from edgemem.system.files import temporary_folder

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from edgemem.formats import Model
    from edgemem.model.graph import Graph
    from edgemem.passes.protocol import PassContext
    from edgemem.passes.tiling.stage import TileStage

__all__ = ["MAX_MACS", "TILED_LEVEL", "TileOperators", "cut_level"]

MAX_MACS: Final = 1.15
TILED_LEVEL: Final = "extended"  # the highest level whose graph can be cut
_SESSION_LEVEL: Final = "all"  # of a session whose options say nothing
# Numbers of threads that convolutions are cut for, until the outputs stay the same.
_MORE_THREADS: Final = ((1, 2), (1, 2, 4), (1, 2, 4, 8), (1, 2, 4, 8, 16))
_TIGHTER: Final = 3  # searches for a budget, where the optimised graph needs more than was estimated
_LIKE_LEVELS: Final = 2  # times what ONNX Runtime's own levels differ by, which tiles may differ by


def cut_level(level: str) -> str:
    """The level of the graph that is cut, for a result of this level."""
    return TILED_LEVEL if level == _SESSION_LEVEL else level


class TileOperators:
    """Computes runs of operators tile by tile in ONNX Runtime's optimised graph.

    Options, all texts: `stages`, "auto" or as `parse_stages` takes them, counted in the graph that is cut; `level` of
    the result (that of a file which is baked already; else "all", or "extended" where that alone has a lower peak);
    `max_macs`; `budget`; `allow_difference`; `threads` that
    the outputs are to be the same with, besides one (as many as a session has by default). The result is baked: only
    baked files run in their order.

    At the level `all` the outputs may differ from those of a default session as ONNX Runtime's own levels differ from
    each other, because another graph has other fusions. At other levels every bit is the same.
    """

    name: ClassVar[str] = "tile"
    suffixes: ClassVar[frozenset[str]] = frozenset({".onnx"})
    requires: ClassVar[Mapping[str, str]] = {}
    guarantee: ClassVar[Guarantee] = Guarantee(
        "close",
        "every part is computed from the same values; on three inputs the outputs are the same, or differ no more than "
        f"{_LIKE_LEVELS} times what ONNX Runtime's levels of optimisation differ by",
    )
    macs_ratio: ClassVar[float] = MAX_MACS

    def apply(self, model: Model, context: PassContext) -> Model:
        """The tiled model, or the model itself where no tiles make its peak smaller.

        Raises TilingError for stages that cannot be tiled, NumericDifferenceError where the outputs differ by more than
        the class says and `allow_difference` is not "yes", and as `OptimiseGraph.apply`.
        """
        if isinstance(model, Stateful) and model.noted_states():
            raise ModelError(f"{context.path.name}: --tile fixes the sizes of a model, and --state keeps them open")
        base = model
        levels = self._levels(context)
        if baked_note(model.content()) is None:
            base = OptimiseGraph().apply(model, replace(context, options={"level": cut_level(levels[0])}))
        if not isinstance(base, Rewritable):
            raise ModelError(f"{context.path.name}: its format cannot be tiled")
        by_hand = context.options.get("stages", "auto") != "auto"
        budget = float(context.options.get("budget", "inf"))
        limit = float("inf") if by_hand else _peak(model, context)
        nearest: Model | None = None
        refusal: NumericDifferenceError | None = None
        for attempt in (_Attempt(base, level, context) for level in levels):
            for made in attempt.models():
                peak = _peak(made, context)
                if peak >= limit:
                    continue
                found = attempt.compared(made)
                if context.options.get("allow_difference") != "yes" and not _is_near(found):
                    text = (
                        f"{context.path.name}: tiled, {found}; allow it with --allow-numeric-difference, or take fewer"
                    )
                    refusal = refusal or NumericDifferenceError(f"{text} tiles", largest=found.largest)
                    continue
                if by_hand or peak <= budget:
                    return made
                nearest, limit = made, peak
                if not attempt.is_optimised_again:
                    break
        if nearest is not None:
            return nearest
        if refusal is not None:
            raise refusal
        _check_blocks(base.graph(), context)
        return model

    def _levels(self, context: PassContext) -> tuple[str, ...]:
        """Of the result: the user's, or that of the file, or what a session runs and the next one."""
        note = baked_note(context.path)
        level = context.options.get("level") or (note.level if note else "")
        return (level,) if level else (_SESSION_LEVEL, TILED_LEVEL)


class _Attempt:
    """The ways to tile one model for a result of one level."""

    def __init__(self, base: Model, level: str, context: PassContext) -> None:
        self._base, self._context = base, context
        self._graph = base.graph()
        note = baked_note(base.content())
        self._again = level if note is not None and level != note.level else ""

    @property
    def is_optimised_again(self) -> bool:
        """Whether the tiled graph is optimised once more, to another level than it was cut at."""
        return bool(self._again)

    def models(self) -> Iterator[Model]:
        """Tiled models, the one that is wanted most first; none where tiles do not help."""
        text = self._context.options.get("stages", "auto")
        if text != "auto":
            yield self._made(parse_stages(text))
            return
        tried: set[tuple[TileStage, ...]] = set()
        for threads in self._threads():
            made = min(self._chosen(threads, tried), key=lambda m: _peak(m, self._context), default=None)
            if made is not None:
                yield made

    def compared(self, made: Model) -> TiledComparison:
        """How far the outputs are from those of the model that was tiled, or of a default session of its file."""
        context = self._context
        threads = tuple(dict.fromkeys((1, int(context.options.get("threads", 0)))))
        if self._again:
            return compare_with_session(
                context.path, made, bindings=context.bindings, feeds=context.feeds, threads=threads
            )
        with temporary_folder() as folder:
            return compare_tiled(
                self._base, made, folder, bindings=context.bindings, feeds=context.feeds, threads=threads
            )

    def _threads(self) -> Iterator[tuple[int, ...]]:
        """Numbers of threads for which the sums of the graph that is cut are to keep their blocks.

        Kernels of the level `all` have blocks of their own. There this only keeps parts from becoming very small, so
        that one thread is enough, and none where the budget asks for smaller parts.
        """
        if self._again:
            yield from ((1,), ())
            return
        wanted = int(self._context.options.get("threads", 0)) or os.cpu_count() or 1
        yield (1, wanted)
        yield from () if wanted == 1 else _MORE_THREADS

    def _chosen(self, threads: Sequence[int], tried: set[tuple[TileStage, ...]]) -> Iterator[Model]:
        """The models with the least arithmetic within the budget, or with the least peak; only new ones.

        What is planned is the optimised graph, which may need more than the search estimates: then stages for a smaller
        budget are found, too.
        """
        options, target = self._context.options, self._context.target
        max_macs = float(options.get("max_macs", MAX_MACS))
        budget = int(options["budget"]) if "budget" in options else None
        limit = budget
        for _ in range(_TIGHTER):
            found = find_stages(self._graph, target, max_macs=max_macs, budget=limit, threads=threads)
            if not found.stages or found.stages in tried:
                return
            tried.add(found.stages)
            made = self._made(found.stages)
            yield made
            peak = _peak(made, self._context)
            if budget is None or limit is None or peak <= budget or found.peak > limit:
                return
            limit = limit * budget // (peak + 1)

    def _made(self, stages: Sequence[TileStage]) -> Model:
        assert isinstance(self._base, Rewritable)
        made = self._base.rewritten(tile(self._graph, stages))
        return optimised_again(made, self._again, self._context) if self._again else made


def _peak(model: Model, context: PassContext) -> int:
    return peak_without_stages(model.graph(), context.target)


def _is_near(found: TiledComparison) -> bool:
    return found.is_identical or found.largest <= _LIKE_LEVELS * found.levels


def _check_blocks(graph: Graph, context: PassContext) -> None:
    """Raise TilingError for a graph whose tensors are laid out in blocks of channels."""
    blocked = next((op for op in graph.ops if op.type.startswith("com.microsoft.nchwc::")), None)
    if blocked is not None:
        why = "its graph was optimised to the level `all` and keeps channels in blocks, which cannot be cut into rows"
        raise TilingError(context.path.name, f"{why}; tile the model that it was made from")
