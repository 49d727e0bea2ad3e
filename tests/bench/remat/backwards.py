"""Runs found backwards, from what must be there at the end to what was there at the start.

    state   what is needed after a run: classes of memory, operators that have run      {d}   {a, c}   {a, b}   ...
    step    the run that made one of them was the last; before it, what it reads was needed instead

Whatever is not needed is not there, so that a state with the bytes alive at its step is all that counts: it is a pebble
game (Sethi 1975) played from its end. The least cost of what is still to run leads the search (A*: Hart, Nilsson and
Raphael 1968). A search that ends has looked at all sequences of runs, of any length and in any order; one that is cut
off has still found a bound that all of them keep.

A state knows less than a sequence in two ways: memory of results that nothing reads and that stays to the end counts
only once, and every input whose memory may be taken over at the end of its life is. So bounds hold for all sequences;
the runs that are found are counted by the kernel before they are given.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce
from heapq import heappop, heappush
from math import inf
from operator import or_
from typing import TYPE_CHECKING, NamedTuple

from edgemem.remat.program import sources_of
from edgemem.schedule.peak import least_peak

if TYPE_CHECKING:
    from collections.abc import Iterator

    from edgemem.remat.program import Program
    from edgemem.strategy.clock import Clock

__all__ = ["ExactSearchResult", "cheapest_runs", "lowest_runs", "peak_bound"]


@dataclass(frozen=True, slots=True)
class ExactSearchResult:
    """What a search found.

    Attributes:
        runs: the best runs there are; None if there are none, or the search did not end, or a state knew too little.
        bound: no sequence of runs is better: of the cost, or the peak.
        is_impossible: whether it is proved that no runs keep to the limits.
        states: how many were looked at.
    """

    runs: tuple[int, ...] | None
    bound: int
    is_impossible: bool
    states: int


def cheapest_runs(
    program: Program, budget: int, most_states: int, clock: Clock, *, most_cost: float = inf
) -> ExactSearchResult:
    """The runs of least cost whose peak is not above a budget. The answer's bound is one of their cost."""
    answer = _Search(program, budget, most_cost).from_end(most_states, clock, by_cost=True)
    if answer.runs is not None and program.kernel.peak(answer.runs) > budget:
        return replace(answer, runs=None)
    return answer


def lowest_runs(program: Program, most_cost: int, most_states: int, clock: Clock) -> ExactSearchResult:
    """The runs of lowest peak that cost no more than so much. The answer's bound is one of the peak."""
    answer = _Search(program, most_cost=most_cost).from_end(most_states, clock, by_cost=False)
    if answer.runs is not None and program.kernel.peak(answer.runs) > answer.bound:
        return replace(answer, runs=None)
    return answer


def peak_bound(program: Program, most_states: int, clock: Clock) -> int:
    """A lower bound of the peak over all sequences of runs, each operator as often as one likes.

    Before an operator runs, what it reads was made, one after the other, the rest of it being there already; and before
    that what those operators read. The bound is the most over all operators of the least over all such ways, each
    followed through so many states.
    """
    problem = program.problem
    least = least_peak(problem)
    free = replace(program, problem=replace(problem, opening=0), repeatable=frozenset(range(problem.count)))
    search = _Search(free)
    for k in range(problem.count):
        if clock.is_up():
            break
        least = max(least, search.from_step(k, least, most_states, clock))
    return least


class _Step(NamedTuple):
    """A step back: an operator, the state before its run, the bytes alive during it, and what runs again for it."""

    op: int
    state: int
    live: int
    during: int
    again: int


