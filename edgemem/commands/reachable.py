"""What is said where no mixture of changes is within a budget: how near they come, what is in the way, what is left."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgemem.errors import BudgetExceededError

if TYPE_CHECKING:
    from edgemem.commands.mixture import Limits, Mixture, Mixtures
    from edgemem.commands.steps import Steps

__all__ = ["check_reachable"]


def check_reachable(steps: Steps, limits: Limits, found: Mixtures) -> None:
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
    text = (
        f"{steps.path.name}: no mixture found takes {budget:,} bytes or less within {limits.max_macs:g} times the "
        f"multiply-accumulates; {_name(least)} comes nearest with {least.peak:,}"
    )
    widest = found.widest
    is_bound = widest is not None and widest.needs > budget
    if widest is not None and is_bound:
        text += (
            f". Operator {widest.name!r} ({widest.type}) alone needs {widest.needs:,}: it reads {widest.reads} and "
            f"writes {widest.writes}. No order and no recomputation goes below that"
        )
    raise BudgetExceededError(
        f"{text}; {_ways_left(steps, found, limits, is_bound=is_bound)}",
        required=least.peak,
        available=budget,
        op=widest.name if widest is not None else "",
    )


def _name(way: Mixture) -> str:
    return " + ".join(way.means) or "the model as it is"


def _ways_left(steps: Steps, found: Mixtures, limits: Limits, *, is_bound: bool) -> str:
    """What a user may still do, by what was not tried; `is_bound`: an operator alone exceeds the budget."""
    means = {name for way in found.best for name in way.means}
    ways = []
    is_tflite = steps.path.suffix.lower() == ".tflite"
    cut = "stream" if is_tflite else "tile"
    if cut not in steps.options:
        ways.append(f"--{cut} auto, which cuts operators into parts")
    elif cut not in means:
        reason = found.refused or "those that it chooses take no less"
        ways.append(f"--{cut} with stages by hand ({reason})")
    if is_tflite and steps.rules.kernels == "none" and steps.rules.scratch != "litert":
        ways.append("--overlap, which lets results lie on inputs as the kernels allow")
    if "order" not in steps.options:
        ways.append("--order auto")
    if not is_bound or "tile" in means:  # stripes compute nothing twice
        ways.append(f"more arithmetic (--max-macs above {limits.max_macs:g})")
    ways.append("a smaller input (--input-shape)" if not is_tflite else "a smaller input")
    return "what is left: " + "; ".join(ways)
