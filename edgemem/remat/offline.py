"""Recomputation planned ahead: the cheapest runs of a known graph within a budget of memory, or those that need least.

MOCCASIN (Bartan et al. 2023, arXiv 2304.14463) poses the problem: an operator may run again later, so that its results
need not stay in memory in between.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from edgemem.errors import MissingDependencyError, UnknownStrategyError
from edgemem.remat.backwards import cheapest_runs, lowest_runs, peak_bound
from edgemem.remat.cheaper import ask_for_cheaper
from edgemem.remat.idle_bound import idle_bound
from edgemem.remat.program import program_of
from edgemem.remat.recompute_schedule import RecomputeSchedule
from edgemem.remat.searching import Searching, good_orders
from edgemem.strategy.clock import Clock

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from edgemem.remat.program import Program
    from edgemem.remat.searching import RunSearchResult
    from edgemem.schedule.ordering import Stopped
    from edgemem.schedule.problem import OrderProblem

__all__ = ["METHODS", "WORK", "recompute"]

METHODS: Final = ("auto", "greedy", "exact", "cpsat")
# Runs that are counted. A hundred million take some four seconds.
WORK: Final = {"fast": 10_000_000, "default": 100_000_000, "max": 3_000_000_000}
# States of a search backwards: of all runs, where there are few operators, and for the bound, of each operator's.
_STATES: Final = {"fast": 2_000, "default": 20_000, "max": 1_000_000}
_STATES_OF_BOUND: Final = {"fast": 20, "default": 200, "max": 5_000}
_FEW: Final = 16
_MANY: Final = 100  # above, the states of each operator are fewer in proportion
_SHARERS: Final = 10  # of a time limit: the bound of the peak takes one part at most
# CP-SAT's own measure of work, for "cpsat"; a unit takes seconds. "auto" does a part of it.
_ASKING: Final = {"fast": 1.0, "default": 10.0, "max": 400.0}
_ASKING_OF_AUTO: Final = 0.1
_MOST_TIMES: Final = 1 << 10


def recompute(
    problem: OrderProblem,
    costs: Sequence[int],
    *,
    budget: int | None = None,
    order: Sequence[int] | None = None,
    method: str = "auto",
    most_cost: float | None = None,
    may_repeat: Collection[int] | None = None,
    effort: str = "default",
    seed: int = 1,
    time_limit: float | None = None,
) -> RecomputeSchedule:
    """The cheapest runs within a budget that are found; without a budget, those with the smallest peak.

    If no runs within the budget are found, those with the lowest peak that was met are given, and `is_within_budget` is
    false. The budget counts as `runs_peak` does: with all sizes padded.

    Args:
        problem: the operators and their memory.
        costs: of each operator, such as those of `edgemem.remat.costs`; whole numbers from 0.
        budget: bytes (or texels).
        order: of all operators, where the search begins; by default the given one and the best that is found quickly.
        method: "greedy" makes again what relieves most for its cost, step by step. "auto" improves that by a local
            search, and by "exact" where there are few operators, or else by "cpsat" where ortools is installed. "exact"
            looks at all sequences of runs, as long as its work lasts. "cpsat" proves what it can by a constraint
            program.
        most_cost: the runs cost no more than this many times the operators once.
        may_repeat: the operators that may run several times, such as `repeatable(graph)`; by default all.
        effort: "fast", "default" or "max": work, which is counted the same on every machine.
        seed: of random choices, from 0.
        time_limit: seconds; with it the runs depend on the machine.

    Raises:
        UnknownStrategyError: there is no such method or effort.
        PlanError: costs, the order or operators are not those of the problem.
        MissingDependencyError: "cpsat" without ortools.
    """
    if method not in METHODS or effort not in WORK:
        raise UnknownStrategyError(f"methods are {', '.join(METHODS)}; efforts are {', '.join(WORK)}")
    clock = Clock(time_limit)
    program = program_of(problem, costs, may_repeat)
    limit = int(program.base_cost * (_MOST_TIMES if most_cost is None else most_cost))
    search = _Search(program, limit, method, effort, seed, clock)
    search.start(good_orders(problem) if order is None else [tuple(order)])
    if budget is None:
        search.lower()
    else:
        search.fit(budget)
    return search.result(budget)


class _Search:
    """The best runs so far, and what is proved about them."""

    def __init__(self, program: Program, most_cost: int, method: str, effort: str, seed: int, clock: Clock) -> None:
        self._program, self._most_cost, self._clock = program, most_cost, clock
        self._method, self._effort, self._seed = method, effort, seed
        self._searching = Searching(program, most_cost, seed, clock)
        self._starts: list[RunSearchResult] = []
        self._improve = method != "greedy"
        self._is_small = method == "exact" or (method == "auto" and program.problem.count <= _FEW)
        self._bound = 0
        self._cost_bound = program.base_cost
        self._assumes = ""
        self._stopped: Stopped = "rule"

    def start(self, orders: Sequence[tuple[int, ...]]) -> None:
        self._starts = [self._searching.measured(order) for order in orders]
        states = _STATES_OF_BOUND[self._effort] if self._improve else 1
        states = max(1, states * _MANY // max(_MANY, self._program.problem.count))
        self._bound = peak_bound(self._program, states, Clock(self._clock.left(_SHARERS)))

    def lower(self) -> None:
        """Find the runs with the lowest peak."""
        if self._is_small:
            answer = lowest_runs(self._program, self._most_cost, _STATES[self._effort], self._clock)
            self._bound = max(self._bound, answer.bound)
            if answer.runs is not None:
                self._take(self._searching.measured(answer.runs), "proof")
                return
        work = WORK[self._effort] // len(self._starts)
        found = [self._searching.lowest(s, self._bound, work, improve=self._improve) for s in self._starts]
        best = min(found, key=lambda f: (f.peak, f.cost))
        self._take(best, best.stopped)

    def fit(self, budget: int) -> None:
        """Find the cheapest runs within a budget."""
        if self._is_small and not self._is_simple(budget):
            states = _STATES[self._effort]
            answer = cheapest_runs(self._program, budget, states, self._clock, most_cost=self._most_cost)
            if answer.is_impossible:
                self.lower()
                return
            self._cost_bound = max(self._cost_bound, answer.bound)
            if answer.runs is not None:
                self._take(self._searching.measured(answer.runs), "proof")
                return
        work = WORK[self._effort] // len(self._starts)
        found = [self._searching.within(s, budget, work, improve=self._improve) for s in self._starts]
        best = min(found, key=lambda f: f.rank(budget))
        late: Stopped = "rule" if best.stopped == "bound" else best.stopped
        self._take(best, "bound" if best.cost == self._cost_bound and best.peak <= budget else late)
        if best.peak > budget or self._is_small:
            return
        bound = idle_bound(self._program, tuple(dict.fromkeys(best.runs)), budget)
        if bound > self._cost_bound:
            self._cost_bound, self._assumes = min(bound, best.cost), "first runs in this order"
        if self._improve and self._cost_bound < best.cost:
            self._ask(best, budget)

    def _is_simple(self, budget: int) -> bool:
        """Whether an order without repeats is within the budget."""
        return any(s.peak <= budget for s in self._starts)

    def _ask(self, best: RunSearchResult, budget: int) -> None:
        left, work = self._clock.left(), _ASKING[self._effort] * (1 if self._method == "cpsat" else _ASKING_OF_AUTO)
        try:
            answer = ask_for_cheaper(
                self._program, self._searching, best, budget, self._cost_bound, work, self._seed, left
            )
        except MissingDependencyError:
            if self._method == "cpsat":
                raise
            return
        if answer.bound > self._cost_bound:
            self._cost_bound, self._assumes = min(answer.bound, answer.found.cost), answer.assumes
        self._take(answer.found, "proof" if answer.is_proved else "time" if answer.is_late else "work")

    def _take(self, found: RunSearchResult, stopped: Stopped) -> None:
        self._found, self._stopped = found, stopped

    def result(self, budget: int | None) -> RecomputeSchedule:
        found = self._found
        return RecomputeSchedule(
            runs=found.runs,
            peak=found.peak,
            cost=found.cost,
            base_cost=self._program.base_cost,
            budget=budget,
            lower_bound=min(self._bound, found.peak) if budget is None else self._bound,
            cost_bound=self._cost_bound,
            assumes=self._assumes,
            method=self._method,
            stopped=self._stopped,
            seconds=self._clock.seconds(),
        )
