"""Arenas that several smaller runs, or one of the largest, use at a time."""

from __future__ import annotations

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
    return next((units for units in (1, 2, 4, 8) if needed <= units * unit_of(size)), UNITS)


class _SlicedArena:
    """An arena in units, and the memory of its parts, which is kept for the next run of the same size."""

    __slots__ = ("parts", "taken", "unit", "whole")

    def __init__(self, whole: ArenaMemory) -> None:
        self.whole = whole
        self.unit = whole.size // UNITS
        self.parts: dict[tuple[int, int], ArenaMemory] = {}
        self.taken: weakref.WeakSet[ArenaPart] = weakref.WeakSet()

    def free(self, units: int) -> int | None:
        """The first unit of a free part of so many."""
        taken = {k for part in self.taken for k in range(part.begin, part.begin + part.size)}
        return next((k for k in range(0, UNITS, units) if taken.isdisjoint(range(k, k + units))), None)

    def memory(self, begin: int, units: int) -> ArenaMemory:
        """Of a part that is free. Raises MemoryError if a block of an earlier run lies in it."""
        found = self.parts.get((begin, units))
        if found is not None and found.left:
            raise MemoryError
        if found is None:
            for key in [(k, n) for k, n in self.parts if k < begin + units and begin < k + n]:
                self.parts.pop(key).close()
            found = self.whole.part(begin * self.unit, units * self.unit)
            self.parts[begin, units] = found
        return found

    def close_if_free(self) -> None:
        """Release the memory, although frames of a failed run may still refer to it; not while something runs in it."""
        if not self.taken:
            for part in self.parts.values():
                part.close()
            self.parts.clear()
            self.whole.close()


class ArenaPart(Waiter):
    """What a run has of an arena: `size` units from `begin`."""

    __slots__ = ("arena", "begin", "memory")

    def __init__(self) -> None:
        super().__init__()
        self.begin = 0
        self.arena: _SlicedArena | None = None
        self.memory: ArenaMemory | None = None


class ArenaParts:
    """Arenas of one size; a run that finds no part of one free waits. One of an earlier size goes with its last run.

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

        No run goes into as many of the arenas, those in which least is taken, as it has to let others pass (`Queue`).

        Args:
            needed: bytes.
            limits: the bytes that an arena has now, and how many of them there may be.
        """
        part = ArenaPart()

        def takes() -> bool:
            size, most = limits()
            size = max(size, needed)  # the plan of a run that waits may have become smaller
            part.size = units_of(needed, size)
            for arena in [arena for arena in self._arenas if arena.unit != unit_of(size)]:
                self._drop_if_free(arena)
            return self._found(part, unit_of(size), max(most - sum(map(len, self.queue.first(part))), 0))

        return self.queue.enter(part, takes)

    def _found(self, part: ArenaPart, unit: int, most: int) -> bool:
        # The fullest arena, so that another one stays whole for a run of the largest.
        for arena in sorted(self._arenas, key=lambda arena: -sum(taken.size for taken in arena.taken))[:most]:
            begin = arena.free(part.size) if arena.unit == unit else None
            if begin is None:
                continue
            try:
                part.memory = arena.memory(begin, part.size)
            except MemoryError:  # a block that outlived its run; the arena goes with its last run
                self._arenas.remove(arena)
                arena.close_if_free()
            else:
                part.arena, part.begin = arena, begin
                arena.taken.add(part)
                return True
        if len(self._arenas) >= most:
            return False
        self._arenas.append(_SlicedArena(self._make(UNITS * unit)))
        return self._found(part, unit, most)

    def _drop_if_free(self, arena: _SlicedArena) -> None:
        if not arena.taken:
            self._arenas.remove(arena)
            arena.close_if_free()

    def give(self, part: ArenaPart) -> None:
        """Let other runs have it."""
        with self.queue.lock:
            if part.arena is not None:
                part.arena.taken.discard(part)
                if part.arena not in self._arenas:
                    part.arena.close_if_free()
                elif self._is_closed:
                    self._drop_if_free(part.arena)
        self.queue.turns.all()

    def drop_idle(self) -> None:
        """Release the arenas in which nothing runs now."""
        with self.queue.lock:
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
