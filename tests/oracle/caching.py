"""PyTorch's caching allocator, as its source file describes it: lists of blocks, searched from end to end.

Written from the text of c10/cuda/CUDACachingAllocator.cpp (PyTorch 2.7 to 2.13), shares no code with edgemem.
"""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["CachingOracle", "OutOfMemory"]

KIB, MIB = 1 << 10, 1 << 20


class OutOfMemory(Exception):  # noqa: N818
    pass


@dataclass(eq=False)
class Block:
    address: int
    size: int
    state: str = "free"  # "free", "used" or "unmapped"
    requested: int = 0


@dataclass(eq=False)
class Segment:
    address: int
    stream: int
    pool: str  # "small" or "large"
    expandable: bool
    blocks: list[Block] = field(default_factory=list)


class CachingOracle:
    def __init__(
        self,
        *,
        large: int = 20 * MIB,
        max_split_size: int | None = None,
        max_non_split_rounding: int = 20 * MIB,
        divisions: tuple[int, ...] = (),
        expandable: bool = False,
    ) -> None:
        self.large = large
        self.max_split_size = max_split_size
        self.max_non_split_rounding = max_non_split_rounding
        self.divisions = divisions
        self.expandable = expandable
        self.segments: list[Segment] = []
        self.next_address = 2 * MIB
        self.reserved_peak = 0
        self.times_taken = 0

    # --- what it holds ---

    @property
    def reserved(self) -> int:
        return sum(b.size for s in self.segments for b in s.blocks if b.state != "unmapped")

    @property
    def allocated(self) -> int:
        return sum(b.size for s in self.segments for b in s.blocks if b.state == "used")

    @property
    def requested(self) -> int:
        return sum(b.requested for s in self.segments for b in s.blocks)

    def rows(self) -> list[tuple[int, int, int, int]]:
        states = {"free": 0, "used": 1, "unmapped": 2}
        return [
            (s.address, b.size, b.requested, states[b.state])
            for s in sorted(self.segments, key=lambda s: s.address)
            for b in s.blocks
        ]

    # --- the two requests ---

    def malloc(self, bytes_asked: int, stream: int) -> int:
        size = self.round(bytes_asked)
        pool = "small" if size <= MIB else "large"
        found = self.cached(pool, size, stream)
        if found is None:
            found = self.new(pool, size, stream)
        if found is None:
            raise OutOfMemory
        segment, block = found
        rest = block.size - size
        if pool == "small" or self.expandable:
            split = rest >= 512
        else:
            split = (self.max_split_size is None or size < self.max_split_size) and rest > MIB
        if split:
            place = segment.blocks.index(block)
            segment.blocks.insert(place + 1, Block(block.address + size, rest))
            block.size = size
        block.state, block.requested = "used", bytes_asked
        return block.address

    def free(self, address: int) -> None:
        for segment in self.segments:
            for block in segment.blocks:
                if block.address == address and block.state == "used":
                    block.state, block.requested = "free", 0
                    self.merge(segment, block)
                    return
        raise AssertionError

    # --- rules ---

    def round(self, size: int) -> int:
        if size < 512:
            return 512
        power = 1
        while power * 2 <= size:
            power *= 2
        interval = 0
        while interval < 15 and power > MIB << interval:
            interval += 1
        divisions = self.divisions[interval] if self.divisions else 0
        if divisions > 1 and size > 512 * divisions:
            candidates = [power + power * k // divisions for k in range(divisions + 1)]
            return min(c for c in candidates if c >= size)
        return -(-size // 512) * 512

    def cached(self, pool: str, size: int, stream: int) -> tuple[Segment, Block] | None:
        free = sorted(
            (
                (b.size, b.address, s, b)
                for s in self.segments
                if s.pool == pool and s.stream == stream
                for b in s.blocks
                if b.state == "free" and b.size >= size
            ),
            key=lambda row: row[:2],
        )
        if not free:
            return None
        chosen = 0
        if self.expandable:
            while chosen + 1 < len(free) and self.room(*free[chosen + 1][2:]) < self.room(*free[chosen][2:]):
                chosen += 1
        block = free[chosen][3]
        if self.max_split_size is not None:
            if size < self.max_split_size <= block.size:
                return None
            if size >= self.max_split_size and block.size >= size + self.max_non_split_rounding:
                return None
        return free[chosen][2], block

    @staticmethod
    def room(segment: Segment, block: Block) -> int:
        after = segment.blocks[segment.blocks.index(block) + 1 :][:1]
        return block.size + sum(b.size for b in after if b.state == "unmapped")

    def note_taken(self) -> None:
        self.times_taken += 1
        self.reserved_peak = max(self.reserved_peak, self.reserved)

    def new(self, pool: str, size: int, stream: int) -> tuple[Segment, Block] | None:
        if self.expandable:
            return self.expand(pool, size, stream)
        if size <= MIB:
            total = 2 * MIB
        elif size < 10 * MIB:
            total = self.large
        else:
            total = -(-size // (2 * MIB)) * 2 * MIB
        block = Block(self.next_address, total)
        segment = Segment(self.next_address, stream, pool, expandable=False, blocks=[block])
        self.next_address += total
        self.segments.append(segment)
        self.note_taken()
        return segment, block

    def expand(self, pool: str, size: int, stream: int) -> tuple[Segment, Block] | None:
        page = 2 * MIB if pool == "small" else self.large
        place = self.lowest_run(pool, size, stream)
        if place is None:
            addresses = (1 << 40) + (1 << 37)
            addresses = -(-addresses // page) * page
            if addresses < size:
                return None
            new = Segment(self.next_address, stream, pool, expandable=True)
            new.blocks = [Block(self.next_address, addresses, "unmapped")]
            self.next_address += addresses
            self.segments.append(new)
            place = new, new.blocks[0]
        segment, block = place
        while block.state == "unmapped" or block.size < size:
            # Memory is put under the unmapped block: the first one itself, or the one behind what is free.
            if block.state == "unmapped":
                unmapped, needed = block, min(block.size, size)
            else:
                unmapped = segment.blocks[segment.blocks.index(block) + 1]
                needed = min(unmapped.size, size - block.size)
            mapped = -(-needed // page) * page
            if mapped < unmapped.size:
                index = segment.blocks.index(unmapped)
                rest = Block(unmapped.address + mapped, unmapped.size - mapped, "unmapped")
                segment.blocks.insert(index + 1, rest)
                unmapped.size = mapped
            unmapped.state = "free"
            block = self.merge(segment, unmapped)
            self.note_taken()
        return segment, block

    def lowest_run(self, pool: str, size: int, stream: int) -> tuple[Segment, Block] | None:
        for segment in sorted(self.segments, key=lambda s: s.address):
            if segment.pool != pool or segment.stream != stream or not segment.expandable:
                continue
            for index, block in enumerate(segment.blocks):
                if block.state != "unmapped":
                    continue
                first = index - 1 if index and segment.blocks[index - 1].state != "used" else index
                bytes_there = 0
                for other in segment.blocks[first:]:
                    if other.state == "used":
                        break
                    bytes_there += other.size
                if bytes_there >= size:
                    return segment, segment.blocks[first]
        return None

    def merge(self, segment: Segment, block: Block) -> Block:
        """With free (or unmapped) neighbours; the whole block."""
        index = segment.blocks.index(block)
        low, high = index, index + 1
        if low and segment.blocks[low - 1].state == block.state:
            low -= 1
        if high < len(segment.blocks) and segment.blocks[high].state == block.state:
            high += 1
        parts = segment.blocks[low:high]
        whole = Block(parts[0].address, sum(p.size for p in parts), block.state)
        segment.blocks[low:high] = [whole]
        return whole
