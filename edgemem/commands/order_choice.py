"""Where the order of operators is decided: before the passes that replace operators, and after them again.

    model ── order ── tiles ── order ── a
      └────────────── tiles ── order ── b         the one with the lower peak; a if both have the same

Stages are found in the graph as it is: in a better order the peak may be elsewhere, or no stages are needed. But what
is found there may also be worse, so that both ways are tried. b is never above the model that is tiled and not ordered.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from edgemem.errors import EdgememError
from edgemem.passes.order import GIVEN, OrderOperators
from edgemem.records.micro_tail import predicted_tail

if TYPE_CHECKING:
    from collections.abc import Callable

    from edgemem.formats import Model
    from edgemem.passes.protocol import PassContext
    from edgemem.schedule.ordering import Ordering

__all__ = ["Ordered", "keep_order", "order_among", "order_model"]

_SEARCHES: Final = 3  # of `order_among`, which share the time


@dataclass(frozen=True, slots=True)
class Ordered:
    """A model in another order.

    Attributes:
        model: in that order.
        ordering: of its graph; `given_peak` is that of `plain`.
        plain: what the model would be without the search for an order; None if that is `model`, or was not made.
        seconds: that the searches took.
    """

    model: Model
    ordering: Ordering
    plain: Model | None
    seconds: float


def order_model(model: Model, context: PassContext) -> Ordered:
    """A model in the best order that was found. Raises as `OrderOperators.apply`."""
    changed, found = OrderOperators().ordered(model, context)
    return Ordered(changed, found, None if changed is model else model, found.seconds)


def order_among(
    model: Model,
    context: PassContext,
    shrink: Callable[[Model], Model],
    *,
    by_hand: bool = False,
    fits: int | None = None,
    counts_tail: bool = False,
) -> Ordered:
    """A model whose operators other passes replace, in the best order that was found.

    Args:
        model: the model.
        context: of the search for an order; its time limit is shared by all searches.
        shrink: replaces operators. Gives the same model back if it changes nothing.
        by_hand: its stages are numbers of operators in `model`, so that it can be applied to no other order.
        fits: bytes of the peak that are few enough; a model within them is not improved any further.
        counts_tail: operators cost memory besides, in TensorFlow Lite Micro's tail.

    Raises as `OrderOperators.apply` and `shrink`.
    """
    if "time_limit" in context.options:
        limit = str(float(context.options["time_limit"]) / _SEARCHES)
        context = replace(context, options={**context.options, "time_limit": limit})
    first = None if by_hand else order_model(model, context)
    seconds = first.seconds if first else 0.0
    a = None
    if first is not None and first.model is not model:
        try:
            a = order_model(shrink(first.model), context)
        except EdgememError:
            a = None  # what cannot be cut in this order may be cut in the model's own
    if first is not None and a is not None:
        seconds += a.seconds
        method = first.ordering.method if a.ordering.method == GIVEN else a.ordering.method
        a = replace(a, ordering=replace(a.ordering, method=method), seconds=seconds)
        if fits is not None and a.ordering.peak <= fits:
            given = a.ordering.given_peak
            if a.model is first.model:  # nothing was replaced
                given = first.ordering.given_peak
            return replace(a, ordering=replace(a.ordering, given_peak=max(given, a.ordering.peak)), plain=None)
    plain = shrink(model)
    b = order_model(plain, context)
    seconds += b.seconds
    if a is not None and _cost(a, counts_tail=counts_tail) <= _cost(b, counts_tail=counts_tail):
        ordering = replace(a.ordering, given_peak=b.ordering.given_peak)
        return Ordered(a.model, ordering, plain, seconds)
    return replace(b, seconds=seconds)


def keep_order(ordered: Ordering) -> Ordering:
    """What is told of a model that keeps its order."""
    kept = tuple(range(len(ordered.order)))
    return replace(ordered, order=kept, peak=ordered.given_peak, method=GIVEN, stopped="rule")


def _cost(ordered: Ordered, *, counts_tail: bool) -> int:
    return ordered.ordering.peak + (predicted_tail(ordered.model.graph()) if counts_tail else 0)
