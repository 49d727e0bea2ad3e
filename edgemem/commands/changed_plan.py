"""The plan of a model that passes have changed."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from edgemem.commands.order_choice import keep_order
from edgemem.errors import BudgetExceededError
from edgemem.formats import Model
from edgemem.planning.choice import choices
from edgemem.records.micro_tail import predicted_tail

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from edgemem.commands.pass_result import ChangedModel
    from edgemem.formats import RecordFile
    from edgemem.plans import PlanSet
    from edgemem.targets import Target

__all__ = ["limits_of_plans", "plan_changed_model"]


def plan_changed_model(
    prepared: ChangedModel, make: Callable[[Model | RecordFile, Target | None], PlanSet]
) -> tuple[ChangedModel, PlanSet]:
    """A plan that is never larger for the order that was found, of the best mixture whose plan fits.

    An order with a lower peak may be harder to pack. Where its plan is above the peak of the order before, that order
    is planned, too, and kept if its plan is smaller.

    Args:
        prepared: the model.
        make: makes the plan of a model under the rules of a target. Raises BudgetExceededError for a plan that does not
            fit.

    Returns what was planned, and the plan. Raises as `make` does for the first model.
    """
    try:
        return _plan_ordered(prepared, make)
    except BudgetExceededError as e:
        for other in prepared.others:
            try:
                return _plan_ordered(other, make)
            except BudgetExceededError:
                continue
        raise e from None


def _plan_ordered(
    prepared: ChangedModel, make_for: Callable[[Model | RecordFile, Target | None], PlanSet]
) -> tuple[ChangedModel, PlanSet]:
    plain, ordering = prepared.plain, prepared.ordering

    def make(model: Model | RecordFile) -> PlanSet:
        return make_for(model, prepared.target)

    try:
        planset = make(prepared.model)
    except BudgetExceededError as e:
        if plain is None:
            raise
        try:
            planset = make(plain)
        except BudgetExceededError:
            raise e from None
        return _without_order(prepared), planset
    if plain is None or ordering is None or _size(planset) <= ordering.given_peak:
        return prepared, planset
    try:
        other = make(plain)
    except BudgetExceededError:
        return prepared, planset
    if _size(other) + _tail(prepared, plain) < _size(planset) + _tail(prepared, prepared.model):
        return _without_order(prepared), other
    return prepared, planset


def limits_of_plans(
    strategies: Sequence[str], limits: Mapping[str, str | float | None], order_s: float
) -> dict[str, str | float | None]:
    """The limits of a command that are left for the plans after the search for an order.

    Args:
        strategies: those that the user named.
        limits: `effort`, `seed` and `time_limit`, as the user gave them.
        order_s: seconds that the search for an order took.

    A limit that no named strategy has is that of the order alone. Raises UnknownStrategyError for a name that is none.
    """
    named = [choice for text in strategies for choice in choices(text)]
    left = {
        name: None if named and not any(name in c.strategy.options for c in named) else limits[name] for name in limits
    }
    if isinstance(left["time_limit"], float):
        left["time_limit"] = max(0.0, left["time_limit"] - order_s)
    return left


def _without_order(prepared: ChangedModel) -> ChangedModel:
    assert prepared.plain is not None
    ordering = prepared.ordering and keep_order(prepared.ordering)
    original = None if prepared.original is prepared.plain else prepared.original
    return replace(prepared, model=prepared.plain, original=original, ordering=ordering, plain=None)


def _size(planset: PlanSet) -> int:
    best = planset.best_offsets or planset.best_shared_objects
    return best.size if best is not None else 0


def _tail(prepared: ChangedModel, model: object) -> int:
    return predicted_tail(model.graph()) if prepared.counts_tail and isinstance(model, Model) else 0
