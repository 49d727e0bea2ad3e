"""Dynamic Tensor Rematerialization as its authors say it (Kirisame et al. 2021, sections 2 to 4), on operator logs.

Memory is a number of bytes without addresses: what is free serves any request that is not larger. Written from the
paper; shares no code with edgemem. Kept facts are few: which values are resident, locked, held, and when they were
accessed; the evicted neighbourhoods are the approximate ones of the paper's appendix, sets that only grow together.

 - To run a call: its arguments count as accessed; those that are resident are locked, the others are rematerialized,
   in order, by running their calls in the same way, and locked; then values are evicted, the least h = c / (m s)
   first, until its results fit. First results count as accessed when the call has run, results that are made again do
   not: only who asks for them accesses them.
 - A value whose last reference the program drops is evicted at once (eager eviction). What is rematerialized later
   is a value as any other: it stays until h chooses it.
 - At the end, all that the program still references is rematerialized and stays.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.bench.remat.operator_log import OperatorLog

__all__ = ["Dtr", "OutOfMemory"]


class OutOfMemory(Exception):  # noqa: N818
    """Nothing is left to evict."""


@dataclass
class Dtr:
    """A run of a log under a budget: `run` fills in the rest. Sizes are taken as they are."""

    log: OperatorLog
    budget: int
    locks_early: bool = True  # False: of a call that runs again, only what was missing, until it runs
    resident: set[int] = field(default_factory=set)
    held: set[int] = field(default_factory=set)  # by the program
    locks: dict[int, int] = field(default_factory=dict)
    accessed: dict[int, int] = field(default_factory=dict)
    group: dict[int, set[int]] = field(default_factory=dict)  # of an evicted value: its neighbourhood, shared
    known: set[int] = field(default_factory=set)  # calls that ran, and constants' none
    clock: int = 0
    evictions: list[int] = field(default_factory=list)  # values, to make room
    again: list[int] = field(default_factory=list)  # calls

    def __post_init__(self) -> None:
        log = self.log
        self.reads, self.writes = log.reads.rows(), log.writes.rows()
        self.cost: list[int] = log.cost.tolist()
        self.size: list[int] = log.size.tolist()
        self.maker = {v: k for k, row in enumerate(self.writes) for v in row}
        self.readers: dict[int, set[int]] = {v: set() for v in range(len(self.size))}
        for k, row in enumerate(self.reads):
            for v in row:
                self.readers[v].add(k)

    def run(self) -> Dtr:
        """Run the whole log. Raises OutOfMemory."""
        for kind, index in zip(self.log.event_kind.tolist(), self.log.event_index.tolist(), strict=True):
            if kind == 0:
                self.held.update(self.writes[index])
                self.perform(index)
                self.known.add(index)
                if self.log.takes[index] >= 0:  # copy on write: the old version is a value that is released
                    self.release(int(self.log.takes[index]))
            elif kind == 1:
                self.make_room(self.size[index])
                self.held.add(index)
                self.arrive(index)
            else:
                self.release(index)
        outputs = sorted(self.held)
        self.access(outputs)
        self.lock([], outputs)
        for v in outputs:
            if v not in self.resident:
                self.perform(self.maker[v], is_again=True)
        return self

    def release(self, v: int) -> None:
        self.held.discard(v)
        self.collect()
        if v in self.maker and v in self.resident:
            self.evict(v)

    def perform(self, k: int, *, is_again: bool = False) -> None:
        is_early = self.locks_early or not is_again
        locked: list[int] = []
        if is_early:
            self.access(self.reads[k])
            self.lock(locked, [v for v in self.reads[k] if v in self.resident])
        while missing := [v for v in self.reads[k] if v not in self.resident]:
            self.access(missing[:1] if not is_early else [])
            self.perform(self.maker[missing[0]], is_again=True)
            self.lock(locked, missing[:1])
        rest = [v for v in self.reads[k] if v not in locked]
        if not is_early:
            self.access(rest)
        self.lock(locked, rest)
        needed = self.needed()
        new = [v for v in self.writes[k] if v not in self.resident and v in needed]
        self.make_room(sum(self.size[v] for v in new))
        for v in new:
            self.arrive(v)
        self.clock += self.cost[k]
        if is_again:
            self.again.append(k)
        else:
            self.access(self.writes[k])
        for v in locked:
            self.locks[v] -= 1

    def access(self, values: Iterable[int]) -> None:
        for v in values:
            self.accessed[v] = self.clock

    def lock(self, locked: list[int], values: list[int]) -> None:
        for v in values:
            self.locks[v] = self.locks.get(v, 0) + 1
        locked += values

    # --- memory ---

    def make_room(self, size: int) -> None:
        used = sum(self.size[v] for v in self.resident)
        while used + size > self.budget:
            pool = [v for v in sorted(self.resident) if v in self.maker and self.size[v] and not self.locks.get(v)]
            if not pool:
                raise OutOfMemory
            victim = min(pool, key=self.h)
            self.evictions.append(victim)
            self.evict(victim)
            used -= self.size[victim]

    def arrive(self, v: int) -> None:
        if v in self.group:
            self.group.pop(v).discard(v)
        self.resident.add(v)
        self.accessed.setdefault(v, self.clock)

    def evict(self, v: int) -> None:
        self.resident.discard(v)
        own = {v}.union(*(self.group[w] for w in self.neighbours(v) if w in self.group))
        self.group |= dict.fromkeys(own, own)

    # --- heuristic ---

    def neighbours(self, v: int) -> set[int]:
        """What it is made of, and what is made of it."""
        made = {w for k in self.readers[v] if k in self.known for w in self.writes[k]}
        return made.union(self.reads[self.maker[v]])

    def h(self, v: int) -> float:
        near = {id(self.group[w]): self.group[w] for w in self.neighbours(v) if w in self.group}
        around = sum(self.cost[self.maker[w]] for group in near.values() for w in group)
        stale = max(1, self.clock - self.accessed[v])
        return float(self.cost[self.maker[v]] + around) / (float(self.size[v]) * stale)

    # --- what nothing references any more ---

    def needed(self) -> set[int]:
        """What the program references, and what the recipes of needed values do."""
        found = self.held | {v for v, count in self.locks.items() if count}
        waiting = list(found)
        while waiting:
            v = waiting.pop()
            for w in self.reads[self.maker[v]] if v in self.maker else ():
                if w not in found:
                    found.add(w)
                    waiting.append(w)
        return found

    def collect(self) -> None:
        """Reference counts free what is not needed."""
        gone = (self.resident | self.group.keys()) - self.needed()
        self.resident -= gone
        for v in gone & self.group.keys():
            self.group.pop(v).discard(v)
