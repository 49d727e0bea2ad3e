"""The pass that replaces a model by ONNX Runtime's optimised graph of it, with the sizes of all tensors."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from edgemem.formats import load_model, onnx_editor
from edgemem.passes.file_order import better_order, depth_first_order, order_like
from edgemem.passes.order import GIVEN
from edgemem.passes.protocol import Guarantee
from edgemem.runtime.onnxruntime.baking import bake_sized
from edgemem.runtime.onnxruntime.file import BAKED_KEY

if TYPE_CHECKING:
    from collections.abc import Mapping

    from edgemem.formats import Model
    from edgemem.passes.protocol import PassContext

__all__ = ["OptimiseGraph", "optimised_again"]


class OptimiseGraph:
    """Replaces the graph by ONNX Runtime's optimised graph.

    Options: `level`, how far to optimise; `order`, "given" for the order of the original file in any case.
    """

    name: ClassVar[str] = "optimize"
    suffixes: ClassVar[frozenset[str]] = frozenset({".onnx"})
    requires: ClassVar[Mapping[str, str]] = {}
    guarantee: ClassVar[Guarantee] = Guarantee("identical", "it is the graph that a session at that level runs")
    macs_ratio: ClassVar[float] = 1.0

    def apply(self, model: Model, context: PassContext) -> Model:
        """The optimised model, read from a file in the context's folder, in the better of two orders.

        ONNX Runtime's own order is kept unless that of the original file needs less memory, or is asked for. Raises as
        `bake_sized`.
        """
        path = context.folder / context.path.name
        bake_sized(context.path, path, context.options["level"], feeds=context.feeds, bindings=context.bindings)
        baked = load_model(path)
        written = onnx_editor().parts(model.content(), context.path.parent).node_outputs
        graph = baked.graph()
        given = context.options.get("order") == GIVEN
        return baked.with_order(order_like(graph, written) if given else better_order(graph, written, context.target))


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
    bake_sized(source, path, level, feeds=context.feeds, bindings=context.bindings)
    source.unlink()
    baked = load_model(path)
    written = editor.parts(data, folder).node_outputs
    return baked.with_order(depth_first_order(baked.graph(), written, context.target))
