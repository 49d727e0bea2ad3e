"""The order of operators in Python, for an edgemem that was built without a compiler: peaks, greedy, and a small beam.

The drawing and the reasons are in kernels/planner/schedule/partial.h. What a problem's fields mean is said in
`edgemem.schedule.problem`.
"""

from __future__ import annotations

import random
import time
from array import array
from bisect import bisect_left, insort
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from edgemem.errors import PlanError
from edgemem.native.inverse import inverse

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

__all__ = ["OrderProblem"]

_NARROWEST = 8
_GROWTH = 4
_SLOWER = 64  # than the kernel, so that as little of the work is done

_Path: TypeAlias = "tuple[_Path, int] | None"


class OrderProblem:
    """`edgemem.schedule.problem.OrderProblem` with what the loops below look up."""

    def __init__(
        self,
        before: Sequence[Sequence[int]],
        size: Sequence[int],
        reads: Sequence[Sequence[int]],
        writes: Sequence[Sequence[int]],
        over: Sequence[Sequence[int]],
        start: Collection[int],
        kept: Collection[int],
        lingers: Collection[int],
        guarded: Collection[int],
        own: Sequence[int],
        inside: Sequence[int],
        early: Sequence[int],
        leaves: Sequence[int],
        entry: Sequence[int],
        opening: int,
    ) -> None:
        """What the fields mean is said in `edgemem.schedule.problem`."""
        self.before, self.size, self.reads, self.writes, self.over = before, size, reads, writes, over
        self.start, self.kept = start, frozenset(kept)
        self.lingers, self.guarded = frozenset(lingers), frozenset(guarded)
        self.own, self.inside, self.early, self.entry, self.opening = own, inside, early, entry, opening
        self.count = len(before)
        self.after = inverse(before, self.count)
        self.readers = inverse(reads, len(size))
        self.born = [sum(size[c] for c in w) for w in writes]
        stays = [bool(r) or c in self.kept or c in self.lingers for c, r in enumerate(self.readers)]
        # Operators that may deny another one the memory of an input if they run first.
        self.spoilers = {
            k for c in self.guarded for r in self.readers[c] if c in over[r][:-1] for k in self.readers[c] if k != r
        }
        self.staying = [left + sum(size[c] for c in w if stays[c]) for w, left in zip(writes, leaves, strict=True)]

    def peak(self, order: Sequence[int]) -> int:
        """The most that is alive at once in an order."""
        partial = _Partial(self)
        for place, k in enumerate(order):
            if not partial.is_ready(k):
                raise ValueError(
                    f"operator {k} cannot run at place {place} of the order; use an order that is topological"
                )
            partial.run(k)
        if len(order) != self.count:
            raise ValueError(f"the order has {len(order)} of {self.count} operators; an order has all of them")
        return partial.peak

    def greedy(self) -> list[int]:
        """The order that always goes on with what leaves the fewest bytes alive.

        Ties are broken by what is alive while the operator runs, then by its number.
        """
        partial = _Partial(self)
        order = []
        while partial.ready:
            order.append(partial.ready[0].op)
            partial.run(order[-1])
        return order

    def beam(
        self, work: int, seconds: float | None = None, order: Sequence[int] = (), bound: int = 0
    ) -> tuple[list[int], int, Literal["bound", "proof", "work", "time"], int]:
        """An order no worse than `order` and the greedy one, the bound proved, why it stopped, the work done.

        As the kernel does it, without the chains. Widths end where the work does.
        """
        limits = _Limits(work // _SLOWER, None if seconds is None else time.monotonic() + seconds)
        best, peak = min(
            ((o, self.peak(o)) for o in (list(order), self.greedy()) if len(o) == self.count), key=itemgetter(1)
        )
        width = _NARROWEST
        while peak > bound:
            found, exhaustive = _sweep(self, width, peak, limits)
            if limits.reached():
                return best, bound, limits.reached() or "work", limits.spent * _SLOWER
            if found is not None:
                best, peak = found, self.peak(found)
            elif exhaustive:
                return best, peak, "proof", limits.spent * _SLOWER
            else:
                width *= _GROWTH
        return best, bound, "bound", limits.spent * _SLOWER

    def __getattr__(self, name: str) -> Any:
        """Raise PlanError for what is not transcribed."""
        if name.startswith("_"):
            raise AttributeError(name)
        raise PlanError(f"OrderProblem.{name} is only in the compiled kernels, which this edgemem was built without")


class _Effect(NamedTuple):
    """What an operator would do if it ran next; effects sort by what is best to run first.

    Attributes:
        change: how many more bytes are alive after it than before; may be negative.
        rise: how many more bytes are alive while it runs than before.
        op: the operator.
    """

    change: int
    rise: int
    op: int


class _Partial:
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

    def copy(self) -> _Partial:
        """The same state, to go on from in another way."""
        made = object.__new__(_Partial)
        made._problem, made._taken = self._problem, self._taken
        made._left, made._waits, made.ready = self._left[:], self._waits[:], self.ready[:]
        made.live, made.peak, made.opening = self.live, self.peak, self.opening
        return made

    def peak_after(self, effect: _Effect) -> int:
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

    def _effect(self, k: int) -> _Effect:
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
        return _Effect(change, max(during, problem.early[k] + problem.inside[k]), k)


class _Limits:
    """Work, and the time at which the search ends."""

    def __init__(self, work: int, end: float | None) -> None:
        self.spent = 0
        self._work, self._end = work, end

    def reached(self) -> Literal["work", "time"] | None:
        if self.spent >= self._work:
            return "work"
        return "time" if self._end is not None and time.monotonic() >= self._end else None


class _State(NamedTuple):
    """A partial order with the way there. `key` stands for the operators that have run and what was remembered."""

    partial: _Partial
    key: int
    path: _Path


def _sweep(problem: OrderProblem, width: int, ceiling: int, limits: _Limits) -> tuple[list[int] | None, bool]:
    """An order below the ceiling if one is found, and whether no state was left out."""
    # Sets of operators are compared by the exclusive or of random numbers.
    rng = random.Random(0)  # noqa: S311 - no secrets
    mark = [rng.getrandbits(128) for _ in range(problem.count)]
    remembered = [rng.getrandbits(128) for _ in problem.size]
    root = _Partial(problem)
    front = [_State(root, 0, None)] if root.peak < ceiling else []
    exhaustive = True
    for _ in range(problem.count):
        # By key: bytes alive, place in the front of the state that is extended, operator.
        found: dict[int, tuple[int, int, int]] = {}
        for at, (partial, key, _) in enumerate(front):
            limits.spent += len(partial.ready)
            for effect in _extensions(partial, ceiling, problem.spoilers):
                k = effect.op
                taken = partial.remembers(k)
                extended = key ^ mark[k] ^ (remembered[taken] if taken >= 0 else 0)
                found.setdefault(extended, (partial.live + effect.change, at, k))
            if limits.reached():
                return None, False
        exhaustive = exhaustive and len(found) <= width
        chosen = sorted(found.items(), key=itemgetter(1))[:width]
        made = []
        for key, (_, at, k) in chosen:
            partial = front[at].partial.copy()
            partial.run(k)
            made.append(_State(partial, key, (front[at].path, k)))
        front = made
    return _unwound(front[0].path) if front else None, exhaustive


def _extensions(partial: _Partial, ceiling: int, spoilers: Collection[int]) -> list[_Effect]:
    """The operators that a partial order may go on with below the ceiling.

    One that leaves no more alive may as well run at once: whatever comes later finds no less room. Then it is the only
    way on. (The first one also pays for inputs that nothing reads.)
    """
    fitting = [e for e in partial.ready if partial.peak_after(e) < ceiling]
    if not partial.opening:
        for effect in fitting:
            if effect.change <= 0 and not partial.may_regret(effect.op) and effect.op not in spoilers:
                return [effect]
    return fitting


def _unwound(path: _Path) -> list[int]:
    order = []
    while path is not None:
        path, k = path
        order.append(k)
    return order[::-1]
