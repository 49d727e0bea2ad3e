"""Schedules that run operators several times: their peak, counted literally, and the best of them by a full search.

A *run* is one execution of an operator. Each run makes a new copy of every class that the operator writes; a reader
takes the newest copy. A copy lives from its run to the last run that reads it before a newer copy is there, and the
last copy of a kept class lives to the end. Classes, `over` and the other words are those of an OrderProblem.

    runs       0    1    0    2         operator 0 writes a, 1 reads a and writes b, 2 reads a and b
    class a    w----r    w----r         two copies: nothing of a is alive while only b is needed
    class b         w---------r
"""

from __future__ import annotations

import heapq
from dataclasses import replace
from itertools import count
from operator import le
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from edgemem.model.graph import Graph, Op
    from edgemem.schedule.problem import OrderProblem

__all__ = ["all_runs", "front", "front_of", "repeated", "runs_peak"]

_State: TypeAlias = tuple[frozenset[int], frozenset[int]]  # operators that have run, classes that are alive
_Label: TypeAlias = tuple[int, int, int]  # cost, peak, bytes of results that nothing reads and that stay to the end


def runs_peak(problem: OrderProblem, runs: Sequence[int]) -> int:
    """The most bytes that are alive at once while operators run in this sequence, each at least once."""
    last_read: dict[tuple[int, int], int] = {}  # (class, run that made the copy, -1 before the first) -> last run
    newest = dict.fromkeys(problem.start, -1)
    for at, k in enumerate(runs):
        for c in problem.reads[k]:
            last_read[c, newest[c]] = at
        newest |= dict.fromkeys(problem.writes[k], at)
    ends = {(c, made): len(runs) for c, made in newest.items() if c in problem.kept}
    last_read |= ends

    size = problem.size
    alive: dict[tuple[int, int], int] = {(c, -1): size[c] for c in problem.start}
    taken: set[tuple[int, int]] = set()  # copies that lie in the memory of an input
    now = dict.fromkeys(problem.start, -1)
    left = 0
    peak = sum(alive.values()) + problem.opening
    if runs:
        peak += problem.entry[runs[0]]
    for at, k in enumerate(runs):
        before = sum(alive.values()) + left
        peak = max(peak, before + problem.early[k] + problem.inside[k])
        made = [(c, at) for c in problem.writes[k]]
        saved = 0
        for c in problem.over[k]:
            copy = (c, now[c])
            if last_read.get(copy, -1) != at:
                continue
            if c in problem.guarded and copy not in taken:
                break
            saved = size[c]
            taken.add(made[0])
            break
        peak = max(peak, before + sum(size[c] for c, _ in made) + problem.own[k] - saved)
        alive |= {copy: size[copy[0]] for copy in made}
        now |= dict(made)
        left += problem.leaves[k]
        for copy in list(alive):
            stays = copy[0] in problem.lingers and copy not in taken
            if last_read.get(copy, -1) <= at and not stays:
                del alive[copy]
    return max(peak, sum(alive.values()) + left)


