"""Operators run in an order with a lower peak."""

from __future__ import annotations

from dataclasses import dataclass, replace
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

__all__ = ["OrderOperators"]

_GIVEN: Final = "given"  # what is said of a search that keeps the order of the file
_AUTO: Final = "auto"


@dataclass(frozen=True, slots=True)
class OrderOperators:
    """Writes the best order that `edgemem.schedule` finds under the target's rules into the model.

    Attributes:
        method: as `find_order` takes it.
        effort: work of every solver; None for each solver's own.
        seed: of the solvers' random choices.
        time_limit: seconds for all solvers together; None for no limit.

    Raises UnknownStrategyError for a method that there is not.
    """

    method: str = _AUTO
    effort: str | None = None
    seed: int | None = None
    time_limit: float | None = None

    name: ClassVar[str] = "order"
    suffixes: ClassVar[frozenset[str]] = frozenset({".onnx", ".tflite"})
    # ONNX Runtime runs the nodes of a file in an order of its own unless `optimize` came first; other engines do not.
    requires: ClassVar[Mapping[str, str]] = {}
    guarantee: ClassVar[Guarantee] = Guarantee("identical", "every operator has the same inputs as before")

    def __post_init__(self) -> None:
        known = (_AUTO, *SOLVERS)
        if self.method not in known:
            raise UnknownStrategyError(f"no method {self.method!r} orders operators; there are {', '.join(known)}")

    def apply(self, model: Model, context: PassContext) -> Model:
        """The model in the new order, without the plan it had; the model itself if no order is better."""
        return self.ordered(model, context)[0]

    def ordered(self, model: Model, context: PassContext) -> tuple[Model, Ordering]:
        """As `apply`, and what the search found."""
        target = context.target
        found = find_order(
            graph_under(model, target),
            target,
            method=self.method,
            effort=self.effort,
            seed=self.seed,
            time_limit=self.time_limit,
        )
        changed = model.with_order(found.order)
        if changed is model or ".onnx" not in changed.suffixes:
            return changed, found
        # ONNX Runtime takes Shape and Size as early as it can, wherever they were put.
        peak = peak_of(changed.graph(), target)
        if peak >= found.given_peak:
            kept = tuple(range(len(found.order)))
            return model, replace(found, order=kept, peak=found.given_peak, method=_GIVEN, stopped="rule")
        return changed, found if peak == found.peak else replace(found, peak=peak, stopped="rule")

    def __str__(self) -> str:
        return self.name if self.method == _AUTO else f"{self.name}={self.method}"
