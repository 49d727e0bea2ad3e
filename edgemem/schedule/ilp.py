"""OLLA's integer linear program for the order of operators (Steiner et al. 2022, equations 1-5 and 10-14), in HiGHS.

    timestep            0    1    2    3
    operator a          C                      C[a, t] = 1: a runs at t, and creates its classes of memory
    class c of a             P    P            P[c, t] = 1: c is preserved for readers at t or later
    operator d                    T            T[d, c, t] = 1: d runs at t, and its result takes the memory of c

The paper's tensors are the classes of an `OrderProblem`.

C is one variable for all results of an operator, which is equation 5.

Deviation: equation 13 also counts workspace, bodies and results in the memory of inputs, so that the peak is that of
`order_peak`. Exactly one operator runs in a timestep; then the number of its ancestors bounds its span, not only the
longest path to it.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, TypeAlias

from edgemem.errors import SolverError
from edgemem.schedule.greedy import greedy_order
from edgemem.schedule.ordering import Solved, Start
from edgemem.schedule.peak import least_peak, order_peak, peak_unit
from edgemem.schedule.registry import order_solver
from edgemem.strategy.highs import MixedIntegerProgram, minimize
from edgemem.strategy.options import TIME_LIMIT

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from edgemem.schedule.problem import OrderProblem

__all__ = ["WORK", "ilp_order"]

# Nodes of the search.
WORK: Final = {"fast": 20, "default": 1_000, "max": 1_000_000}
_TOLERANCE: Final = 2e-6
_LARGEST: Final = 10_000.0  # in the units of the program no peak is larger
_PEAK: Final = 0  # the variable that is minimized
# What stands for a variable that is known.
_ZERO: Final = -1
_ONE: Final = -2

_Term: TypeAlias = tuple[float, int]


@order_solver(
    "ilp",
    rank=9,
    paper="Steiner et al. 2022 (OLLA), equations 1-5 and 10-14",
    complexity="exponential",
    options={"effort": ("default", "fast", "max"), "time_limit": TIME_LIMIT},
    extra="solvers",
    limit=40,
)
def ilp_order(
    problem: OrderProblem, *, start: Start | None = None, effort: str = "default", time_limit: float | None = None
) -> Solved:
    """The best order found within the given work, with the best lower bound it proved.

    Only orders better than the one that is known count as solutions; if there is none, that one is optimal.

    Args:
        problem: what is to be ordered.
        start: what is known; by default the order of `greedy` and the bound of `least_peak`.
        effort: "fast", "default" or "max".
        time_limit: seconds; with it the order depends on the machine.

    Raises MissingDependencyError without scipy, SolverError if HiGHS fails.
    """
    if start is None:
        order = greedy_order(problem)
        start = Start(order, order_peak(problem, order), least_peak(problem))
    if start.bound >= start.peak:
        return Solved(start.order, start.bound, "bound")
    if not problem.count:
        return Solved((), start.peak, "proof")
    unit = peak_unit(problem)
    scale = min(1 / unit, _LARGEST / start.peak)
    lp = _Lp(problem, scale)
    program = lp.program((start.bound * scale, (start.peak - unit) * scale), WORK[effort])
    answer = minimize(program, purpose="ordering by `ilp`", time_limit=time_limit)
    if answer.status == "failed":
        raise SolverError(f"HiGHS failed to order {problem.count} operators: {answer.message} Use another method.")
    if answer.status == "infeasible":
        return Solved(start.order, start.peak, "proof")
    order, peak = start.order, start.peak
    if answer.x is not None:
        found = lp.order(answer.x)
        reached = order_peak(problem, found)
        if reached < peak:  # else HiGHS made use of its tolerance
            order, peak = found, reached
    proved = math.ceil(answer.bound * (1 - _TOLERANCE) / scale / unit) * unit if answer.bound > 0 else 0
    bound = min(peak, max(start.bound, proved))
    return Solved(order, bound, "proof" if bound == peak else "time" if answer.status == "time" else "work")


class _Lp:
    """The variables and rows of the program. A constant stands where a variable's value is known."""

    def __init__(self, problem: OrderProblem, scale: float) -> None:
        self._problem = problem
        self._scale = scale
        self._count = _PEAK + 1
        self._row: list[int] = []
        self._column: list[int] = []
        self._value: list[float] = []
        self._least: list[float] = []
        self._most: list[float] = []
        self._steps = range(problem.count)
        self._first, self._last = _spans(problem)
        self._writer = {c: k for k in self._steps for c in problem.writes[k]}
        self._created = {(k, t): self._variable() for k in self._steps for t in self._span(k)}
        self._preserved: dict[tuple[int, int], int] = {}
        for c in range(len(problem.size)):
            self._preserve(c)
        self._taken: dict[tuple[int, int, int], int] = {}
        for k in _topological(problem):
            self._take(k)
        self._run_all()
        for c in range(len(problem.size)):
            self._keep(c)
        for c in sorted(problem.guarded - problem.kept):
            self._release(c)
        for t in self._steps:
            self._add_up(t)

    def program(self, peak: tuple[float, float], nodes: int) -> MixedIntegerProgram:
        """The program with bounds of the peak, in its own units."""
        free = self._count - 1
        lower, upper = [peak[0], *[0.0] * free], [peak[1], *[1.0] * free]
        entries = self._row, self._column, self._value
        return MixedIntegerProgram(lower, upper, list(range(1, self._count)), *entries, self._least, self._most, nodes)

    def order(self, x: Sequence[float]) -> tuple[int, ...]:
        """The order of a solution (the paper's function 1)."""
        runs = {k: max(self._span(k), key=lambda t: x[self._created[k, t]]) for k in self._steps}
        return tuple(sorted(self._steps, key=lambda k: runs[k]))

    def _span(self, k: int) -> range:
        """The timesteps at which an operator can run (equation 10)."""
        return range(self._first[k], self._last[k] + 1)

    def _variable(self) -> int:
        self._count += 1
        return self._count - 1

    def _at_most(self, limit: float, terms: Iterable[_Term], least: float = -math.inf) -> None:
        """The row that the sum of (factor, variable) is `limit` at most, and `least` at least."""
        sums: dict[int, float] = {}
        for factor, variable in terms:
            if variable == _ONE:
                limit -= factor
                least -= factor
            elif variable != _ZERO:
                sums[variable] = sums.get(variable, 0.0) + factor
        if not sums and least <= 0 <= limit:
            return
        self._row += [len(self._most)] * len(sums)
        self._column += sums.keys()
        self._value += sums.values()
        self._least.append(least)
        self._most.append(limit)

    def _c(self, k: int, t: int) -> int:
        """The paper's C for all results of operator `k`."""
        return self._created.get((k, t), _ZERO)

    def _p(self, c: int, t: int) -> int:
        """The paper's P of class `c`."""
        return self._preserved.get((c, t), _ZERO)

    def _preserve(self, c: int) -> None:
        """Variables for the timesteps in which a class may be useful, and 1 where it must be there (11 and 12)."""
        problem, writer = self._problem, self._writer.get(c)
        if writer is None and c not in problem.start:
            return
        readers = [r for r in problem.readers[c] if r != writer]
        is_kept = c in problem.kept or (writer is None and not readers)
        stays = is_kept or (not problem.readers[c] and c in problem.lingers)
        useful = problem.count - 1 if stays else max((self._last[r] for r in readers), default=-1)
        certain = problem.count - 1 if is_kept else max((self._first[r] for r in readers), default=-1)
        for t in range(0 if writer is None else self._first[writer] + 1, useful + 1):
            is_certain = (-1 if writer is None else self._last[writer]) < t <= certain
            self._preserved[c, t] = _ONE if is_certain else self._variable()

    def _run_all(self) -> None:
        """Each operator runs once (3), one in a timestep, when its inputs are there (4)."""
        problem = self._problem
        for k in self._steps:
            self._at_most(1, [(1, self._c(k, t)) for t in self._span(k)], least=1)
            inputs = [
                c for c in problem.reads[k] if self._writer.get(c) != k and (c in self._writer or c in problem.start)
            ]
            for t in self._span(k):
                for c in inputs:
                    self._at_most(0, [(1, self._c(k, t)), (-1, self._p(c, t))])
            for b in {*problem.before[k]} - {self._writer.get(c) for c in inputs}:
                for t in self._span(k):
                    self._at_most(0, [*self._done(k, t, 1), *self._done(b, t - 1, -1)])
        for t in self._steps:
            self._at_most(1, [(1, self._c(k, t)) for k in self._steps], least=1)

    def _keep(self, c: int) -> None:
        """A class is created or preserved (1), and preserved only if it was there a timestep before (2)."""
        problem, writer = self._problem, self._writer.get(c, -1)
        stays = c in problem.kept or (not problem.readers[c] and c in problem.lingers)
        for t in self._steps:
            now = self._p(c, t)
            before = [(1.0, self._p(c, t - 1)), (1.0, self._c(writer, t - 1))]
            self._at_most(1, [(1, now), (1, self._c(writer, t))])
            if t:
                self._at_most(0, [(1, now), *((-factor, v) for factor, v in before)])
                if stays:
                    is_first = writer >= 0 and problem.writes[writer][0] == c
                    gone = self._takes_at(writer, t - 1, -1) if is_first and c not in problem.kept else []
                    self._at_most(0, [(-1, now), *before, *gone])

    def _take(self, k: int) -> None:
        """Variables for whether an operator's first result takes the memory of an input, and where it may."""
        problem = self._problem
        for at, c in enumerate(problem.over[k]):
            if c in problem.guarded and not self._takes_ever(c, math.inf):
                continue
            for t in self._span(k):
                taken = self._taken[k, c, t] = self._variable()
                self._at_most(1, [(1, taken), (1, self._p(c, t + 1))])
                if c in problem.guarded:
                    self._at_most(0, [(1, taken), *self._takes_ever(c, t)])
                for earlier in problem.over[k][:at]:
                    if earlier in problem.guarded:
                        self._at_most(0, [(1, taken), (-1, self._p(earlier, t + 1)), *self._takes_ever(earlier, t)])
        for t in self._span(k):
            self._at_most(0, [*self._takes_at(k, t, 1), (-1, self._c(k, t))])

    def _takes_at(self, k: int, t: int, factor: float) -> list[_Term]:
        """The terms of whether an operator's first result takes memory at a timestep."""
        return [(factor, self._taken[k, c, t]) for c in self._problem.over[k] if (k, c, t) in self._taken]

    def _takes_ever(self, c: int, t: float) -> list[_Term]:
        """The terms, negative, of whether a class took memory before a timestep."""
        k = self._writer.get(c)
        if k is None or self._problem.writes[k][0] != c:
            return []
        return [term for at in self._span(k) if at < t for term in self._takes_at(k, at, -1)]

    def _release(self, c: int) -> None:
        """A guarded class is preserved only as long as an operator waits for it: `over` looks at that."""
        for t in self._steps:
            waiting = [(-1.0, self._c(r, at)) for r in self._problem.readers[c] for at in self._span(r) if at >= t]
            self._at_most(0, [(1, self._p(c, t)), *waiting])

    def _add_up(self, t: int) -> None:
        """What is alive in a timestep is below the peak (13)."""
        problem, scale = self._problem, self._scale
        left = [(problem.leaves[k], v) for k in self._steps if problem.leaves[k] for _, v in self._done(k, t - 1, 1)]
        there = [(size, self._p(c, t)) for c, size in enumerate(problem.size)]
        saved = [(-problem.size[problem.writes[k][0]], v) for k in self._steps for _, v in self._takes_at(k, t, 1)]
        own = [problem.born[k] + problem.own[k] for k in self._steps]
        inside = [problem.early[k] + problem.inside[k] for k in self._steps]
        columns = [(own, saved)]
        if any(inside):
            columns.append((inside, []))
        if not t and problem.opening:
            columns.append(([problem.opening + entry for entry in problem.entry], []))
        for column, less in columns:
            running = [(column[k], self._c(k, t)) for k in self._steps]
            terms = [*there, *left, *running, *less]
            self._at_most(0, [(-1, _PEAK), *((scale * factor, v) for factor, v in terms)])

    def _done(self, k: int, t: int, factor: float) -> list[_Term]:
        """The terms of whether an operator has run at a timestep or before."""
        return [(factor, self._c(k, at)) for at in self._span(k) if at <= t]


def _spans(problem: OrderProblem) -> tuple[list[int], list[int]]:
    """The first and the last timestep of each operator (ASAP and ALAP): how many must run before it, and after it."""
    ancestors, descendants = [0] * problem.count, [0] * problem.count
    order = _topological(problem)
    for k in order:
        for then in problem.after[k]:
            ancestors[then] |= ancestors[k] | 1 << k
    for k in reversed(order):
        for b in problem.before[k]:
            descendants[b] |= descendants[k] | 1 << k
    last = problem.count - 1
    return [bits.bit_count() for bits in ancestors], [last - bits.bit_count() for bits in descendants]


def _topological(problem: OrderProblem) -> list[int]:
    """The operators, each after those that it waits for; otherwise by number."""
    waits = [len(b) for b in problem.before]
    order = [k for k, count in enumerate(waits) if not count]
    for k in order:
        for then in problem.after[k]:
            waits[then] -= 1
            if not waits[then]:
                order.append(then)
    return order
