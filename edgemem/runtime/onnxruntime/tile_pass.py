"""The pass that runs operators of an ONNX model in tiles, and tests that the outputs stay the same."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, Final

from edgemem.errors import ModelError, NumericDifferenceError, TilingError
from edgemem.files import temporary_folder
from edgemem.formats import Rewritable, Stateful
from edgemem.passes.protocol import Guarantee
from edgemem.passes.tiling.auto import find_stages
from edgemem.passes.tiling.stage import parse_stages
from edgemem.passes.tiling.tile import tile
from edgemem.runtime.onnxruntime.optimise import baked_note
from edgemem.runtime.onnxruntime.optimise_pass import OptimiseGraph
from edgemem.runtime.onnxruntime.tiled import compare_tiled

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from edgemem.formats import Model
    from edgemem.model.graph import Graph
    from edgemem.passes.protocol import PassContext
    from edgemem.passes.tiling.stage import Stage

__all__ = ["MAX_MACS", "TILED_LEVEL", "TileOperators"]

MAX_MACS: Final = 1.15
TILED_LEVEL: Final = "extended"  # for a file that is not baked; the level `all` keeps channels in blocks
# Numbers of threads that convolutions are cut for, until the outputs stay the same.
_MORE_THREADS: Final = ((1, 2), (1, 2, 4), (1, 2, 4, 8), (1, 2, 4, 8, 16))


class TileOperators:
    """Computes runs of operators tile by tile in ONNX Runtime's optimised graph.

    Options, all texts: `stages`, "auto" or as `parse_stages` takes them; `max_macs`; `budget`; `allow_difference`;
    `threads` that the outputs are to be the same with, besides one (as many as a session has by default). A model that
    is not baked is baked at the level `extended` first: only baked files run in their order.
    """

    name: ClassVar[str] = "tile"
    suffixes: ClassVar[frozenset[str]] = frozenset({".onnx"})
    requires: ClassVar[Mapping[str, str]] = {}
    guarantee: ClassVar[Guarantee] = Guarantee(
        "identical", "every part is computed from the same values, and the outputs are compared on three inputs"
    )
    macs_ratio: ClassVar[float] = MAX_MACS

    def apply(self, model: Model, context: PassContext) -> Model:
        """The tiled model, or the model itself where no tiles make its peak smaller.

        Raises TilingError for stages that cannot be tiled, NumericDifferenceError where the outputs differ and
        `allow_difference` is not "yes", and as `OptimiseGraph.apply`.
        """
        if isinstance(model, Stateful) and model.noted_states():
            raise ModelError(f"{context.path.name}: --tile fixes the sizes of a model, and --state keeps them open")
        before = model
        if baked_note(model.content()) is None:
            options = {"level": TILED_LEVEL}
            model = OptimiseGraph().apply(model, replace(context, options=options))
        if not isinstance(model, Rewritable):
            raise ModelError(f"{context.path.name}: its format cannot be tiled")
        graph = model.graph()
        refusal: NumericDifferenceError | None = None
        for stages in _choices(graph, context):
            if not stages:
                break
            made = model.rewritten(tile(graph, stages))
            with temporary_folder() as folder:
                threads = tuple(dict.fromkeys((1, int(context.options.get("threads", 0)))))
                found = compare_tiled(
                    model, made, folder, bindings=context.bindings, feeds=context.feeds, threads=threads
                )
            if found.is_identical or context.options.get("allow_difference") == "yes":
                return made
            text = f"{context.path.name}: tiled, {found}; allow it with --allow-numeric-difference, or take fewer tiles"
            refusal = refusal or NumericDifferenceError(text, largest=found.largest)
        if refusal is not None:
            raise refusal
        _check_blocks(graph, context)
        return before


def _choices(graph: Graph, context: PassContext) -> Iterator[tuple[Stage, ...]]:
    """The stages to try, in turn; () where tiles do not help."""
    text = context.options.get("stages", "auto")
    if text != "auto":
        yield parse_stages(text)
        return
    max_macs = float(context.options.get("max_macs", MAX_MACS))
    budget = int(context.options["budget"]) if "budget" in context.options else None
    tried: set[tuple[Stage, ...]] = set()
    wanted = int(context.options.get("threads", 0)) or os.cpu_count() or 1
    for threads in ((1, wanted), *_MORE_THREADS):
        stages = find_stages(graph, context.target, max_macs=max_macs, budget=budget, threads=threads).stages
        if stages not in tried:
            tried.add(stages)
            yield stages
        if wanted == 1:
            return


def _check_blocks(graph: Graph, context: PassContext) -> None:
    """Raise TilingError for a graph whose tensors are laid out in blocks of channels."""
    blocked = next((op for op in graph.ops if op.type.startswith("com.microsoft.nchwc::")), None)
    if blocked is not None:
        why = "ONNX Runtime's graph of the level `all` keeps channels in blocks, which cannot be cut into rows"
        raise TilingError(context.path.name, f"{why}; use --optimize extended")
