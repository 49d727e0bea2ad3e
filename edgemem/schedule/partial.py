"""An order in the making: the operators that have run, what is alive, and what each ready operator would change.

The bytes alive between two operators depend on which operators have run, not on their order: a class is alive once it
is written, until its last reader is done. So running an operator changes them by a figure (`Effect.change`) that
depends only on which of its inputs have no other reader left, and counts of readers are enough to keep the figures of
all ready operators up to date. The one exception is a class whose fate depends on whether it took the memory of an
input (`OrderProblem.lingers`, `guarded`); it is remembered in `taken`.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, insort
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from edgemem.schedule.problem import OrderProblem

__all__ = ["Effect", "Partial"]


class Effect(NamedTuple):
    """What an operator would do if it ran next; effects sort by what is best to run first.

    Attributes:
        change: how many more bytes are alive after it than before; may be negative.
        rise: how many more bytes are alive while it runs than before.
        op: the operator.
    """

    change: int
    rise: int
    op: int


class Partial:
    """The state of a partial order.

    Attributes:
        live: bytes alive now.
        peak: the most that were alive so far.
        ready: the effects of all operators that could run next, ascending.
    """

    __slots__ = ("_left", "_problem", "_taken", "_waits", "live", "opening", "peak", "ready")

    def __init__(self, problem: OrderProblem) -> None:
        """Nothing has run."""
        self._problem = problem
        self._left = array("i", map(len, problem.readers))  # readers of each class that have not run
        self._waits = array("i", map(len, problem.before))  # predecessors that have not run; -1 once it has run itself
        self._taken: frozenset[int] = frozenset()  # classes of `lingers` or `guarded` that took the memory of an input
        self.live = self.peak = sum(problem.size[c] for c in problem.start)
        self.opening = problem.opening
        if not problem.count:
            self.peak += self.opening
        self.ready = sorted(self._effect(k) for k, waits in enumerate(self._waits) if not waits)

    def copy(self) -> Partial:
        """The same state, to go on from in another way."""
        made = object.__new__(Partial)
        made._problem, made._taken = self._problem, self._taken
        made._left, made._waits, made.ready = self._left[:], self._waits[:], self.ready[:]
        made.live, made.peak, made.opening = self.live, self.peak, self.opening
        return made

    def peak_after(self, effect: Effect) -> int:
        """The peak once the operator has run."""
        opening = self.opening + self._problem.entry[effect.op] if self.opening else 0
        return max(self.peak, self.live + max(effect.rise, opening))

    def is_ready(self, k: int) -> bool:
        """Whether operator `k` could run next."""
        return 0 <= k < len(self._waits) and self._waits[k] == 0

    def remembers(self, k: int) -> int:
        """The class to remember in `taken` if ready operator `k` runs now, or -1."""
        problem = self._problem
        if not problem.over[k]:
            return -1
        out = problem.writes[k][0]
        marked = out in problem.lingers or out in problem.guarded
        return out if marked and self._overwritten(k) >= 0 else -1

    def may_regret(self, k: int) -> bool:
        """Whether ready operator `k` might find better use for its first result's memory if it ran later."""
        problem = self._problem
        if not problem.over[k] or self._overwritten(k) >= 0:
            return False
        out = problem.writes[k][0]
        return out in problem.lingers or out in problem.guarded

    def run(self, k: int) -> None:
        """Let ready operator `k` run."""
        problem, left, waits, ready = self._problem, self._left, self._waits, self.ready
        effect = self._effect(k)
        del ready[bisect_left(ready, effect)]
        taken = self.remembers(k)
        self.peak = self.peak_after(effect)
        self.live += effect.change
        self.opening = 0
        waits[k] = -1
        alone = set()  # ready operators that become the last reader of something
        for c in problem.reads[k]:
            if left[c] == 2:
                last = next(r for r in problem.readers[c] if waits[r] >= 0)
                if not waits[last]:
                    alone.add(last)
        for last in alone:
            del ready[bisect_left(ready, self._effect(last))]
        for c in problem.reads[k]:
            left[c] -= 1
        if taken >= 0:
            self._taken |= {taken}
        for last in alone:
            insort(ready, self._effect(last))
        for then in problem.after[k]:
            waits[then] -= 1
            if not waits[then]:
                insort(ready, self._effect(then))

    def _overwritten(self, k: int) -> int:
        """The class whose memory the first result of an operator takes if it runs now, or -1."""
        problem = self._problem
        for c in problem.over[k]:
            if self._left[c] == 1:  # the operator itself is the last reader
                return -1 if c in problem.guarded and c not in self._taken else c
        return -1

    def _effect(self, k: int) -> Effect:
        problem, left = self._problem, self._left
        size = problem.size
        during = problem.born[k] + problem.own[k]
        change = problem.staying[k]
        over = self._overwritten(k) if problem.over[k] else -1
        if over >= 0:
            during -= size[over]
            if problem.writes[k][0] in problem.lingers:
                change -= size[over]
        for c in problem.reads[k]:
            if left[c] == 1 and c not in problem.kept:
                change -= size[c]
        return Effect(change, max(during, problem.early[k] + problem.inside[k]), k)
