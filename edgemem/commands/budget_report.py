"""Explains why no mixture of changes is within a budget: how near they come, and what is in the way."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgemem.errors import BudgetExceededError

if TYPE_CHECKING:
    from edgemem.commands.mixture import CandidateLimits, Mixture, Mixtures
    from edgemem.commands.steps import Steps

__all__ = ["check_reachable"]


def check_reachable(steps: Steps, limits: CandidateLimits, found: Mixtures) -> None:
    """Raise BudgetExceededError unless a mixture is within the limits.

    The message names the operator whose own inputs and results exceed the budget, where there is one: no order and no
    recomputation makes them smaller.

    Args:
        steps: that were applied.
        limits: of the mixtures.
        found: the mixtures.
    """
    if found.ranked or limits.budget is None:
        return
    budget = limits.budget
    least = min(found.best, key=lambda way: way.peak)
    widest = found.widest
    is_bound = widest is not None and widest.needs > budget
    more = "" if is_bound else " (--max-macs allows more)"
    text = (
        f"{steps.path.name}: no mixture found takes {budget:,} bytes or less within {limits.max_macs:g} times the "
        f"multiply-accumulates{more}; {_name(least)} comes nearest with {least.peak:,}"
    )
    if widest is not None and is_bound:
        text += (
            f". Operator {widest.name!r} ({widest.type}) alone needs {widest.needs:,}: it reads {widest.reads} and "
            f"writes {widest.writes}. No order and no recomputation goes below that"
        )
    if found.refused:
        text += f". No stages can be made: {found.refused}"
    raise BudgetExceededError(text, required=least.peak, available=budget, op=widest.name if widest is not None else "")


def _name(way: Mixture) -> str:
    return " + ".join(way.means) or "the model as it is"