def all_runs(problem: OrderProblem, most: int, longest: int, once: Collection[int] = ()) -> Iterator[tuple[int, ...]]:
    """Every sequence in which each operator runs once to `most` times, after those that it waits for.

    Operators in `once` run once, and no sequence has more than `longest` runs.
    """
    writer = {c: k for k, written in enumerate(problem.writes) for c in written}
    needs = [{*problem.before[k], *(writer[c] for c in problem.reads[k] if c in writer)} for k in range(problem.count)]

    def extend(runs: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
        missing = set(range(problem.count)).difference(runs)
        if not missing:
            yield runs
        if len(runs) + max(len(missing), 1) > longest:
            return
        for k in range(problem.count):
            if runs.count(k) < (1 if k in once else most) and needs[k] <= set(runs):
                yield from extend((*runs, k))

    yield from extend(())


def front_of(found: Collection[tuple[int, int]]) -> list[tuple[int, int]]:
    """Those pairs (peak, cost) that no other one beats in both, by ascending peak."""
    best: list[tuple[int, int]] = []
    for peak, cost in sorted(set(found)):
        if not best or cost < best[-1][1]:
            best.append((peak, cost))
    return best


def front(
    problem: OrderProblem, costs: Sequence[int], once: Collection[int] = (), order: Sequence[int] | None = None
) -> list[tuple[int, int]]:
    """The best pairs (peak, cost) of all sequences of runs, with no limit on repeats, by ascending peak.

    A search over what has run and what is alive, as in a pebble game: a run needs its inputs alive, and whatever is
    alive may be dropped at any time. Operators in `once` run once. With `order` the first runs of the operators come
    in this order, with repeats between them. For problems without `guarded` classes and bodies.
    """
    if problem.guarded or any(problem.inside) or any(problem.early) or any(problem.leaves):
        raise NotImplementedError("guarded classes and bodies")
    size = problem.size
    fixed = problem.kept & set(problem.start)
    first = sum(size[c] for c in problem.start) + problem.opening
    start: _State = (frozenset(), frozenset(problem.start))
    labels: dict[_State, list[_Label]] = {start: [(0, first, 0)]}
    waiting: list[tuple[_Label, int, _State]] = [((0, first, 0), 0, start)]
    numbers = count(1)  # states have no order
    ended: list[tuple[int, int]] = []
    while waiting:
        label, _, state = heapq.heappop(waiting)
        if label not in labels[state]:
            continue  # a better one came later
        cost, peak, stuck = label
        done, alive = state
        if len(done) == problem.count and problem.kept <= alive:
            ended.append((peak, cost))
        reached: list[tuple[_Label, _State]] = [(label, (done, alive - {c})) for c in alive - fixed]
        for k in range(problem.count):
            is_next = order is None or order[len(done)] == k if k not in done else k not in once
            if not (is_next and set(problem.reads[k]) <= alive and set(problem.before[k]) <= done):
                continue
            others = alive.difference(problem.writes[k])
            held = sum(size[c] for c in others) + stuck + problem.born[k] + problem.own[k]
            opening = 0 if done else first + problem.entry[k]
            for over in (None, *(c for c in problem.over[k] if c in others - fixed)):
                in_place = set() if over is None else {over}
                stays = problem.lingers.intersection(problem.writes[k][len(in_place) :])
                then = (
                    cost + costs[k],
                    max(peak, opening, held - sum(size[c] for c in in_place)),
                    stuck + sum(size[c] for c in stays),
                )
                reached.append((then, (done | {k}, (others - in_place | set(problem.writes[k])) - problem.lingers)))
        for then, there in reached:
            known = labels.setdefault(there, [])
            if not any(all(map(le, other, then)) for other in known):
                known[:] = [other for other in known if not all(map(le, then, other))]
                known.append(then)
                heapq.heappush(waiting, (then, next(numbers), there))
    return front_of(ended)


def repeated(graph: Graph, runs: Sequence[int]) -> Graph:
    """The graph that runs its operators in this sequence; later runs of one write tensors of their own.

    The last copy of an output of the graph has the output's name.
    """
    tensors = list(graph.tensors)
    last = {k: at for at, k in enumerate(runs)}
    newest: dict[int, int] = {}
    ops: list[Op] = []
    for at, k in enumerate(runs):
        op = graph.ops[k]
        inputs = tuple(newest.get(i, i) for i in op.inputs)
        for i in op.outputs:
            if i < 0:
                continue
            newest[i] = i
            if at != last[k]:
                newest[i] = len(tensors)
                tensors.append(replace(graph.tensors[i], name=f"{graph.tensors[i].name}/run {at}"))
        ops.append(replace(op, inputs=inputs, outputs=tuple(newest.get(i, i) for i in op.outputs)))
    return replace(graph, tensors=tuple(tensors), ops=tuple(ops), precedence=())
