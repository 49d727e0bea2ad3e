"""Memory under a budget, in Python; kernels/remat/{memory,rules}.h say what the rules are."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from time import perf_counter_ns
from typing import TYPE_CHECKING

from edgemem.native.pure_remat_pool import Block, Pool, cheapest_window
from edgemem.native.pure_remat_values import Values

if TYPE_CHECKING:
    from edgemem.native.pure_remat_values import Call, Value

__all__ = ["Counts", "Kind", "Memory", "Rules"]


class Kind(IntEnum):
    """What is asked for, where that decides its place."""

    CHEAP = 0
    EXPENSIVE = 1
    CONSTANT = 2


@dataclass(frozen=True, slots=True)
class Rules:
    """What a policy decides, each part alone."""

    heuristic: int  # 0 DTR, 1 DTE, 2 Coop
    search: int  # 0 one by one, 1 the window of the least sum, 2 of the least sum a byte
    best_fit: bool
    partition: bool
    in_place: bool
    constants_at_ends: bool
    small_apart: bool


@dataclass(slots=True)
class Counts:
    """What is counted; as `MemoryCounts` of the kernel."""

    requests: int = 0
    shortages: int = 0
    searches: int = 0
    evaluations: int = 0
    search_ns: int = 0
    evictions: int = 0
    evicted_bytes: int = 0
    peak: int = 0
    fragmentation_sum: float = 0.0


class Memory:
    """A pool of `size` bytes under rules; sizes are rounded up to the alignment."""

    def __init__(self, size: int, alignment: int, rules: Rules) -> None:
        self.rules = rules
        self.alignment = alignment
        self.size = size // alignment * alignment
        has_small = rules.small_apart and self.size // 65536 >= alignment
        apart = self.size // 256 // alignment * alignment if has_small else 0
        self.small = Pool(0, apart)
        self.pool = Pool(apart, self.size - apart)
        self.most_small = self.size // 65536
        self.values = Values()
        self.counts = Counts()
        self.released: list[Value] = []  # since the caller emptied it; not what was evicted
        self.is_short = False
        self.cost_asked = self.bytes_asked = 0.0

    def take(self, size: int, kind: Kind) -> int | None:
        """The address of a new block of so many bytes, or None if no free block is large enough."""
        size = self.padded(size)
        pool, at_left = self.pool, True
        if size <= self.most_small and (fitting := self.small.fitting(size)):
            pool, free = self.small, fitting[0]
        elif fitting := self.pool.fitting(size):
            free, at_left = self._free_block(fitting, kind)
        else:
            if not self.is_short:
                self.counts.shortages += 1
                self.counts.fragmentation_sum += (self.pool.size - self.pool.used) / self.size if self.size else 0.0
            self.is_short = True
            return None
        self.is_short = False
        address = pool.take(free, size, at_left=at_left)
        self.counts.requests += 1
        self.counts.peak = max(self.counts.peak, self.pool.used + self.small.used)
        return address

    def _free_block(self, fitting: list[Block], kind: Kind) -> tuple[Block, bool]:
        """The free block for a request, and whether the request gets the left end of it."""
        low, high = fitting[0], fitting[-1]
        if kind is Kind.CONSTANT and self.rules.constants_at_ends:
            at_left = low.address - self.pool.first <= self.size - (high.address + high.size)
            return (low if at_left else high), at_left
        at_left = not self.rules.partition or kind is not Kind.CHEAP
        if self.rules.best_fit:
            return min(fitting, key=lambda block: (block.size, block.address)), at_left
        return (low if at_left else high), at_left

    def _pool_at(self, address: int) -> Pool:
        return self.small if self.small.holds(address) else self.pool

    def bind(self, value: Value, address: int) -> None:
        """The value lies in the block at this address; at 0 if it has no bytes."""
        if value.size:
            self._set_owner(address, value)
        self.values.set_resident(value, address if value.size else 0)

    def victims(self, size: int) -> list[Value]:
        """What to evict next for a request that does not fit, by address; [] if there is no way."""
        begin = perf_counter_ns()
        found = self._cheapest_run(self.padded(size)) if self.rules.search else self._least()
        self.counts.search_ns += perf_counter_ns() - begin
        return found

    def evict(self, value: Value) -> None:
        """Evict a value that `victims` named."""
        self.counts.evictions += 1
        self.counts.evicted_bytes += value.size
        self._leave(value)

    def can_take_over(self, old: Value, new: Value) -> bool:
        """Whether the new version may get the block of the old one, which only the call has locked."""
        may_write = self.rules.in_place or old.call is None
        return may_write and old.locks == 1 and old.is_resident and old.size == new.size

    def take_over(self, old: Value, new: Value) -> None:
        """The new version gets the block of the old one."""
        assert new.call is not None
        address = old.address
        if old.size:
            self._set_owner(address, new)
        if old.call is None:
            new.call.runs_once = True
        self.values.set_resident(new, address)  # first, so that the old version does not join the set that it leaves
        self.values.set_evicted(old)

    def ran(self, call: Call) -> None:
        """The call has run; what it wrote is pinned if it cannot run again."""
        self.values.ran(call)
        for value in list(call.writes) if call.runs_once else ():
            self.pin(value)

    def pin(self, value: Value) -> None:
        """It is never evicted from now."""
        self.values.pin(value)
        self._after_release(value)

    def lock(self, value: Value) -> None:
        """A call reads it: it is not evicted, and counts as accessed."""
        value.locks += 1
        value.last_access = self.values.clock

    def unlock(self, value: Value) -> None:
        """One lock less."""
        value.locks -= 1
        self._after_release(value)

    def let_go(self, value: Value) -> None:
        """The program does not hold it any more."""
        value.is_held = False
        self._after_release(value)

    def is_expensive(self, cost: int, size: int) -> bool:
        """Whether the cost density is at least that of all calls up to this one."""
        if not size:
            return False
        self.cost_asked += cost
        self.bytes_asked += size
        return cost / size >= self.cost_asked / self.bytes_asked

    def padded(self, size: int) -> int:
        """Bytes of the block for a request."""
        return -(-size // self.alignment) * self.alignment

    def _after_release(self, value: Value) -> None:
        self.values.forget_unneeded(value)
        for gone in self.values.forgotten:
            if gone.is_resident:
                self._release(gone)
        self.values.forgotten.clear()
        if value.is_idle and not value.is_forgotten:
            self._release(value)

    def _release(self, value: Value) -> None:
        self.released.append(value)
        self._leave(value)

    def _leave(self, value: Value) -> None:
        if value.size:
            self._pool_at(value.address).give(value.address)
        self.values.set_evicted(value)

    def _set_owner(self, address: int, value: Value) -> None:
        pool = self._pool_at(address)
        pool.blocks[pool.index(address)].owner = value

    def _least(self) -> list[Value]:
        """The value of the least heuristic, of equals the one with the lowest address."""
        found: tuple[float, int] | None = None
        for at, block in enumerate(self.pool.blocks):
            if block.owner is not None and block.owner.is_evictable:
                heuristic = self._heuristic(at, block.owner)
                if found is None or heuristic < found[0]:
                    found = (heuristic, at)
        self.counts.searches += 1
        owner = None if found is None else self.pool.blocks[found[1]].owner
        return [] if owner is None else [owner]

    def _cheapest_run(self, size: int) -> list[Value]:
        self.counts.searches += 1
        layout = [
            (block.size, 0.0, True)
            if block.is_free
            else (block.size, self._heuristic(at, block.owner), False)
            if block.owner is not None and block.owner.is_evictable
            else (block.size, -1.0, False)
            for at, block in enumerate(self.pool.blocks)
        ]
        window = cheapest_window(layout, size, per_byte=self.rules.search == 2)
        if window is None:
            return []
        return [block.owner for block in self.pool.blocks[window[0] : window[1] + 1] if block.owner is not None]

    def _heuristic(self, at: int, value: Value) -> float:
        self.counts.evaluations += 1
        cost, stale = float(self.values.projected_cost(value)), float(self.values.staleness(value))
        if self.rules.heuristic == 2:
            return cost / stale
        size = self.pool.blocks[at].size + (self.pool.free_beside(at) if self.rules.heuristic == 1 else 0)
        return cost / (float(size) * stale)
