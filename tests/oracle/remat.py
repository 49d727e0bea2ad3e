"""Rematerialisation as its rules say it: a slow simulator that looks every fact up, and the window by brute force.

Written from Coop (sections 2 to 4), DTR (section 4) and the rules in kernels/remat/*.h; shares no code with edgemem.
Nothing is kept up to date: who is needed, which values are evicted, what is free is found anew whenever it is asked.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from math import floor, isnan, ldexp
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.bench.remat.operator_log import OperatorLog

__all__ = ["Ended", "Oracle", "Rules", "best_window"]

Row = tuple[str, int, int]  # what happened, call or value, address or -1


@dataclass(frozen=True)
class Rules:
    heuristic: str = "coop"  # "dtr", "dte" or "coop"
    search: str = "window"  # "one_by_one", "window" or "window_per_byte"
    best_fit: bool = True
    partition: bool = False
    in_place: bool = False
    constants_at_ends: bool = False
    small_apart: bool = False


class Ended(Exception):  # noqa: N818
    """The program could not be run to its end; `why` is "out of memory" or "thrashing"."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


def best_window(
    blocks: Sequence[tuple[int, float | None, bool]], wanted: int, *, per_byte: bool = False
) -> tuple[int, int] | None:
    """The cheapest contiguous blocks with `wanted` bytes: first and last; of all runs of blocks.

    A block is (bytes, heuristic or None where it cannot be evicted, whether it is free). With `per_byte` the sum is
    divided by the bytes of the run, and only the shortest run that ends at each block is looked at.
    """
    found: list[tuple[float, int, int, int]] = []
    for last in range(len(blocks)):
        for first in range(last, -1, -1):
            inside = blocks[first : last + 1]
            room = sum(size for size, _, _ in inside)
            if any(h is None for _, h, _ in inside):
                break
            if room < wanted:
                continue
            cost = sum(parts_of(h) for _, h, _ in inside if h is not None)
            key = (float(cost >> 64) + ldexp(float(cost & 2**64 - 1), -64)) / float(room) if per_byte else cost
            found.append((key, sum(size for size, _, free in inside if not free), last, last - first))
            if per_byte:
                break
    if not found:
        return None
    _, _, last, length = min(found)
    return last - length, last


def parts_of(heuristic: float) -> int:
    """A heuristic in parts of 2^-64."""
    return floor(Fraction(2**40 if isnan(heuristic) or heuristic > 2**40 else heuristic) * 2**64)


@dataclass(eq=False)
class Value:
    number: int
    size: int
    call: int  # that makes it, -1: it cannot be made again
    held: bool = False
    locks: int = 0
    there: bool = False
    again: bool = False  # it was made after the program had let it go, and is there since
    address: int = -1
    accessed: int = 0


