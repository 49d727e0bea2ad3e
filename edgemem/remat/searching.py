"""The compiled search for runs, asked again and again: for the cheapest within a budget, or for the lowest peak."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from edgemem.errors import PlanError
from edgemem.schedule.beam import beam_order
from edgemem.schedule.neighbourhood import neighbourhood_order
from edgemem.schedule.ordering import Start
from edgemem.schedule.peak import least_peak, order_peak, peak_unit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from edgemem.remat.program import Program
    from edgemem.schedule.ordering import Stopped
    from edgemem.schedule.problem import OrderProblem
    from edgemem.strategy.clock import Clock

__all__ = ["RunSearchResult", "Searching", "good_orders"]

_STEPS: Final = 4  # the lowest peak is looked for in steps of this part of what is above the bound


@dataclass(frozen=True, slots=True)
class RunSearchResult:
    """Runs that a search found, with what they come to.

    Attributes:
        runs: operators.
        peak: of them.
        cost: of them.
        stopped: why the search ended.
    """

    runs: tuple[int, ...]
    peak: int
    cost: int
    stopped: Stopped = "rule"

    def rank(self, budget: int) -> tuple[int, int, int]:
        """What makes runs better: less above the budget, less cost, a lower peak."""
        return max(0, self.peak - budget), self.cost, self.peak


class Searching:
    """The searches of one program, which share a limit of cost and a clock."""

    def __init__(self, program: Program, most_cost: int, seed: int, clock: Clock) -> None:
        self._program = program
        self._most_cost = most_cost
        self._seed = seed
        self._clock = clock
        self._repeatable = [k in program.repeatable for k in range(program.problem.count)]

    def measured(self, runs: Sequence[int], stopped: Stopped = "rule") -> RunSearchResult:
        """The figures of runs. Raises PlanError for a sequence that is none."""
        try:
            peak = self._program.kernel.peak(runs)
        except ValueError as e:
            raise PlanError(str(e)) from None
        return RunSearchResult(tuple(runs), peak, self._program.cost(runs), stopped)

    def within(self, start: RunSearchResult, budget: int, work: int, *, improve: bool) -> RunSearchResult:
        """The cheapest runs within a budget, from `start` on; the ones with the lowest peak if none are within it.

        Without `improve` the first runs within the budget are taken, less those that turn out not to be needed.
        """
        program = self._program
        runs, stopped, _ = program.kernel.search(
            program.costs,
            self._repeatable,
            start.runs,
            budget,
            self._most_cost,
            program.base_cost,
            improve,
            work,
            self._seed,
            self._clock.left(),
        )
        return self.measured(runs, "rule" if stopped == "proof" else stopped)

    def lowest(self, start: RunSearchResult, bound: int, work: int, *, improve: bool) -> RunSearchResult:
        """The runs with the lowest peak, and the cheapest of these, that are found from `start` on.

        They stopped at the bound if their peak is at it. The search asks for less and less: for a part of what is above
        the bound at first, and for a smaller part where that fails.
        """
        unit = peak_unit(self._program.problem)
        best = start
        part = (best.peak - bound) // _STEPS
        tries = 0
        while best.peak > bound and not self._clock.is_up():
            budget = max(bound, best.peak - max(part, unit))
            found = self.within(best, budget, work // 64, improve=False)
            if found.peak > budget and improve:
                found = min(found, self.within(found, budget, work // 32, improve=True), key=lambda f: f.rank(budget))
                tries += 1
            if found.peak < best.peak:
                best = found
            if found.peak > budget:
                if part <= unit or tries > 16:
                    break
                part //= 2
        if improve:
            best = self.within(best, best.peak, work // 2, improve=True)
        late: Stopped = "time" if self._clock.is_up() else "work" if improve else "rule"
        return replace(best, stopped="bound" if best.peak <= bound else late)


def good_orders(problem: OrderProblem) -> list[tuple[int, ...]]:
    """Orders in which each operator runs once, from which a search may begin: the given one and a better one."""
    given = tuple(range(problem.count))
    start = Start(given, order_peak(problem, given), least_peak(problem))
    for solve in (beam_order, neighbourhood_order):
        if start.peak > start.bound:
            order = solve(problem, start=start, effort="fast").order
            start = Start(order, order_peak(problem, order), start.bound)
    return [start.order, given] if start.order != given else [given]
