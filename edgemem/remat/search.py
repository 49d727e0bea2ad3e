"""Recomputation planned ahead: the cheapest runs of a known graph within a budget of memory, or those that need least.

MOCCASIN (Bartan et al. 2023, arXiv 2304.14463) poses the problem: an operator may run again later, so that its results
need not stay in memory in between. The compiled search (kernels/planner/recompute) repairs runs until they are within
the budget, and then improves them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from edgemem.errors import UnknownStrategyError
from edgemem.remat.program import program_of
from edgemem.schedule.beam import beam_order
from edgemem.schedule.neighbourhood import neighbourhood_order
from edgemem.schedule.ordering import Start
from edgemem.schedule.peak import least_peak, order_peak, peak_unit
from edgemem.strategy.clock import Clock

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from edgemem.remat.program import Program
    from edgemem.remat.recompute_schedule import RecomputeSchedule
    from edgemem.schedule.problem import OrderProblem

__all__ = ["WORK", "recompute"]

# Runs that are counted. A hundred million take some four seconds.
WORK: Final = {"fast": 10_000_000, "default": 100_000_000, "max": 3_000_000_000}
_WORK_OF_PAIR: Final = {"fast": 20_000, "default": 200_000, "max": 6_000_000}  # of operators, where there are few
_MOST_TIMES: Final = 1 << 10
_STEPS: Final = 4  # the lowest peak is looked for in steps of this part of what is above the bound


def recompute(
    problem: OrderProblem,
    costs: Sequence[int],
    *,
    budget: int | None = None,
    most_cost: float | None = None,
    may_repeat: Collection[int] | None = None,
    effort: str = "default",
    seed: int = 1,
    time_limit: float | None = None,
) -> RecomputeSchedule:
    """The cheapest runs within a budget that are found; without a budget, those with the smallest peak.

    If no runs within the budget are found, those with the lowest peak that was met are given, and `is_within_budget` is
    false. The budget counts all sizes padded.

    Args:
        problem: the operators and their memory.
        costs: of each operator, such as those of `edgemem.remat.operators`; whole numbers from 0.
        budget: bytes (or texels).
        most_cost: the runs cost no more than this many times the operators once.
        may_repeat: the operators that may run several times, such as `repeatable(graph)`; by default all.
        effort: "fast", "default" or "max": work, which is counted the same on every machine.
        seed: of random choices, from 0.
        time_limit: seconds; with it the runs depend on the machine.

    Raises:
        UnknownStrategyError: there is no such effort.
        PlanError: costs or operators are not those of the problem.
    """
    if effort not in WORK:
        raise UnknownStrategyError(f"efforts are {', '.join(WORK)}")
    clock = Clock(time_limit)
    program = program_of(problem, costs, may_repeat)
    limit = int(program.base_cost * (_MOST_TIMES if most_cost is None else most_cost))
    search = _Search(program, limit, seed, clock)
    starts = [program.schedule(order) for order in _good_orders(problem)]
    work = min(WORK[effort], _WORK_OF_PAIR[effort] * problem.count**2) // len(starts)
    if budget is None:
        return min((search.lower(start, work) for start in starts), key=lambda f: (f.peak, f.cost))
    best = min((search.fit(start, budget, work) for start in starts), key=lambda f: f.rank(budget))
    return replace(best, budget=budget)


class _Search:
    """The searches of one program, which share a limit of cost and a clock."""

    def __init__(self, program: Program, most_cost: int, seed: int, clock: Clock) -> None:
        self._program = program
        self._most_cost = most_cost
        self._seed = seed
        self._clock = clock
        self._repeatable = [k in program.repeatable for k in range(program.problem.count)]

    def fit(self, start: RecomputeSchedule, budget: int, work: int, *, improve: bool = True) -> RecomputeSchedule:
        """The cheapest runs within a budget, from `start` on; the ones with the lowest peak if none are within it.

        Without `improve` the first runs within the budget are taken, less those that turn out not to be needed.
        """
        program = self._program
        runs, _, _ = program.kernel.search(
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
        return program.schedule(runs)

    def lower(self, start: RecomputeSchedule, work: int) -> RecomputeSchedule:
        """The runs with the lowest peak, and the cheapest of these, that are found from `start` on.

        The search asks for less and less: for a part of what is above the bound at first, and for a smaller part where
        that fails.
        """
        unit, bound = peak_unit(self._program.problem), least_peak(self._program.problem)
        best = start
        part = (best.peak - bound) // _STEPS
        tries = 0
        while best.peak > bound and not self._clock.is_up():
            budget = max(bound, best.peak - max(part, unit))
            found = self.fit(best, budget, work // 64, improve=False)
            if found.peak > budget:
                found = min(found, self.fit(found, budget, work // 32), key=lambda f: f.rank(budget))
                tries += 1
            if found.peak < best.peak:
                best = found
            if found.peak > budget:
                if part <= unit or tries > 16:
                    break
                part //= 2
        return self.fit(best, best.peak, work // 2)


def _good_orders(problem: OrderProblem) -> list[tuple[int, ...]]:
    """Orders in which each operator runs once, from which a search may begin: the given one and a better one."""
    given = tuple(range(problem.count))
    start = Start(given, order_peak(problem, given), least_peak(problem))
    for solve in (beam_order, neighbourhood_order):
        if start.peak > start.bound:
            order = solve(problem, start=start, effort="fast").order
            start = Start(order, order_peak(problem, order), start.bound)
    return [start.order, given] if start.order != given else [given]
