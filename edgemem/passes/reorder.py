"""Operators run in an order with a lower peak."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from edgemem.passes.protocol import Guarantee
from edgemem.schedule.order import find_order

if TYPE_CHECKING:
    from collections.abc import Mapping

    from edgemem.formats import Model
    from edgemem.passes.protocol import PassContext

__all__ = ["ReorderOperators"]


class ReorderOperators:
    """Writes the best order that `edgemem.schedule` finds under the target's rules into the model."""

    name: ClassVar[str] = "reorder"
    suffixes: ClassVar[frozenset[str]] = frozenset({".onnx", ".tflite"})
    # ONNX Runtime runs the nodes of a file in an order of its own unless the file is baked.
    requires: ClassVar[Mapping[str, str]] = {".onnx": "optimize"}
    guarantee: ClassVar[Guarantee] = Guarantee("identical", "every operator has the same inputs as before")
    macs_ratio: ClassVar[float] = 1.0

    def apply(self, model: Model, context: PassContext) -> Model:
        """The model in the new order, without the plan it had; the model itself if no order is better."""
        return model.with_order(find_order(model.graph(), context.target))
