"""Small random problems of operator orders, without a graph."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgemem.schedule.problem import OrderProblem

if TYPE_CHECKING:
    from random import Random

__all__ = ["random_problem"]


def random_problem(rng: Random, count: int, *, lingers: bool = True) -> OrderProblem:
    """A problem of `count` operators that any order by number solves; in-place results, workspace and kept classes.

    Few distinct sizes make ties. Nothing takes the memory of what is there before the first operator, as in a graph.
    Without `lingers`, no class that nothing reads stays to the end.
    """
    size = [rng.randint(1, 3) for _ in range(rng.randint(1, 2))]
    start = tuple(range(len(size)))
    reads: list[tuple[int, ...]] = []
    writes: list[tuple[int, ...]] = []
    over: list[tuple[int, ...]] = []
    before: list[tuple[int, ...]] = []
    writer: dict[int, int] = {}
    for k in range(count):
        known = list(range(len(size)))
        recent = known[-1:] if rng.random() < 0.7 else known[-3:]
        read = {rng.choice(recent)} | {rng.choice(known) for _ in range(rng.choice((0, 0, 1, 2)))}
        reads.append(tuple(sorted(read)))
        made = tuple(range(len(size), len(size) + rng.choice((1, 1, 1, 2))))
        size += [rng.choice((1, 1, 2, 3, 5, 8)) for _ in made]
        writer |= dict.fromkeys(made, k)
        writes.append(made)
        made_before = sorted(read.difference(start))
        if made_before and rng.random() < 0.4:
            size[made[0]] = size[rng.choice(made_before)]
        equal = [c for c in made_before if size[c] == size[made[0]] and rng.random() < 0.7]
        over.append(tuple(equal))
        waits = {writer[c] for c in read if c in writer}
        others = [b for b in range(k) if read.isdisjoint(reads[b])]  # one that reads what k reads may be a view of it
        if others and rng.random() < 0.1:
            waits.add(rng.choice(others))
        before.append(tuple(sorted(waits)))
    read_by_any = {c for classes in reads for c in classes}
    unread = set(range(len(size))).difference(read_by_any, start)
    kept = {c for c in range(len(size)) if rng.random() < 0.1} | ({writes[-1][0]} if rng.random() < 0.8 else set())
    kept = kept.difference(c for c in start if c not in read_by_any)
    return OrderProblem(
        before=tuple(before),
        size=tuple(size),
        reads=tuple(reads),
        writes=tuple(writes),
        over=tuple(tuple(c for c in row if c not in kept) for row in over),
        start=tuple(c for c in start if c in read_by_any),
        kept=frozenset(kept),
        lingers=frozenset(unread.difference(kept) if lingers and rng.random() < 0.3 else ()),
        own=tuple(rng.choice((0, 0, 2)) for _ in range(count)),
        entry=tuple(sum(size[c] for c in made) for made in writes),
        opening=sum(size[c] for c in start if c not in read_by_any),
    )
