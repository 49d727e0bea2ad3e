"""The pass that replaces a model by ONNX Runtime's optimised graph of it, with the sizes of all tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from edgemem.formats import load_model, onnx_editor
from edgemem.passes.file_order import better_order, order_like
from edgemem.passes.protocol import Guarantee
from edgemem.passes.reorder import GIVEN
from edgemem.runtime.onnxruntime.baking import bake_sized

if TYPE_CHECKING:
    from collections.abc import Mapping

    from edgemem.formats import Model
    from edgemem.passes.protocol import PassContext

__all__ = ["OptimiseGraph"]


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
