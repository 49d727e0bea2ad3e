"""The pass that replaces a model by ONNX Runtime's optimised graph of it, with the sizes of all tensors."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final

from edgemem.errors import ModelError
from edgemem.formats import load_model, onnx_editor
from edgemem.passes.file_order import depth_first_order, order_like
from edgemem.passes.protocol import Guarantee
from edgemem.runtime.onnxruntime.baked_file import LEVELS, baked_note
from edgemem.runtime.onnxruntime.baking import bake_sized
from edgemem.runtime.onnxruntime.file import BAKED_KEY

if TYPE_CHECKING:
    from collections.abc import Mapping

    from edgemem.formats import Model
    from edgemem.passes.protocol import PassContext

__all__ = ["OptimiseGraph", "optimised_again"]

# Makes one Split of the slices of a tensor, all of which are in memory then until the last part has run.
_JOINING: Final = ("GatherSliceToSplitFusion",)


@dataclass(frozen=True, slots=True)
class OptimiseGraph:
    """Replaces the graph by ONNX Runtime's optimised graph, in an order that is the same every time.

    Attributes:
        level: how far to optimise: none, basic, extended or all.
    """

    level: str = "all"

    name: ClassVar[str] = "optimize"
    suffixes: ClassVar[frozenset[str]] = frozenset({".onnx"})
    requires: ClassVar[Mapping[str, str]] = {}
    guarantee: ClassVar[Guarantee] = Guarantee("close", "it is the graph that a session at that level runs")

    def __post_init__(self) -> None:
        if self.level not in LEVELS:
            raise ModelError(f"no level {self.level!r}; there are {', '.join(LEVELS)}")

    def apply(self, model: Model, context: PassContext) -> Model:
        """The optimised model, read from a file in the context's folder, in the order of the original file.

        ONNX Runtime's own order is another one each time. A model that is baked already stays as it is. Raises as
        `bake_sized`.
        """
        if baked_note(model.content()) is not None:
            return model
        path = Path(tempfile.mkdtemp(dir=context.folder)) / context.path.name
        bake_sized(context.path, path, self.level, feeds=context.feeds, bindings=context.bindings)
        baked = load_model(path, context.bindings.left_open)
        written = onnx_editor().parts(model.content(), context.path.parent).node_outputs
        return baked.with_order(order_like(baked.graph(), written))

    def __str__(self) -> str:
        return f"{self.name}={self.level}"


def optimised_again(model: Model, level: str, context: PassContext) -> Model:
    """A baked model whose graph ONNX Runtime optimises once more, to a higher level.

    ONNX Runtime's own order is not kept: it may run all parts of a layer before the next layer, and be another one each
    time.

    Args:
        model: a baked model, which other passes have changed.
        level: of the result, whose note names it.
        context: of the pass that wants it.

    Raises as `bake_sized`.
    """
    editor = onnx_editor()
    data = editor.without_metadata(model.content(), BAKED_KEY)
    folder = Path(tempfile.mkdtemp(dir=context.folder))
    source, path = folder / "source.onnx", folder / context.path.name
    source.write_bytes(data)
    bake_sized(source, path, level, feeds=context.feeds, bindings=context.bindings, disabled=_JOINING)
    source.unlink()
    baked = load_model(path, context.bindings.left_open)
    written = editor.parts(data, folder).node_outputs
    return baked.with_order(depth_first_order(baked.graph(), written, context.target))
