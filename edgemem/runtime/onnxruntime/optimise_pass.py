"""The pass that replaces a model by ONNX Runtime's optimised graph of it, with the sizes of all tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from edgemem.formats import load_model
from edgemem.passes.protocol import Guarantee
from edgemem.runtime.onnxruntime.baking import bake_sized

if TYPE_CHECKING:
    from collections.abc import Mapping

    from edgemem.formats import Model
    from edgemem.passes.protocol import PassContext

__all__ = ["OptimiseGraph"]


class OptimiseGraph:
    """Replaces the graph by ONNX Runtime's optimised graph; the option `level` says how far to optimise."""

    name: ClassVar[str] = "optimize"
    suffixes: ClassVar[frozenset[str]] = frozenset({".onnx"})
    requires: ClassVar[Mapping[str, str]] = {}
    guarantee: ClassVar[Guarantee] = Guarantee("identical", "it is the graph that a session at that level runs")
    macs_ratio: ClassVar[float] = 1.0

    def apply(self, model: Model, context: PassContext) -> Model:
        """The optimised model, read from a file in the context's folder. Raises as `bake_sized`."""
        path = context.folder / context.path.name
        path.write_bytes(model.content())
        bake_sized(context.path, path, context.options["level"], feeds=context.feeds, bindings=context.bindings)
        return load_model(path)
