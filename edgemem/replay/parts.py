"""Arenas that several smaller runs, or one of the largest, use at a time."""

from __future__ import annotations

import itertools
import weakref
from typing import TYPE_CHECKING, Final

from edgemem.replay.turns import Queue, Waiter

if TYPE_CHECKING:
    from collections.abc import Callable

    from edgemem.replay.arena import ArenaMemory

__all__ = ["UNITS", "ArenaPart", "ArenaParts", "unit_of", "units_of"]

UNITS: Final = 16  # of an arena; a run has 1, 2, 4, 8 or all of them, side by side
_ALIGNMENT: Final = 64


def unit_of(size: int) -> int:
    """Bytes of a unit of an arena of at least `size` bytes."""
    return -(-size // (UNITS * _ALIGNMENT)) * _ALIGNMENT


def units_of(needed: int, size: int) -> int:
    """How many units of an arena of `size` bytes have `needed` bytes."""
    units = -(-needed // unit_of(size))
    return min(1 << max(units - 1, 0).bit_length(), UNITS)


def _blocks(units: int) -> list[int]:
    """The parts of so many units that an arena may be cut into, a bit for each unit."""
    return [(1 << units) - 1 << begin for begin in range(0, UNITS, units)]


def _missing(units: int) -> int:
    """What an arena of so many units lacks, a bit for each."""
    return _ALL >> units << units


_ALL: Final = (1 << UNITS) - 1
_BLOCKS: Final = {units: _blocks(units) for units in (1, 2, 4, 8, UNITS)}


class _SlicedArena:
    """An arena in units, and the memory of its parts, which is kept for the next run of the same size."""

    __slots__ = ("bits", "kept", "missing", "parts", "taken", "unit", "whole")

    def __init__(self, whole: ArenaMemory, units: int) -> None:
        self.whole = whole
        self.unit = whole.size // units
        self.missing = _missing(units)
        self.parts: dict[int, ArenaMemory] = {}  # by the bits of their units
        self.taken: weakref.WeakSet[ArenaPart] = weakref.WeakSet()
        # Of units that are taken or missing; at times those of parts, too, that an exception took away.
        self.bits = self.missing
        self.kept = 0  # of units that the run that looks must leave to others

    def free(self, units: int) -> int | None:
        """A free part of so many units, as bits, without those that are kept for others."""
        found = self._free(units)
        if found is None:
            self.bits = self.missing | sum(part.order for part in self.taken)
            found = self._free(units)
        return found

    def _free(self, units: int) -> int | None:
        used = self.bits | self.kept
        for block in _BLOCKS[units]:
            if not block & used:
                return block
        return None

    def give_to(self, part: ArenaPart, block: int) -> None:
        """Let it have a part that is free. Raises MemoryError if a block of an earlier run lies in it."""
        found = self.parts.get(block)
        if found is not None and found.left:
            raise MemoryError
        if found is None:
            for other in [other for other in self.parts if other & block]:
                self.parts.pop(other).close()
            begin = (block & -block).bit_length() - 1
            found = self.whole.part(begin * self.unit, block.bit_count() * self.unit)
            self.parts[block] = found
        part.arena, part.order, part.memory = self, block, found
        self.bits |= block
        self.taken.add(part)  # last: now it has what it waits for

    def take_back(self, part: ArenaPart) -> None:
        """It is free again."""
        self.taken.discard(part)
        self.bits &= ~part.order

    def close_if_free(self) -> None:
        """Release the memory, although frames of a failed run may still refer to it; not while something runs in it."""
        if not self.taken:
            parts, self.parts = self.parts, {}  # first: nobody gets a part that is closed, wherever this ends
            for part in parts.values():
                part.close()
            self.whole.close()


class ArenaPart(Waiter):
    """What a run has of an arena: `size` units.

    `order` has a bit for each of them, so that parts near the beginning of an arena are taken first. `need` is the
    run's bytes and the limits that it found (`ArenaParts.take`): with other limits, arenas may be of another size.
    """

    __slots__ = ("arena", "memory", "need")

    def __init__(self) -> None:
        super().__init__()
        self.need = (0, 0, 0)
        self.arena: _SlicedArena | None = None
        self.memory: ArenaMemory | None = None


class ArenaParts:
    """Arenas of one size, and a smaller one of what is left; a run that finds no part of one free waits.

    An arena of an earlier size goes with its last run.

    Args:
        make: an arena for parts, by its size in bytes.
    """

    def __init__(self, make: Callable[[int], ArenaMemory]) -> None:
        self._make = make
        self._is_closed = False
        self.start_again()

    def start_again(self) -> None:
        """Begin without arenas; those in which something runs go with their last run."""
        self.queue: Queue[ArenaPart] = Queue()
        self._arenas: list[_SlicedArena] = []

    def take(self, needed: int, limits: Callable[[], tuple[int, int]]) -> ArenaPart:
        """A part of `needed` bytes, until `give`. Raises as `make` if there is no memory for an arena.

        Those that it must leave room for (`Queue.first`) have parts kept for them, in which the fewest units are taken.
        It gets none of these, so that the runs there come to an end.

        Args:
            needed: bytes.
            limits: the bytes that an arena has now, and how many units all arenas may have together.
        """

        def takes(part: ArenaPart) -> bool:
            if part.arena is not None and part in part.arena.taken:
                return True
            size, most = limits()
            size = max(size, needed)  # the plan of a run that waits may have become smaller
            part.size = units_of(needed, size)
            unit = unit_of(size)
            self._free_spares()
            for arena in self._arenas[:]:
                if arena.unit != unit or arena.missing not in (0, _missing(most % UNITS)):
                    self._drop_if_free(arena)
            return self._found(part, unit, most)

        need = (needed, *limits())
        found = self.queue.take_spare(need) or self.queue.enter(ArenaPart(), takes)
        found.need = need
        return found

    def _found(self, part: ArenaPart, unit: int, most: int) -> bool:
        arenas = [arena for arena in self._arenas if arena.unit == unit]
        for arena in arenas:
            arena.kept = 0
        free = most - sum(-(-arena.whole.size // unit) for arena in self._arenas)
        if self.queue.waiting:
            free = self._keep(part, arenas, free)
        if len(arenas) > 1:  # the fullest first, so that another one stays whole for a run of the largest
            arenas.sort(key=lambda arena: -arena.bits.bit_count())
        for arena in arenas:
            block = arena.free(part.size)
            if block is None:
                continue
            try:
                arena.give_to(part, block)
            except MemoryError:  # a block that outlived its run; the arena goes with its last run
                self._arenas.remove(arena)
                arena.close_if_free()
                return self._found(part, unit, most)
            return True
        units = UNITS if free >= UNITS else min(free, most % UNITS)
        if units < part.size or (units < UNITS and any(arena.missing for arena in arenas)):
            return False
        made = _SlicedArena(self._make(units * unit), units)
        self._arenas.append(made)
        made.give_to(part, _BLOCKS[part.size][0])
        return True

    def _keep(self, part: ArenaPart, arenas: list[_SlicedArena], free: int) -> int:
        """Keep parts of the arenas for those before it; how many of `free` units that no arena has are left to it."""
        for other in itertools.chain(*self.queue.first(part)):
            if other.size <= free:
                free -= min(free, UNITS)
                continue
            blocks = [
                ((arena.bits & block).bit_count(), k, block)
                for k, arena in enumerate(arenas)
                for block in _BLOCKS[other.size]
                if not (arena.kept | arena.missing) & block
            ]
            for arena in arenas if not blocks else ():
                arena.kept = _ALL
            if blocks:
                _, k, block = min(blocks)
                arenas[k].kept |= block
        return free

    def _drop_if_free(self, arena: _SlicedArena) -> None:
        if not arena.taken:
            self._arenas.remove(arena)
            arena.close_if_free()

    def give(self, part: ArenaPart) -> None:
        """Let other runs have it."""
        memory = part.memory
        is_whole = memory is not None and not memory.left and part.arena in self._arenas
        is_spare = is_whole and self.queue.spare(part.need, part)
        if is_spare and not self.queue.waiting and not self._is_closed:
            return
        with self.queue.lock:
            self._free_spares()
            if not is_spare:
                self._free(part)
        self.queue.serve()

    def _free(self, part: ArenaPart) -> None:
        arena = part.arena
        if arena is not None:
            arena.take_back(part)
            if arena not in self._arenas:
                arena.close_if_free()
            elif self._is_closed:
                self._drop_if_free(arena)

    def _free_spares(self) -> None:
        """Parts for the next runs are free for any now."""
        for part in self.queue.take_spares():
            self._free(part)

    def drop_idle(self) -> None:
        """Release the arenas in which nothing runs now."""
        with self.queue.lock:
            self._free_spares()
            for arena in list(self._arenas):
                self._drop_if_free(arena)

    def close(self) -> None:
        """Release the arenas; those in which something runs follow."""
        self._is_closed = True
        self.drop_idle()

    def bytes(self) -> int:
        """Of all arenas."""
        with self.queue.lock:
            return sum(arena.whole.size for arena in self._arenas)
