"""Operators run in an order with a lower peak."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, Final

from edgemem.errors import UnknownStrategyError
from edgemem.formats.workspace import graph_under
from edgemem.passes.protocol import Guarantee
from edgemem.schedule.order import find_order
from edgemem.schedule.peak import peak_of
from edgemem.schedule.registry import SOLVERS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from edgemem.formats import Model
    from edgemem.passes.protocol import PassContext
    from edgemem.schedule.ordering import Ordering

__all__ = ["GIVEN", "OrderOperators", "check_method"]

GIVEN: Final = "given"  # the method that keeps the order of the file


class OrderOperators:
    """Writes the best order that `edgemem.schedule` finds under the target's rules into the model.

    Options, all texts: `method`, as `find_order` takes it (auto); `effort`, `seed` and `time_limit` of the search;
    `budget`, bytes that decide at which of ONNX Runtime's levels a model is ordered (`edgemem.commands.levels`).
    """

    name: ClassVar[str] = "order"
    suffixes: ClassVar[frozenset[str]] = frozenset({".onnx", ".tflite"})
    # ONNX Runtime runs the nodes of a file in an order of its own unless the file is baked.
    requires: ClassVar[Mapping[str, str]] = {".onnx": "optimize"}
    guarantee: ClassVar[Guarantee] = Guarantee("identical", "every operator has the same inputs as before")
    macs_ratio: ClassVar[float] = 1.0

    def apply(self, model: Model, context: PassContext) -> Model:
        """The model in the new order, without the plan it had; the model itself if no order is better."""
        return self.ordered(model, context)[0]

    def ordered(self, model: Model, context: PassContext) -> tuple[Model, Ordering]:
        """As `apply`, and what the search found."""
        options, target = context.options, context.target
        found = find_order(
            graph_under(model, target),
            target,
            method=options.get("method", "auto"),
            effort=options.get("effort"),
            seed=int(options["seed"]) if "seed" in options else None,
            time_limit=float(options["time_limit"]) if "time_limit" in options else None,
        )
        changed = model.with_order(found.order)
        if changed is model or ".onnx" not in changed.suffixes:
            return changed, found
        # ONNX Runtime takes Shape and Size as early as it can, wherever they were put.
        peak = peak_of(changed.graph(), target)
        if peak >= found.given_peak:
            kept = tuple(range(len(found.order)))
            return model, replace(found, order=kept, peak=found.given_peak, method=GIVEN, stopped="rule")
        return changed, found if peak == found.peak else replace(found, peak=peak, stopped="rule")


def check_method(method: str) -> None:
    """Raise UnknownStrategyError for a name that is no method."""
    known = ("auto", GIVEN, *SOLVERS)
    if method not in known:
        raise UnknownStrategyError(f"no method {method!r} orders operators; there are {', '.join(known)}")
