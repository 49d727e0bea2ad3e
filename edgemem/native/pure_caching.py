"""The caching allocator's rules in Python; kernels/caching says what they are."""

from __future__ import annotations

from bisect import bisect_left, insort
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    Column = NDArray[np.int64]

__all__ = ["simulate_caching"]

_MIB: Final = 1 << 20
_SMALL, _LARGE = 0, 1
_FREE, _USED, _UNMAPPED = range(3)
_NO_LIMIT: Final = np.iinfo(np.int64).max
_MOST_ADDRESSES: Final = 1 << 40
_MOST_REQUESTED: Final = 1 << 56
_END: Final = 1 << 62  # of all addresses
_ADDRESS = attrgetter("address")


def simulate_caching(
    size: Column,
    request: Column,
    stream: Column,
    large_segment_size: int,
    max_split_size: int,
    max_non_split_rounding: int,
    roundup_power2_divisions: Column,
    garbage_collection_threshold: float,
    expandable_segments: bool,
    memory_limit: int,
) -> tuple[Column, Column, Column, Column, Column]:
    """As the kernel: bytes after each event, counters, and rows of the blocks at the end."""
    if not len(size) == len(request) == len(stream):
        raise ValueError("the columns of the events differ in length")
    allocator = _Allocator(
        large_segment_size,
        max_split_size,
        max_non_split_rounding,
        tuple(roundup_power2_divisions.tolist()),
        garbage_collection_threshold,
        expandable_segments,
        memory_limit,
    )
    made: list[_Block] = []
    after: list[tuple[int, int, int]] = []
    failures = 0
    for wanted, number, lane in zip(size.tolist(), request.tolist(), stream.tolist(), strict=True):
        if wanted > 0:
            block = allocator.take(wanted, lane)
            if block is None:
                failures = 1
                break
            made.append(block)
        elif wanted < 0 or not 0 <= number < len(made) or made[number].state != _USED:
            raise ValueError("an event frees a request that is not alive, or asks for less than nothing")
        else:
            allocator.give(made[number])
            made[number] = _Block(0, 0, 0, 0, 0)
        after.append((allocator.requested, allocator.allocated, allocator.reserved))
    columns = np.array(after, np.int64).reshape(-1, 3).T
    counters = (allocator.peak, allocator.segments, allocator.times_taken, allocator.retries, failures)
    rows = [
        (b.segment, b.address, b.size, b.requested, b.stream, b.state) for b in sorted(allocator.all(), key=_ADDRESS)
    ]
    return (
        np.ascontiguousarray(columns[0]),
        np.ascontiguousarray(columns[1]),
        np.ascontiguousarray(columns[2]),
        np.array(counters, np.int64),
        np.array(rows, np.int64).reshape(-1),
    )


@dataclass(slots=True, eq=False)
class _Block:
    segment: int
    address: int
    size: int
    stream: int
    pool: int
    state: int = _FREE
    requested: int = 0
    before: _Block | None = None
    after: _Block | None = None
    is_expandable: bool = False
    listed_at: int = 0  # searches of the pool so far, when it became free

    def __lt__(self, other: _Block) -> bool:
        return (self.size, self.address) < (other.size, other.address)