@dataclass
class Oracle:
    """A run of a log under a budget: `run` fills in the rest."""

    log: OperatorLog
    budget: int
    rules: Rules
    alignment: int = 1
    limit: float = 10.0
    values: dict[int, Value] = field(default_factory=dict)  # those that are known: neither unmade nor forgotten
    order: list[int] = field(default_factory=list)  # values as they were added
    sets: list[set[int]] = field(default_factory=list)  # of evicted values
    expensive: dict[int, bool] = field(default_factory=dict)
    asked: list[tuple[int, int]] = field(default_factory=list)  # cost and bytes of calls, as they came
    spared: list[int] = field(default_factory=list)
    history: list[Row] = field(default_factory=list)
    fragments: list[float] = field(default_factory=list)
    clock: int = 0
    recomputed: int = 0
    recomputed_calls: int = 0
    requests: int = 0
    searches: int = 0
    evaluations: int = 0
    evictions: int = 0
    evicted_bytes: int = 0
    peak: int = 0
    event: int = 0
    ended: str = "done"

    def __post_init__(self) -> None:
        log = self.log
        self.reads, self.writes = log.reads.rows(), log.writes.rows()
        self.takes: list[int] = log.takes.tolist()
        self.cost: list[int] = log.cost.tolist()
        self.size: list[int] = log.size.tolist()
        self.budget -= self.budget % self.alignment
        has_small = self.rules.small_apart and self.budget // 65536 >= self.alignment
        apart = self.budget // 256 if has_small else 0
        self.begin = apart - apart % self.alignment  # of the main pool

    def run(self) -> Oracle:
        """Run the whole log."""
        try:
            for kind, index in zip(self.log.event_kind.tolist(), self.log.event_index.tolist(), strict=True):
                if kind == 0:
                    self.first_run(index)
                elif kind == 1:
                    self.appear(index)
                elif kind == 2:
                    self.let_go(index)
                elif kind == 3:
                    self.pin(index)
                elif self.values[index].there and self.values[index].call >= 0 and index not in self.spared:
                    self.lock(index)
                    self.spared.append(index)
                self.event += 1
            self.fetch([v for v in self.order if v in self.values and self.values[v].held])
        except Ended as end:
            self.ended = end.why
        return self

    # --- events ---

    def appear(self, v: int) -> None:
        self.values[v] = Value(v, self.size[v], -1, held=True)
        self.order.append(v)
        self.place(v, "constant")

    def let_go(self, v: int) -> None:
        self.spare_no_more([v])
        self.values[v].held = False
        self.tidy(v)

    def pin(self, v: int) -> None:
        self.fetch([v])
        self.values[v].call = -1
        for group in self.sets:
            group.discard(v)
        self.release_locks([v])

    def spare_no_more(self, values: Sequence[int]) -> None:
        for v in [v for v in values if v in self.spared]:
            self.spared.remove(v)
            self.release_locks([v])

    def first_run(self, k: int) -> None:
        old = self.takes[k]
        self.fetch(self.reads[k])
        made_again = old < 0 or self.values[old].call >= 0
        if not made_again:
            for v in self.dependents(old):
                self.pin(v)
        self.judge(k)
        for v in self.writes[k]:
            self.values[v] = Value(v, self.size[v], k, held=True)
            self.order.append(v)
        self.execute(k, "run")
        for v in self.writes[k]:
            self.values[v].accessed = self.clock
            if not made_again:
                self.values[v].call = -1
        self.release_locks(self.reads[k])
        if old >= 0:
            self.let_go(old)

    # --- calls ---

    def fetch(self, wanted: Sequence[int]) -> None:
        """Lock values, and make again those that are evicted."""
        for v in wanted:
            self.lock(v)
        for v in wanted:
            if not self.values[v].there:
                self.rerun(self.values[v].call)

    def lock(self, v: int) -> None:
        """Somebody asks for the value: that is its access."""
        self.spare_no_more([v])
        self.values[v].locks += 1
        self.values[v].accessed = self.clock

    def rerun(self, k: int) -> None:
        locked: list[int] = []
        while missing := [v for v in self.reads[k] if not self.values[v].there]:
            self.lock(missing[0])
            locked.append(missing[0])
            self.rerun(self.values[missing[0]].call)
        for v in self.reads[k]:
            if v not in locked:
                self.lock(v)
                locked.append(v)
        self.execute(k, "rerun")
        self.recomputed += self.cost[k]
        self.recomputed_calls += 1
        if self.recomputed > self.limit * sum(self.cost):
            raise Ended("thrashing")
        self.release_locks(locked)

    def execute(self, k: int, how: str) -> None:
        """Place what a call writes and has not in memory, which nothing evicts meanwhile; then its time passes."""
        old = self.takes[k]
        taking = None
        placed = []
        for position, v in enumerate(self.writes[k]):
            if v not in self.values or self.values[v].call != k or self.values[v].there:
                continue
            is_next = position == 0 and old >= 0
            if (
                is_next
                and (self.rules.in_place or self.values[old].call < 0)
                and self.values[old].there
                and self.values[old].locks == 1
            ):
                taking = v
                continue
            placed.append(v)
            self.values[v].locks += 1
            self.place(v, "expensive" if self.expensive[k] else "cheap")
        for v in placed:
            self.values[v].locks -= 1
            self.join_memory(v)
        if taking is not None:
            self.take_over(old, taking)
        self.history.append((how, k, -1))
        self.clock += self.cost[k]

    def release_locks(self, values: Sequence[int]) -> None:
        for v in values:
            self.values[v].locks -= 1
            self.tidy(v)

    def judge(self, k: int) -> None:
        """Whether a call is expensive for a byte, compared with all calls so far."""
        size = sum(self.size[v] for v in self.writes[k])
        self.expensive[k] = False
        if size:
            self.asked.append((self.cost[k], size))
            mean = float(sum(c for c, _ in self.asked)) / float(sum(s for _, s in self.asked))
            self.expensive[k] = self.cost[k] / size >= mean

    # --- who is needed ---

    def needed(self) -> set[int]:
        """Values that are held or locked, and what the calls read that make needed ones."""
        found = {v for v, value in self.values.items() if value.held or value.locks}
        waiting = list(found)
        while waiting:
            call = self.values[waiting.pop()].call
            for v in self.reads[call] if call >= 0 else ():
                if v not in found:
                    found.add(v)
                    waiting.append(v)
        return found

    def forget(self) -> None:
        """Drop all values that nobody needs."""
        needed = self.needed()
        for v in [v for v in self.values if v not in needed]:
            if self.values[v].there:
                self.history.append(("release", v, -1))
            for group in self.sets:
                group.discard(v)
            del self.values[v]

    def tidy(self, v: int) -> None:
        """After a lock is gone or the program let a value go: it is forgotten, or leaves memory, or neither."""
        self.forget()
        value = self.values.get(v)
        if value and value.there and value.call >= 0 and not (value.held or value.locks or value.again):
            self.history.append(("release", v, -1))
            self.leave(v)

    def dependents(self, v: int) -> list[int]:
        """Held values that are made from this one, in one step or in several."""
        found = {v}
        grown = True
        while grown:
            more = {
                w
                for w, value in self.values.items()
                if value.call >= 0 and not found.isdisjoint(self.reads[value.call])
            }
            grown = not more <= found
            found |= more
        return [w for w in self.order if w in found and w != v and self.values[w].held]

    # --- evicted values ---

    def leave(self, v: int) -> None:
        """The value is not in memory from now on."""
        value = self.values[v]
        value.there, value.address = False, -1
        near = [group for group in self.sets if not group.isdisjoint(self.neighbours(v))]
        self.sets = [group for group in self.sets if group not in near] + [{v}.union(*near)]

    def neighbours(self, v: int) -> set[int]:
        """Evicted values that the value's call reads, or that are made from the value."""
        call = self.values[v].call
        made = {w for w, value in self.values.items() if value.call >= 0 and v in self.reads[value.call]}
        return set().union(*self.sets) & made.union(self.reads[call] if call >= 0 else ())

    def projected_cost(self, v: int) -> int:
        near = self.neighbours(v)
        groups = [group for group in self.sets if not group.isdisjoint(near)]
        return self.cost[self.values[v].call] + sum(self.cost[self.values[w].call] for group in groups for w in group)

    def heuristic(self, v: int) -> float:
        cost, stale = float(self.projected_cost(v)), float(max(1, self.clock - self.values[v].accessed))
        if self.rules.heuristic == "coop":
            return cost / stale
        size = self.padded(v)
        if self.rules.heuristic == "dte":
            blocks = self.blocks()
            at = next(i for i, block in enumerate(blocks) if block[2] == v)
            size += sum(b[1] for i, b in enumerate(blocks) if b[2] is None and abs(i - at) == 1)
        return cost / (size * stale)

    # --- memory ---

    def padded(self, v: int) -> int:
        return -(-self.size[v] // self.alignment) * self.alignment

    def blocks(self, *, small: bool = False) -> list[tuple[int, int, int | None]]:
        """Address, bytes and value (None: free) of the blocks of a pool, without two free neighbours."""
        begin, end = (0, self.begin) if small else (self.begin, self.budget)
        there = sorted(
            (value.address, self.padded(v), v)
            for v, value in self.values.items()
            if value.there and value.size and begin <= value.address < end
        )
        found: list[tuple[int, int, int | None]] = []
        for address, size, v in there:
            if address > begin:
                found.append((begin, address - begin, None))
            found.append((address, size, v))
            begin = address + size
        if end > begin:
            found.append((begin, end - begin, None))
        return found

    def take_over(self, old: int, new: int) -> None:
        address = self.values[old].address
        self.arrive(new, address)
        self.join_memory(new)
        self.leave(old)
        self.history.append(("take over", new, address))

    def join_memory(self, v: int) -> None:
        """The value is no evicted one any more."""
        for group in self.sets:
            group.discard(v)

    def arrive(self, v: int, address: int) -> None:
        value = self.values[v]
        value.there, value.address, value.again = True, address, not value.held

    def place(self, v: int, kind: str) -> None:
        size = self.padded(v)
        if not size:
            self.arrive(v, 0)
            return
        address = self.find(size, kind)
        if address is None:
            free = sum(b[1] for b in self.blocks() if b[2] is None)
            self.fragments.append(free / self.budget if self.budget else 0.0)
            while address is None:
                for victim in self.victims(size):
                    self.history.append(("evict", victim, -1))
                    self.leave(victim)
                    self.evictions += 1
                    self.evicted_bytes += self.size[victim]
                address = self.find(size, kind)
        self.requests += 1
        self.arrive(v, address)
        self.history.append(("place", v, address))
        used = sum(b[1] for small in (False, True) for b in self.blocks(small=small) if b[2] is not None)
        self.peak = max(self.peak, used)

    def find(self, size: int, kind: str) -> int | None:
        """The address for a request, if there is room."""
        if self.begin and size <= self.budget // 65536:
            for address, there, v in self.blocks(small=True):
                if v is None and there >= size:
                    return address
        free = [(address, there) for address, there, v in self.blocks() if v is None and there >= size]
        if not free:
            return None
        left, right = free[0], free[-1]
        from_right = right[0] + right[1] - size
        if kind == "constant" and self.rules.constants_at_ends:
            return left[0] if left[0] - self.begin <= self.budget - from_right - size else from_right
        best = min(free, key=lambda block: (block[1], block[0]))
        if self.rules.partition and kind == "cheap":
            return best[0] + best[1] - size if self.rules.best_fit else from_right
        return best[0] if self.rules.best_fit else left[0]

    def victims(self, size: int) -> list[int]:
        blocks = self.blocks()
        heuristics = {
            v: self.heuristic(v)
            for _, _, v in blocks
            if v is not None and self.values[v].call >= 0 and not self.values[v].locks
        }
        self.searches += 1
        self.evaluations += len(heuristics)
        if self.rules.search != "one_by_one":
            layout = [(b, 0.0 if v is None else heuristics.get(v), v is None) for _, b, v in blocks]
            window = best_window(layout, size, per_byte=self.rules.search == "window_per_byte")
            found = [v for _, _, v in blocks[window[0] : window[1] + 1] if v is not None] if window else []
        else:
            found = [min(heuristics, key=lambda v: (heuristics[v], self.values[v].address))] if heuristics else []
        if not found and not self.spared:
            raise Ended("out of memory")
        if not found:
            self.spare_no_more(sorted(self.spared, key=self.order.index))
        return found
