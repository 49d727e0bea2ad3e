"""A sequence of runs in which operators may run several times, and the order problem that it is.

Each run makes new copies of its operator's results, and a reader reads the newest copy:

    run                a    b    a'   c                runs = (0, 1, 0, 2): operator 0 runs twice
    first copy of a    w----r                          b is its last reader
    second copy                  w----r                c reads the newer one

So each run is an operator of a larger `OrderProblem`, and each copy a class. Its peak in the given order is the peak of
the runs, and every other order of it is a sequence of the same runs in which all read the same copies.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING

from edgemem.errors import PlanError
from edgemem.schedule.peak import order_peak
from edgemem.schedule.problem import OrderProblem

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["Sources", "expand_runs", "runs_peak", "sources_of"]


@dataclass(frozen=True, slots=True)
class Sources:
    """Where an operator finds the copy of a class that it reads.

    A view writes no class: who reads it reads the copy of which the view was made, whatever copies there are by then.

    Attributes:
        is_direct: it reads the newest copy of the class.
        views: operators that it reads the class through: it reads the copies that their newest runs read.
    """

    is_direct: bool
    views: tuple[int, ...]


def runs_peak(problem: OrderProblem, runs: Sequence[int]) -> int:
    """The most that is alive at once while operators run in this sequence, in the problem's unit: bytes or texels.

    All rules of the problem hold for each run: memory taken from inputs, workspace, what is kept. Of a class that is
    kept, the last copy is; where the problem says so, a copy that nothing reads stays to the end.

    Args:
        problem: what is run.
        runs: operators, each once at least, after those that it waits for.

    Raises PlanError for other sequences.
    """
    return order_peak(expand_runs(problem, runs), range(len(runs)))


def expand_runs(problem: OrderProblem, runs: Sequence[int]) -> OrderProblem:
    """The problem in which each run is an operator, numbered as in `runs`, and each copy a class.

    The first copies have the numbers of their classes. An order of it is also one of the same runs with the same
    readers of each copy: a run that makes newer copies waits for the readers of the older ones.

    Raises PlanError unless each operator runs once at least, and not before those that it waits for.
    """
    return _Expansion(problem).expanded(runs)


def sources_of(problem: OrderProblem, k: int) -> dict[int, Sources]:
    """For each class that operator `k` reads where it finds it.

    The problem says only which operators `k` waits for. One that reads the class itself and makes nothing else that `k`
    reads is taken for a view of the class.
    """
    found = {}
    read = set(problem.reads[k])
    touching = {c: [b for b in problem.before[k] if c in problem.reads[b]] for c in read}
    for c, through in touching.items():
        views = tuple(b for b in through if read.isdisjoint(problem.writes[b]))
        is_written_there = any(c in problem.writes[b] for b in problem.before[k])
        if not is_written_there and not views:
            views = tuple(through)
        found[c] = Sources(is_written_there or not views, views)
    return found


class _Expansion:
    """What the runs so far have made."""

    def __init__(self, problem: OrderProblem) -> None:
        self._problem = problem
        self._size = list(problem.size)
        self._class = list(range(len(problem.size)))  # of each copy
        self._newest: dict[int, int] = {c: c for c in problem.start}
        self._read: dict[tuple[int, int], tuple[int, ...]] = {}  # operator, class: the copies that its last run read
        self._runs_of: dict[int, list[int]] = {}
        self._readers: list[list[int]] = [[] for _ in problem.size]  # of each copy
        self._sources: dict[int, dict[int, Sources]] = {}
        self._writes: list[tuple[int, ...]] = []
        self._reads: list[tuple[int, ...]] = []
        self._over: list[tuple[int, ...]] = []
        self._before: list[tuple[int, ...]] = []
        self._direct: list[tuple[int, ...]] = []

    def expanded(self, runs: Sequence[int]) -> OrderProblem:
        problem = self._problem
        for at, k in zip(count(), runs):
            self._run(at, k)
        if missing := set(range(problem.count)) - set(runs):
            raise PlanError(f"operator {min(missing)} never runs; a schedule runs each operator once at least")
        kept = {self._newest[c] for c in problem.kept if c in self._newest}
        unread = {copy for made in self._writes for copy in made if not self._readers[copy] and copy not in kept}
        lingers = unread if problem.keeps_unread else {copy for copy in unread if self._class[copy] in problem.lingers}
        return OrderProblem(
            before=tuple(self._before),
            size=tuple(self._size),
            reads=tuple(self._reads),
            writes=tuple(self._writes),
            over=tuple(self._over),
            start=problem.start,
            kept=frozenset(kept),
            lingers=frozenset(lingers),
            guarded=frozenset(self._guarded()),
            own=tuple(problem.own[k] for k in runs),
            inside=tuple(problem.inside[k] for k in runs),
            early=tuple(problem.early[k] for k in runs),
            leaves=tuple(problem.leaves[k] for k in runs),
            entry=tuple(problem.entry[k] for k in runs),
            opening=problem.opening,
            padding=problem.padding,
            names=tuple(problem.names[c] for c in self._class) if problem.names else (),
            keeps_unread=problem.keeps_unread,
            direct=tuple(self._direct),
        )

    def _guarded(self) -> Iterator[int]:
        if not self._problem.direct:  # a rule of the problem's own, not of a target
            yield from (copy for copy, c in enumerate(self._class) if c in self._problem.guarded)
            return
        inputs = Counter(copy for read in self._direct for copy in read)
        yield from (copy for copy, times in inputs.items() if times > 1)

    def _run(self, at: int, k: int) -> None:
        problem = self._problem
        if not 0 <= k < problem.count:
            raise PlanError(f"there is no operator {k}: there are {problem.count}")
        for b in problem.before[k]:
            if b not in self._runs_of:
                raise PlanError(f"operator {k} cannot run at place {at} of the runs: operator {b} must run before it")
        if k not in self._sources:
            self._sources[k] = sources_of(problem, k)
        # Bodies may read what their operator writes.
        written = {c: self._copy(c) for c in problem.writes[k] if c in problem.reads[k]}
        reads: dict[int, None] = {}
        for c in problem.reads[k]:
            copies = tuple(dict.fromkeys(self._copies(k, c)))
            self._read[k, c] = copies
            reads |= dict.fromkeys(copies)
        over = tuple(self._read[k, c][0] for c in problem.over[k] if len(self._read[k, c]) == 1)
        before = {run for b in problem.before[k] for run in self._runs_of[b]}
        if k in self._runs_of:  # what has read its older results does not read the newer ones
            before.update(self._runs_of[k])
            before.update(run for then in problem.after[k] for run in self._runs_of.get(then, ()))
        for copy in reads:
            self._readers[copy].append(at)
        self._before.append(tuple(sorted(before)))
        if problem.direct:
            self._direct.append(tuple(self._newest[c] for c in problem.direct[k] if self._sources[k][c].is_direct))
        self._reads.append(tuple(reads))
        self._over.append(over)
        self._writes.append(tuple(written[c] if c in written else self._copy(c) for c in problem.writes[k]))
        self._runs_of.setdefault(k, []).append(at)

    def _copies(self, k: int, c: int) -> Iterator[int]:
        """The copies of a class that operator `k` reads if it runs now."""
        sources = self._sources[k][c]
        if sources.is_direct:
            yield self._newest[c]
        for view in sources.views:
            yield from self._read[view, c]

    def _copy(self, c: int) -> int:
        """A new copy of a class, the newest one from now on."""
        if c not in self._newest:
            self._newest[c] = c
            return c
        copy = len(self._size)
        self._newest[c] = copy
        self._size.append(self._problem.size[c])
        self._class.append(c)
        self._readers.append([])
        return copy