class _Search:
    """The states of one program: sets of bits, of classes, then operators that have run, then views that hold."""

    def __init__(self, program: Program, budget: float = inf, most_cost: float = inf) -> None:
        problem = program.problem
        count, classes = problem.count, len(problem.size)
        self._program, self._problem = program, problem
        self._budget, self._most_cost = budget, most_cost
        self._once = [k not in program.repeatable for k in range(count)]
        self._written = [sum(1 << c for c in problem.writes[k]) for k in range(count)]
        done = [1 << (classes + k) for k in range(count)]
        writer = {c: k for k, made in enumerate(problem.writes) for c in made}
        views: dict[tuple[int, int], int] = {}
        self._needs = [0] * count
        self._makers: list[list[int]] = []  # of what an operator needs
        for k in range(count):
            makers = set(problem.before[k])
            for c, sources in sources_of(problem, k).items():
                if writer.get(c) == k:
                    continue
                self._needs[k] |= 1 << c
                for view in sources.views:
                    self._needs[k] |= views.setdefault((view, c), 1 << (classes + count + len(views)))
                makers |= {writer[c], *sources.views} if c in writer else set(sources.views)
            for b in problem.before[k]:
                self._needs[k] |= 0 if self._written[b] & self._needs[k] else done[b]
            self._makers.append(sorted(makers))
        # What an operator's run gives, and the views that must not be needed of an older copy when it makes one.
        self._gives = [self._written[k] | done[k] for k in range(count)]
        self._blocked = [0] * count
        for (view, c), bit in views.items():
            self._gives[view] |= bit
            if c in writer:
                self._blocked[writer[c]] |= bit
        self._given = reduce(or_, self._gives, 0)
        self._giver = {bit: k for k in range(count) for bit in _bits(self._gives[k])}
        self._after = [reduce(or_, (self._gives[j] for j in problem.after[k]), 0) for k in range(count)]
        self._over = [sum(1 << c for c in problem.over[k]) for k in range(count)]
        self._stays = [  # bytes that stay to the end once an operator has run
            problem.leaves[k] + sum(problem.size[c] for c in problem.writes[k] if c in problem.lingers)
            if not problem.over[k]
            else problem.leaves[k]
            for k in range(count)
        ]
        kept = sum(1 << c for c in problem.kept)
        self._end = kept | sum(done[k] for k in range(count) if not self._written[k] & kept)

    def from_end(self, most_states: int, clock: Clock, *, by_cost: bool) -> ExactSearchResult:
        """Look at states by what all runs through them cost at least, or by the peak that they have."""
        problem, base = self._problem, self._program.base_cost
        live = sum(problem.size[c] for c in problem.kept) + sum(self._stays)
        start = sum(problem.size[c] for c in problem.start) + problem.opening
        peak = max(start, least_peak(problem))
        if peak > self._budget or base > self._most_cost:
            return ExactSearchResult(None, 0, is_impossible=True, states=0)
        return self._run((self._end, live), (base, peak), most_states, clock, by_cost=by_cost)

    def from_step(self, k: int, least: int, most_states: int, clock: Clock) -> int:
        """What the peak of runs is at least that end with operator `k`, and need nothing else; `least` at least."""
        state = self._needs[k] | sum(1 << c for c in self._problem.start if c in self._problem.kept)
        live = self._bytes(state) + sum(self._stays[b] for b in self._makers[k] if state & self._gives[b])
        return self._run((state, live), (0, least), most_states, clock, by_cost=False).bound

    def _run(
        self, start: tuple[int, int], figures: tuple[int, int], most_states: int, clock: Clock, *, by_cost: bool
    ) -> ExactSearchResult:
        # By cost the peak does not matter below the budget; by peak, of two ways to a state neither may be better.
        waiting = [(*(figures if by_cost else figures[::-1]), 0, *start)]
        known: dict[int, list[tuple[int, int]]] = {}
        came: dict[tuple[int, int, int], tuple[int, tuple[int, int, int]]] = {}
        states = 0
        while waiting:
            first, second, depth, state, live = heappop(waiting)
            if any(a <= first and (by_cost or b <= second) for a, b in known.get(state, ())):
                continue
            known.setdefault(state, []).append((first, second))
            label = (state, first, second)
            if not state & self._given:
                return ExactSearchResult(_path(came, label), first, is_impossible=False, states=states)
            states += 1
            if states > most_states or (not states % 256 and clock.is_up()):
                return ExactSearchResult(None, first, is_impossible=False, states=states)
            cost, peak = (first, second) if by_cost else (second, first)
            for step in self._steps(state, live):
                then = cost + step.again, max(peak, step.during)
                if then[0] > self._most_cost or then[1] > self._budget:
                    continue
                key = then if by_cost else then[::-1]
                came.setdefault((step.state, *key), (step.op, label))
                heappush(waiting, (*key, depth - 1, step.state, step.live))
        return ExactSearchResult(None, 0, is_impossible=True, states=states)

    def _steps(self, state: int, live: int) -> Iterator[_Step]:
        """Every operator that may have been the last one to run before a state."""
        problem, costs = self._problem, self._program.costs
        for k in sorted({self._giver[bit] for bit in _bits(state & self._given)}):
            if state & self._blocked[k] or (self._once[k] and state & self._after[k]):
                continue
            rest = state & ~self._gives[k]
            then = rest | self._needs[k]
            again = 0
            before = live - self._stays[k]
            possible = True
            for b in self._makers[k]:
                if then & self._gives[b] and not state & self._gives[b]:
                    possible = possible and not self._once[b]
                    again += costs[b]
                    before += self._stays[b]
            if not possible:
                continue
            before += self._bytes(then & ~state) - self._bytes(state & ~then)
            taken = problem.size[problem.writes[k][0]] if self._over[k] & ~rest else 0
            during = before + max(problem.born[k] + problem.own[k] - taken, problem.early[k] + problem.inside[k])
            if problem.opening and not then & self._given:
                during = max(during, before + problem.opening + problem.entry[k])
            yield _Step(k, then, before, during, again)

    def _bytes(self, state: int) -> int:
        """The size of the classes in a state."""
        return sum(self._problem.size[c] for c in _bits(state & ((1 << len(self._problem.size)) - 1)))


def _bits(state: int) -> Iterator[int]:
    """The numbers of the bits that are set, ascending."""
    while state:
        lowest = state & -state
        yield lowest.bit_length() - 1
        state ^= lowest


def _path(
    came: dict[tuple[int, int, int], tuple[int, tuple[int, int, int]]], label: tuple[int, int, int]
) -> tuple[int, ...]:
    """The operators on the way from a state to the end."""
    runs = []
    while label in came:
        op, label = came[label]
        runs.append(op)
    return tuple(runs)
