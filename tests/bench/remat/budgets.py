"""The minimum and the cutoff budget of a program under a policy (Coop, section 4.2)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tests.bench.remat.simulation import ALIGNMENT, simulate

if TYPE_CHECKING:
    from collections.abc import Callable

    from edgemem.remat.policies import Policy
    from tests.bench.remat.operator_log import OperatorLog

__all__ = ["cutoff_budget", "minimum_budget"]

_STEPS: Final = 20  # of the peak, that are tried one by one
_PARTS: Final = 1000  # of the peak, to which a border is found
_LARGEST: Final = 1 << 62


def minimum_budget(log: OperatorLog, policy: str | Policy, *, limit: float = 10.0, alignment: int = ALIGNMENT) -> int:
    """The least budget from which on the program runs to its end, in bytes.

    A policy may fail under one budget and do with a smaller one. So budgets are tried in steps of a twentieth of the
    program's peak, downwards until one fails, and between the last two the border is found by bisection, to a
    thousandth of the peak. Below it some budgets may do, and above it some that were not tried may not.

    Raises as `simulate`.
    """
    return _border(log, lambda b: simulate(log, b, policy, limit=limit, alignment=alignment).is_done, alignment)


def cutoff_budget(log: OperatorLog, policy: str | Policy, *, alignment: int = ALIGNMENT) -> int:
    """The least budget from which on nothing is evicted, in bytes, found as `minimum_budget` finds its own.

    Raises as `simulate`.
    """
    return _border(log, lambda b: _evicts_nothing(log, b, policy, alignment), alignment)


def _evicts_nothing(log: OperatorLog, budget: int, policy: str | Policy, alignment: int) -> bool:
    simulation = simulate(log, budget, policy, alignment=alignment)
    return simulation.is_done and not simulation.evictions


def _border(log: OperatorLog, is_enough: Callable[[int], bool], alignment: int) -> int:
    """The least budget above which, as far as they are tried, all are enough."""
    step = max(log.peak // _STEPS, alignment)
    enough = max(log.peak, alignment)
    while not is_enough(enough) and enough < _LARGEST:
        enough += enough // 4 + step
    short = enough - step
    while short > 0 and is_enough(short):
        enough, short = short, short - step
    short = max(short, 0)
    if is_enough(short):
        return short
    while enough - short > max(log.peak // _PARTS, alignment):
        middle = (enough + short) // 2
        if is_enough(middle):
            enough = middle
        else:
            short = middle
    return enough
