"""The pass that lets operators of a model run several times, so that their results need not stay in memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from edgemem.errors import ModelError
from edgemem.formats import Rewritable
from edgemem.formats.workspace import graph_under
from edgemem.passes.protocol import Guarantee
from edgemem.passes.recompute.repeated_graph import repeat
from edgemem.passes.recompute.ways import find_ways

if TYPE_CHECKING:
    from collections.abc import Mapping

    from edgemem.formats import Model
    from edgemem.passes.protocol import PassContext

__all__ = ["RecomputeOperators"]


@dataclass(frozen=True, slots=True)
class RecomputeOperators:
    """Runs operators again before their results are read again, in the order that the model has.

    ONNX Runtime merges equal nodes of a model that is not baked.

    Attributes:
        budget: bytes (texels for textures) that the peak should not exceed; None for the lowest peak.
        max_macs: the most multiply-accumulate operations, as a multiple of the model's.
    """

    budget: int | None = None
    max_macs: float = 1.15

    name: ClassVar[str] = "recompute"
    suffixes: ClassVar[frozenset[str]] = frozenset({".onnx", ".tflite"})
    requires: ClassVar[Mapping[str, str]] = {".onnx": "optimize"}
    guarantee: ClassVar[Guarantee] = Guarantee(
        "identical", "every copy of an operator reads the same values, and runs the same kernel on them"
    )

    def apply(self, model: Model, context: PassContext) -> Model:
        """The model with the least arithmetic within the budget, or else with the lowest peak, without the plan it had.

        The model itself where no operator needs to run again, or none makes the peak lower. Raises ModelError for a
        format that has one order alone, and as `find_ways`.
        """
        graph = graph_under(model, context.target)
        ways = find_ways(graph, context.target, max_macs=self.max_macs, budget=self.budget).ways
        way = next((way for way in ways if self.budget is not None and way.peak <= self.budget), ways[-1])
        if way is ways[0]:
            return model
        if len(way.runs) == len(graph.ops):
            return model.with_order(way.runs)
        if not isinstance(model, Rewritable):
            raise ModelError("operators of this format cannot be replaced")
        return model.rewritten(repeat(model.graph(), way.runs))

    def __str__(self) -> str:
        return self.name if self.budget is None else f"{self.name}={self.budget}"
