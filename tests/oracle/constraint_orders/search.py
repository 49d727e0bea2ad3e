"""CP-SAT: is there an order with a peak below the best one known? Asked until the answer is no.

Memory at a place of an order is what a cumulative resource has in use (timeline.py). With a limit just below the best
peak known, the solver refuses most orders before it searches; as an objective it would not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from edgemem.schedule.greedy import greedy_order
from edgemem.schedule.ordering import Solved, Start, Stopped
from edgemem.schedule.peak import least_peak, order_peak, peak_unit
from edgemem.strategy.cp_sat import CpSat
from tests.oracle.constraint_orders.contraction import contract
from tests.oracle.constraint_orders.timeline import Timeline

if TYPE_CHECKING:
    from edgemem.schedule.problem import OrderProblem

__all__ = ["WORK", "cumulative_order"]

# In CP-SAT's own measure of work, which is the same on every machine. It leaves out much of what many operators cost:
# above two hundred, the work is less in proportion. Then "default" takes some ten seconds.
WORK: Final = {"fast": 0.5, "default": 2.0, "max": 400.0}
_FULL_WORK: Final = 200
_MOST_HALVINGS: Final = 16
_LEAST_WORK: Final = 0.01


def cumulative_order(
    problem: OrderProblem,
    *,
    start: Start | None = None,
    effort: str = "default",
    seed: int = 1,
    time_limit: float | None = None,
) -> Solved:
    """The best order found within the given work, with the best lower bound it proved.

    Most of the work goes into orders better than the best one known. Where that does not decide whether there is one,
    the rest raises the bound: the solver is asked for an order with a peak between the bound and the best one.

    Args:
        problem: what is to be ordered.
        start: what is known; by default the order of `greedy` and the bound of `least_peak`.
        effort: "fast", "default" or "max".
        seed: of the solver's random choices.
        time_limit: seconds; with it the order depends on the machine.

    Raises MissingDependencyError without ortools, SolverError if it fails.
    """
    if start is None:
        order = greedy_order(problem)
        start = Start(order, order_peak(problem, order), least_peak(problem))
    if start.bound >= start.peak:
        return Solved(start.order, start.bound, "bound")
    solver = CpSat("ordering by CP-SAT", seed, time_limit)
    asking = _Asking(problem, solver, start)
    work = WORK[effort] * min(1.0, _FULL_WORK / max(1, asking.count))
    asking.improve(0.75 * work)
    asking.raise_bound(work)
    stopped: Stopped = "proof" if asking.bound >= asking.peak else "time" if solver.is_late else "work"
    return Solved(asking.order, asking.bound, stopped, round(solver.work * 1e6))


class _Asking:
    """The best order and the best bound so far, and the questions that make them better."""

    def __init__(self, problem: OrderProblem, solver: CpSat, start: Start) -> None:
        self.order, self.peak, self.bound = start.order, start.peak, start.bound
        self._problem = problem
        self._solver = solver
        self._contraction = contract(problem)
        self._unit = peak_unit(problem)

    @property
    def count(self) -> int:
        """How many operators the solver places."""
        return len(self._contraction.ops)

    def improve(self, work: float) -> None:
        """Ask for orders better than the best one, until there is none or the solver has done so much work."""
        while self.bound < self.peak and self._ask(self.peak - self._unit, work - self._solver.work):
            pass

    def raise_bound(self, work: float) -> None:
        """Ask for orders halfway between the bound and what is undecided, until the solver has done so much work."""
        undecided = self.peak
        for _ in range(_MOST_HALVINGS):
            halfway = (self.bound + undecided) // 2 // self._unit * self._unit
            if not self.bound <= halfway < undecided:
                return
            if not self._ask(halfway, (work - self._solver.work) / 2):
                undecided = halfway
            undecided = min(undecided, self.peak)

    def _ask(self, peak: int, work: float) -> bool:
        """Ask for an order with such a peak at most. Returns whether the question was decided."""
        if work < _LEAST_WORK or self._solver.is_late:
            return False
        if not self._contraction.ops:
            self.order = self._contraction.expand(())
            self.peak = self.bound = order_peak(self._problem, self.order)
            return True
        model = self._solver.cp_model.CpModel()
        timeline = Timeline(self._contraction, model)
        timeline.limit(peak)
        timeline.hint(self._contraction.nodes(self.order))
        status, solver = self._solver.solve(model, work)
        if status == "INFEASIBLE":
            self.bound = peak + self._unit
        elif status in ("OPTIMAL", "FEASIBLE"):
            place = [solver.value(variable) for variable in timeline.place]
            self.order = self._contraction.expand(sorted(range(len(place)), key=place.__getitem__))
            self.peak = order_peak(self._problem, self.order)
        return status in ("INFEASIBLE", "OPTIMAL", "FEASIBLE")
