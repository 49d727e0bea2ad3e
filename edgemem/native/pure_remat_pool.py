"""A pool with addresses, and the cheapest window of its blocks, in Python; kernels/remat/{pool,window}.h."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from edgemem.native.pure_remat_values import Value

__all__ = ["Block", "Pool", "cheapest_window"]

_ADDRESS = attrgetter("address")
_PARTS: Final = 2.0**64  # of a heuristic, which is counted in whole ones
_PART: Final = (1 << 64) - 1
_MOST: Final = 2.0**40


@dataclass(slots=True, eq=False)
class Block:
    """Bytes of the pool, free or in use. `owner` is the value in it, None also between a take and its `bind`."""

    address: int
    size: int
    is_free: bool = True
    owner: Value | None = None


class Pool:
    """Blocks of the addresses [first, first + size), by address; free neighbours are one."""

    def __init__(self, first: int, size: int) -> None:
        self.first = first
        self.size = size
        self.used = 0
        self.blocks = [Block(first, size)] if size else []

    def fitting(self, size: int) -> list[Block]:
        """The free blocks of at least so many bytes, by address."""
        return [block for block in self.blocks if block.is_free and block.size >= size]

    def holds(self, address: int) -> bool:
        """Whether the address is one of this pool."""
        return self.first <= address < self.first + self.size

    def index(self, address: int) -> int:
        """The block that begins at an address."""
        return bisect_left(self.blocks, address, key=_ADDRESS)

    def take(self, free: Block, size: int, *, at_left: bool) -> int:
        """Use bytes at one end of a free block; their address."""
        at = self.index(free.address)
        address = free.address if at_left else free.address + free.size - size
        if free.size == size:
            free.is_free = False
        else:
            if at_left:
                free.address += size
            free.size -= size
            self.blocks.insert(at if at_left else at + 1, Block(address, size, is_free=False))
        self.used += size
        return address

    def give(self, address: int) -> None:
        """The block is free, and one with its free neighbours."""
        at = self.index(address)
        block = self.blocks[at]
        self.used -= block.size
        block.is_free, block.owner = True, None
        if at + 1 < len(self.blocks) and self.blocks[at + 1].is_free:
            block.size += self.blocks.pop(at + 1).size
        if at and self.blocks[at - 1].is_free:
            self.blocks[at - 1].size += self.blocks.pop(at).size

    def free_beside(self, at: int) -> int:
        """Free bytes on both sides of a block."""
        beside = [self.blocks[i] for i in (at - 1, at + 1) if 0 <= i < len(self.blocks)]
        return sum(block.size for block in beside if block.is_free)


def cheapest_window(
    blocks: Sequence[tuple[int, float, bool]], size: int, *, per_byte: bool = False
) -> tuple[int, int] | None:
    """The neighbouring blocks [first, last] of `size` bytes with the least sum of heuristics; None if there are none.

    A block is its bytes, its heuristic (below 0: it cannot be evicted), and whether it is free. `per_byte` divides the
    sum by the bytes of the blocks. Among equals the fewest bytes evicted, then the lowest end, then the fewest blocks.
    """
    best: tuple[float, int, int, int] | None = None  # what is least, bytes evicted, last, -first
    parts = [int((h if h < _MOST else _MOST) * _PARTS) for _, h, _ in blocks]  # noqa: FURB136 - NaN is the most
    first = total = taken = cost = 0
    for last, (here, heuristic, is_free) in enumerate(blocks):
        if heuristic < 0:
            first, total, taken, cost = last + 1, 0, 0, 0
            continue
        total, cost, taken = total + here, cost + parts[last], taken + (0 if is_free else here)
        while total - blocks[first][0] >= size:
            gone, _, was_free = blocks[first]
            total, cost, taken = total - gone, cost - parts[first], taken - (0 if was_free else gone)
            first += 1
        if total >= size:
            # A sum is an integer and exact; divided, both parts of it are rounded as the kernel rounds them.
            least = (float(cost >> 64) + float(cost & _PART) / _PARTS) / float(total) if per_byte else cost
            key = (least, taken, last, -first)
            best = key if best is None else min(best, key)
    return None if best is None else (-best[3], best[2])
