"""The pass that lets operators of a model run several times, so that their results need not stay in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from edgemem.errors import ModelError
from edgemem.formats import Rewritable
from edgemem.formats.workspace import graph_under
from edgemem.passes.protocol import Guarantee
from edgemem.passes.recompute.repeated_graph import repeat
from edgemem.passes.recompute.ways import Search, find_ways

if TYPE_CHECKING:
    from collections.abc import Mapping

    from edgemem.formats import Model
    from edgemem.passes.protocol import PassContext
    from edgemem.passes.recompute.ways import Front, Way

__all__ = ["MOST_MACS", "RecomputeOperators"]

MOST_MACS: Final = 1.25


class RecomputeOperators:
    """Runs operators again before their results are read again, in the order that the model has.

    Options, all texts: `budget`, `max_macs`; `effort`, `seed` and `time_limit` of the search. ONNX Runtime merges equal
    nodes of a model that is not baked.
    """

    name: ClassVar[str] = "recompute"
    suffixes: ClassVar[frozenset[str]] = frozenset({".onnx", ".tflite"})
    requires: ClassVar[Mapping[str, str]] = {".onnx": "optimize"}
    guarantee: ClassVar[Guarantee] = Guarantee(
        "identical", "every copy of an operator reads the same values, and runs the same kernel on them"
    )
    macs_ratio: ClassVar[float] = MOST_MACS

    def apply(self, model: Model, context: PassContext) -> Model:
        """The model with the least arithmetic within the budget, or else with the lowest peak.

        The model itself where no operator needs to run again, or none makes the peak lower.
        """
        ways = self.ways(model, context).ways
        budget = float(context.options.get("budget", 0))
        fit = [way for way in ways if way.peak <= budget]
        return self.written(model, fit[0] if fit else ways[-1])

    def ways(self, model: Model, context: PassContext) -> Front:
        """The ways to run the model near the budget, or with the lowest peak. Raises as `find_ways`."""
        options = context.options
        return find_ways(
            graph_under(model, context.target),
            context.target,
            max_macs=float(options.get("max_macs", MOST_MACS)),
            budget=int(options["budget"]) if "budget" in options else None,
            search=Search(
                options.get("effort", "fast"),
                int(options.get("seed", 1)),
                float(options["time_limit"]) if "time_limit" in options else None,
            ),
        )

    def written(self, model: Model, way: Way) -> Model:
        """The model that runs so, without the plan it had. Raises ModelError for a format that has one order alone."""
        if len(way.runs) == len(model.graph().ops):
            return model.with_order(way.runs)
        if not isinstance(model, Rewritable):
            raise ModelError("operators of this format cannot be replaced")
        return model.rewritten(repeat(model.graph(), way.runs))
