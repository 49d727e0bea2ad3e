"""Runs within a budget as a constraint program, in the manner of MOCCASIN (Bartan et al. 2023, arXiv 2304.14463).

The operators' first runs have a fixed order. Stage t ends with the first run of operator t; before it, those of the
operators 0 to t - 1 that run again do so, in the same order:

    stage            0    1         2              3
    may run          0    0  1      0  1  2        0  1  2  3          time = stage * operators + operator
    memory of 0      |-----------|                 |-----------|       two retention intervals

Each copy of a result has an interval in which it is retained; at any time, the retained copies and what operators need
beside them fit into the budget (one cumulative constraint). That takes a few integers for each copy, not one for each
pair of operator and stage.

Deviation: results are classes of memory, and a result may take that of an input whose interval ends there. An operator
that is a view runs again right after what it is a view of.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from edgemem.remat.program import sources_of
from edgemem.schedule.peak import peak_unit

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from edgemem.remat.program import Program

__all__ = ["Retention"]

# Parts of CP-SAT's programs; ortools has no types.
_Model: TypeAlias = Any
_Expression: TypeAlias = Any
_Literal: TypeAlias = Any


@dataclass(frozen=True, slots=True)
class _Run:
    """One run of an operator: its time, and the literal that it takes place."""

    op: int
    time: _Expression
    present: _Literal


@dataclass(slots=True)
class _Copy:
    """One copy of a class: the run that makes it (None: there at the start), and the time when it is released."""

    made: _Run | None
    end: _Expression


class Retention:
    """The program of one problem, an order of its first runs, and a budget.

    What the program does not know: which memory is `guarded`, what lingers of results whose copies nothing reads, and
    what is alive only before the first run. Its bound holds for all runs of its kind; its runs are to be counted.
    """

    def __init__(
        self, program: Program, order: Sequence[int], budget: int, copies: int, most_cost: int, model: _Model
    ) -> None:
        """Fill an empty `CpModel`. An operator runs `copies` times at most; all runs cost `most_cost` at most."""
        self._program, self._problem = program, program.problem
        self._model = model
        self._order = list(order)
        self._position = {k: at for at, k in enumerate(order)}
        self._count = len(self._order)
        self._end = (self._count + 1) * self._count + 1
        self._unit = peak_unit(self._problem)
        self._intervals: list[_Expression] = []
        self._demands: list[int] = []
        self._views = self._find_views()
        self._stage: dict[tuple[int, int], _Expression] = {}
        self._runs = {k: list(self._add_runs(k, copies)) for k in order}
        self._copies: dict[int, list[_Copy]] = {}
        for k in order:
            for c in self._problem.writes[k]:
                self._copies[c] = [_Copy(run, self._release(run)) for run in self._runs[k]]
                self._add_order(c)
        for c in self._problem.start:
            if c not in self._problem.kept:
                self._copies[c] = [_Copy(None, model.new_int_var(0, self._end, ""))]
        self._lasts: dict[tuple[int, int], list[_Literal]] = {}
        for k in order:
            for number, run in enumerate(self._runs[k]):
                self._add_reads(run, number)
        for k in order:
            for number, run in enumerate(self._runs[k]):
                self._add_memory(run, number)
        for c in self._problem.start:
            if c in self._copies:
                self._occupy(0, self._copies[c][0].end, self._problem.size[c], True)
        always = sum(self._problem.size[c] for c in self._problem.start if c in self._problem.kept)
        room = (budget - always) // self._unit
        if room < 0:
            model.add_bool_or([])
        else:
            model.add_cumulative(self._intervals, self._demands, room)
        again = sum(run.present * self._cost(k) for k in order for run in self._runs[k][1:])
        model.add(again <= most_cost - program.base_cost)
        model.minimize(again)

    def runs(self, solver: Any) -> tuple[int, ...]:
        """The runs of a solution."""
        chosen = []
        for runs in self._runs.values():
            chosen += [(solver.value(run.time), run.op, n) for n, run in enumerate(runs) if solver.value(run.present)]
        return tuple(k for _, op, n in sorted(chosen) for k in ((op, *self._views[op]) if n else (op,)))

    def hint(self, runs: Sequence[int]) -> None:
        """Name runs, whose first ones are in the order, where the search for better ones begins."""
        stage = 0
        stages: dict[int, list[int]] = {k: [] for k in self._order}
        seen: set[int] = set()
        for k in runs:
            if k in seen:
                stages[k].append(stage)
            else:
                seen.add(k)
                stage += 1
        for k, found in stages.items():
            distinct = list(dict.fromkeys(found))
            for number, run in enumerate(self._runs[k][1:]):
                self._model.add_hint(run.present, number < len(distinct))
                if number < len(distinct):
                    self._model.add_hint(self._stage[k, number + 1], distinct[number])

    def _find_views(self) -> dict[int, tuple[int, ...]]:
        """For each operator its views, and theirs, in the order."""
        problem = self._problem
        through: dict[int, set[int]] = {}
        for k in range(problem.count):
            for c, sources in sources_of(problem, k).items():
                through.setdefault(c, set()).update(sources.views)
        return {
            k: tuple(sorted({v for c in problem.writes[k] for v in through.get(c, ())}, key=self._position.__getitem__))
            for k in self._order
        }

    def _cost(self, k: int) -> int:
        return sum(self._program.costs[v] for v in (k, *self._views[k]))

    def _add_runs(self, k: int, copies: int) -> Iterator[_Run]:
        model, at = self._model, self._position[k]
        yield _Run(k, at * self._count + at, True)
        is_useful = any(self._problem.size[c] for c in self._problem.writes[k])
        if not is_useful or not {k, *self._views[k]} <= self._program.repeatable:
            return
        before: _Literal = True
        stage: _Expression = at
        for number in range(1, copies):
            present = model.new_bool_var("")
            later = model.new_int_var(at + 1, self._count, "")
            if before is not True:
                model.add_implication(present, before)
                model.add(later > stage).only_enforce_if(present)
            model.add(later == at + 1).only_enforce_if(~present)
            yield _Run(k, later * self._count + at, present)
            self._stage[k, number] = later
            before, stage = present, later

    def _release(self, run: _Run) -> _Expression:
        """The time at which a copy that a run makes is released."""
        end = self._model.new_int_var(0, self._end, "")
        self._model.add(end >= run.time + 1)
        return end

    def _add_order(self, c: int) -> None:
        """A copy is released before the next one is made; the last one of a kept class is never released."""
        copies, is_kept = self._copies[c], c in self._problem.kept
        for copy, then in zip(copies, [*copies[1:], None], strict=True):
            assert copy.made is not None
            if then is not None and then.made is not None:
                self._model.add(copy.end <= then.made.time).only_enforce_if(then.made.present)
                if is_kept:
                    is_last = [~then.made.present, *_if(copy.made)]
                    self._model.add(copy.end >= self._end).only_enforce_if(is_last)
            elif is_kept:
                self._model.add(copy.end >= self._end).only_enforce_if(_if(copy.made))

    def _add_reads(self, run: _Run, number: int) -> None:
        """A run reads one copy of each class, which is made before and released after."""
        model, problem = self._model, self._problem
        for c in problem.reads[run.op]:
            if c not in self._copies or c in problem.writes[run.op]:
                continue
            choices = []
            lasts = []
            for copy in self._copies[c]:
                reads = self._chosen(run, copy)
                if reads is False:
                    continue
                choices.append(reads)
                only = [] if reads is True else [reads]
                model.add(copy.end >= run.time + 1).only_enforce_if(only)
                if c in problem.over[run.op]:
                    last = model.new_bool_var("")
                    if reads is not True:
                        model.add_implication(last, reads)
                    model.add(copy.end <= run.time + 1).only_enforce_if(last)
                    lasts.append(last)
            if choices != [run.present]:
                model.add_exactly_one([*choices, *map(_not, _if(run))])
            self._lasts.setdefault((run.op, number), []).extend(lasts)

    def _chosen(self, run: _Run, copy: _Copy) -> _Literal:
        """The literal that a run reads a copy; False if it cannot."""
        if copy.made is None or len(self._runs[copy.made.op]) == 1:
            return run.present
        if (
            copy.made.present is not True
            and run.present is True
            and self._position[copy.made.op] >= self._position[run.op]
        ):
            return False
        reads = self._model.new_bool_var("")
        if copy.made.present is not True:
            self._model.add_implication(reads, copy.made.present)
        if run.present is not True:
            self._model.add_implication(reads, run.present)
        self._model.add(copy.made.time < run.time).only_enforce_if(reads)
        return reads

    def _add_memory(self, run: _Run, number: int) -> None:
        """What a run needs at its time, and what it retains."""
        problem, k = self._problem, run.op
        lasts = self._lasts.get((k, number), [])
        taken = self._model.new_bool_var("") if lasts else False
        if lasts:
            self._model.add_bool_or([*lasts, ~taken])
        inside = problem.early[k] + problem.inside[k] - problem.born[k]
        self._occupy(run.time, run.time + 1, max(problem.own[k], inside), run.present)
        for at, c in enumerate(problem.writes[k]):
            copy = self._copies[c][number]
            size = problem.size[c]
            if not problem.readers[c] and c in problem.lingers and c not in problem.kept:
                self._model.add(copy.end >= self._end).only_enforce_if(
                    [*_if(run), *([~taken] if lasts and not at else [])]
                )
            if at or not lasts:
                self._occupy(run.time, copy.end, size, run.present)
                continue
            here = self._model.new_bool_var("")
            self._model.add_bool_or([here, taken, *map(_not, _if(run))])
            self._occupy(run.time, run.time + 1, size, here)
            self._occupy(run.time + 1, copy.end, size, run.present)
        if problem.leaves[k]:
            self._occupy(run.time + 1, self._end, problem.leaves[k], run.present)

    def _occupy(self, start: _Expression, end: _Expression, size: int, present: _Literal) -> None:
        if size <= 0:
            return
        length = self._model.new_int_var(0, self._end, "")
        if present is True:
            interval = self._model.new_interval_var(start, length, end, "")
        else:
            interval = self._model.new_optional_interval_var(start, length, end, present, "")
        self._intervals.append(interval)
        self._demands.append(size // self._unit)


def _if(run: _Run) -> list[_Literal]:
    """The literals that all hold if a run takes place: none for one that always does."""
    return [] if run.present is True else [run.present]


def _not(literal: _Literal) -> _Literal:
    return ~literal
