"""What a search for a schedule with recomputation gives."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["RecomputeSchedule"]


@dataclass(frozen=True, slots=True)
class RecomputeSchedule:
    """The operators in the order in which they run, some of them several times.

    The peak is bytes (or texels) under the rules of the `OrderProblem`; costs have the unit of those that were given.

    Attributes:
        runs: the operators' numbers.
        peak: the most that is alive at once.
        cost: of all runs.
        base_cost: of all operators once.
        budget: the most that `peak` should be; None where the smallest peak was asked for. A schedule above its budget
            is the one with the smallest peak that was found.
    """

    runs: tuple[int, ...]
    peak: int
    cost: int
    base_cost: int
    budget: int | None = None

    @property
    def is_within_budget(self) -> bool:
        """Whether the peak is not above the budget."""
        return self.budget is None or self.peak <= self.budget

    @property
    def overhead(self) -> float:
        """The cost of what runs again, as a part of the cost of all operators once."""
        return self.cost / self.base_cost - 1 if self.base_cost else 0.0

    def rank(self, budget: int) -> tuple[int, int, int]:
        """What makes a schedule better: less above the budget, less cost, a lower peak."""
        return max(0, self.peak - budget), self.cost, self.peak