class _Allocator:
    def __init__(
        self,
        large: int,
        most: int,
        rounding: int,
        divisions: tuple[int, ...],
        threshold: float,
        expandable: bool,
        limit: int,
    ) -> None:
        self.page = (2 * _MIB, large)  # of the pools; also the segments of small requests and of medium ones
        self.most, self.rounding, self.divisions = most, rounding, divisions
        self.threshold, self.expandable, self.limit = threshold, expandable, limit
        self.requested = self.allocated = self.reserved = self.peak = 0
        self.segments = self.times_taken = self.retries = 0
        self.first: dict[int, _Block] = {}  # of each segment
        self.free: dict[tuple[int, int], list[_Block]] = {}  # by pool and stream, in order of size and address
        self.unmapped: dict[tuple[int, int], list[_Block]] = {}  # by pool and stream, in order of address
        self.searches = [0, 0]
        self.top = 2 * _MIB

    def all(self) -> Iterator[_Block]:
        for head in self.first.values():
            block: _Block | None = head
            while block is not None:
                yield block
                block = block.after

    def take(self, wanted: int, stream: int) -> _Block | None:
        if wanted > _MOST_REQUESTED:
            return None
        size = self.rounded(wanted)
        pool = _SMALL if size <= _MIB else _LARGE
        block = self.find(pool, size, stream)
        if block is None:
            self.collect_garbage()
            block = self.grow(pool, size, stream)
        if block is None and self.release_oversize(pool, size, stream):
            block = self.grow(pool, size, stream)
        if block is None:
            self.release_cached()
            self.retries += 1
            block = self.grow(pool, size, stream)
        if block is None:
            return None
        rest = block.size - size
        is_whole = rest < 512 if pool == _SMALL or self.expandable else size >= self.most or rest <= _MIB
        self.unlist(block)
        if not is_whole:
            self.list(self.cut(block, size))
        block.state, block.requested = _USED, wanted
        self.allocated += block.size
        self.requested += wanted
        return block

    def give(self, block: _Block) -> None:
        self.allocated -= block.size
        self.requested -= block.requested
        block.state, block.requested = _FREE, 0
        self.merge_and_list(block)

    def rounded(self, size: int) -> int:
        if size < 512:
            return 512
        power = size.bit_length() - 1
        divisions = self.divisions[min(max(power - 20, 0), 15)] if self.divisions else 0
        step = (1 << power) // divisions if divisions > 1 and size > 512 * divisions else 512
        return -(-size // step) * step

    def find(self, pool: int, size: int, stream: int) -> _Block | None:
        if self.threshold and self.limit != _NO_LIMIT:
            self.searches[pool] += 1
        free = self.free.get((pool, stream), [])
        at = bisect_left(free, _Block(0, 0, size, stream, pool))
        if at == len(free):
            return None
        if self.expandable:
            while at + 1 < len(free) and _room(free[at + 1]) < _room(free[at]):
                at += 1
        found = free[at]
        if size < self.most <= found.size or (size >= self.most and found.size - size >= self.rounding):
            return None
        return found

    def grow(self, pool: int, size: int, stream: int) -> _Block | None:
        if self.expandable:
            return self.expand(pool, size, stream)
        own = -(-size // (2 * _MIB)) * 2 * _MIB
        total = own if size >= 10 * _MIB else self.page[pool]
        if total > self.limit - self.reserved or total > _END - self.top:
            return None
        block = self.new_segment(pool, total, stream)
        self.count_taken(total)
        self.list(block)
        return block

    def new_segment(self, pool: int, size: int, stream: int) -> _Block:
        block = _Block(self.top, self.top, size, stream, pool)
        self.first[block.segment] = block
        self.top += size
        self.segments += 1
        return block

    def count_taken(self, size: int) -> None:
        self.times_taken += 1
        self.reserved += size
        self.peak = max(self.peak, self.reserved)

    def expand(self, pool: int, size: int, stream: int) -> _Block | None:
        block = self.find_addresses(pool, size, stream)
        if block is None:
            limit = min(self.limit, _MOST_ADDRESSES)
            total = -(-(limit + limit // 8) // self.page[pool]) * self.page[pool]
            if total < size or total > _END - self.top:
                return None
            block = self.new_segment(pool, total, stream)
            block.state, block.is_expandable = _UNMAPPED, True
            self.list(block)
        if block.state == _UNMAPPED:
            block = self.map(block, min(block.size, size))
        while block is not None and block.size < size:
            behind = block.after
            assert behind is not None  # find_addresses has counted it
            block = self.map(behind, min(behind.size, size - block.size))
        return block

    def find_addresses(self, pool: int, size: int, stream: int) -> _Block | None:
        for block in self.unmapped.get((pool, stream), []):
            first = block.before if block.before is not None and block.before.state != _USED else block
            room, part = 0, first
            while True:
                room += part.size
                if room >= size:
                    return first
                if part.after is None or part.after.state == _USED:
                    break
                part = part.after
        return None

    def map(self, block: _Block, size: int) -> _Block | None:
        total = -(-size // self.page[block.pool]) * self.page[block.pool]
        if total > self.limit - self.reserved:
            return None
        self.unlist(block)
        if total < block.size:
            self.list(self.cut(block, total))
        block.state = _FREE
        self.count_taken(total)
        return self.merge_and_list(block)

    def unmap(self, block: _Block) -> None:
        page, offset = self.page[block.pool], block.address - block.segment
        begin = -(-offset // page) * page - offset
        total = (offset + block.size) // page * page - offset - begin
        if total <= 0:
            return
        self.unlist(block)
        pages = block
        if begin:
            pages = self.cut(block, begin)
            self.list(block)
        if total < pages.size:
            self.list(self.cut(pages, total))
        pages.state = _UNMAPPED
        self.reserved -= total
        self.merge_and_list(pages)

    def collect_garbage(self) -> None:
        if not self.threshold or self.limit == _NO_LIMIT:
            return
        target = self.reserved - int(self.threshold * self.limit)
        idle = [b for b in self.first.values() if b.pool == _LARGE and _is_idle(b)]
        now, released, has_released = self.searches[_LARGE], 0, True
        while idle and has_released and released < target:
            average = sum(now - b.listed_at for b in idle) / len(idle)
            old = [b for b in idle if now - b.listed_at >= average]
            idle = [b for b in idle if now - b.listed_at < average]
            has_released = bool(old)
            released += sum(b.size for b in old)
            for block in old:
                self.release(block)

    def release_oversize(self, pool: int, size: int, stream: int) -> bool:
        if self.most == _NO_LIMIT or self.expandable:
            return False
        wanted = max(size, self.most)
        free = self.free.get((pool, stream), [])
        at = bisect_left(free, _Block(0, 0, wanted, stream, pool))
        if at < len(free):
            self.release(free[at])
            return True
        released = 0
        while released < wanted and free and free[-1].size >= self.most:
            released += free[-1].size
            self.release(free[-1])
        return released >= wanted

    def release_cached(self) -> None:
        for free in self.free.values():
            for block in list(free):
                if block.is_expandable:
                    self.unmap(block)
                elif _is_idle(block):
                    self.release(block)

    def release(self, block: _Block) -> None:
        self.unlist(block)
        self.reserved -= block.size
        self.segments -= 1
        del self.first[block.segment]

    def list(self, block: _Block) -> None:
        block.listed_at = self.searches[block.pool]
        key = block.pool, block.stream
        if block.state == _FREE:
            insort(self.free.setdefault(key, []), block)
        else:
            insort(self.unmapped.setdefault(key, []), block, key=_ADDRESS)

    def unlist(self, block: _Block) -> None:
        key = block.pool, block.stream
        if block.state == _FREE:
            del self.free[key][bisect_left(self.free[key], block)]
        else:
            del self.unmapped[key][bisect_left(self.unmapped[key], block.address, key=_ADDRESS)]

    def cut(self, block: _Block, size: int) -> _Block:
        """The part after `size` bytes; both are in no list."""
        rest = _Block(block.segment, block.address + size, block.size - size, block.stream, block.pool, block.state)
        rest.is_expandable = block.is_expandable
        rest.before, rest.after = block, block.after
        if block.after is not None:
            block.after.before = rest
        block.after, block.size = rest, size
        return rest

    def merge_and_list(self, block: _Block) -> _Block:
        if block.before is not None and block.before.state == block.state:
            block = block.before
            self.unlist(block)
            _absorb_next(block)
        if block.after is not None and block.after.state == block.state:
            self.unlist(block.after)
            _absorb_next(block)
        self.list(block)
        return block


def _room(block: _Block) -> int:
    """Bytes of the block, with those that it can grow by."""
    return block.size + (block.after.size if block.after is not None and block.after.state == _UNMAPPED else 0)


def _is_idle(block: _Block) -> bool:
    """Whether it is a whole segment that is free."""
    return block.state == _FREE and block.before is None and block.after is None and not block.is_expandable


def _absorb_next(block: _Block) -> None:
    gone = block.after
    assert gone is not None
    block.size += gone.size
    block.after = gone.after
    if gone.after is not None:
        gone.after.before = block
