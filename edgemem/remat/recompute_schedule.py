"""What a search for a schedule with recomputation gives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from edgemem.schedule.ordering import Stopped

__all__ = ["RecomputeSchedule"]


@dataclass(frozen=True, slots=True, repr=False)
class RecomputeSchedule:
    """The operators in the order in which they run, some of them several times.

    Peaks are bytes (or texels) under the rules of the `OrderProblem`; costs have the unit of the costs that were given.

    Attributes:
        runs: the operators' numbers.
        peak: `runs_peak` of them.
        cost: of all runs.
        base_cost: of all operators once.
        budget: the most that `peak` should be; None where the smallest peak was asked for. A schedule above its budget
            is the one with the smallest peak that was found.
        lower_bound: no schedule has a lower peak, whatever it costs.
        cost_bound: no schedule within the budget costs less, under what `assumes` says.
        assumes: what `cost_bound` assumes; "" if nothing: then no schedule of any kind within the budget costs less.
        method: what found the runs.
        stopped: why the search ended.
        seconds: how long it took.
    """

    runs: tuple[int, ...]
    peak: int
    cost: int
    base_cost: int
    budget: int | None
    lower_bound: int
    cost_bound: int
    assumes: str
    method: str
    stopped: Stopped
    seconds: float = 0.0

    @property
    def is_within_budget(self) -> bool:
        """Whether the peak is not above the budget."""
        return self.budget is None or self.peak <= self.budget

    @property
    def overhead(self) -> float:
        """The cost of what runs again, as a part of the cost of all operators once."""
        return self.cost / self.base_cost - 1 if self.base_cost else 0.0

    @property
    def gap(self) -> float:
        """How much of the cost may be too much, as a part of `base_cost`; 0 where the cost is proved."""
        return (self.cost - self.cost_bound) / self.base_cost if self.base_cost else 0.0

    def __repr__(self) -> str:
        """The figures, and how many runs there are instead of their numbers."""
        names = ("method", "peak", "budget", "lower_bound", "cost", "base_cost", "cost_bound", "stopped")
        figures = ", ".join(f"{name}={getattr(self, name)!r}" for name in names)
        return f"RecomputeSchedule({figures}, seconds={self.seconds:.3g}, runs={len(self.runs)})"
