"""Which runs of a session go on at once: as many as there is room for, or one alone."""

from __future__ import annotations

import weakref
from typing import Final

from edgemem.replay.turns import Queue, Waiter

__all__ = ["Room"]

_ALONE: Final = 1 << 62  # bytes of a run that is alone: beside it, there is no room for any


class Room:
    """Lets runs in: several at once within so many bytes, or one alone. A run gets a place, whose size is its bytes."""

    def __init__(self) -> None:
        self.queue: Queue[Waiter] = Queue()
        self._inside: weakref.WeakSet[Waiter] = weakref.WeakSet()

    def __contains__(self, place: Waiter) -> bool:
        """Whether a run with this place is inside."""
        return place in self._inside

    def enter(self, size: int, most: int) -> Waiter:
        """As one of the runs that take at most `most` bytes at once, `size` of them this one.

        A run that needs more than that is let in when no other is inside. The order is that of `Queue`.
        """

        def takes(place: Waiter) -> bool:
            if place in self._inside:
                return True
            self._free_spares()
            larger, smaller = self.queue.first(place)
            others = [*self._inside, *smaller]
            if others and sum(other.size for other in others) + size > most:
                return False
            for first in larger:  # it may go beside each of them, with those that came since and do
                since = sum(other.size for other in self._inside if other.since > first.since)
                if first.size + since + size > most:
                    return False
            self._inside.add(place)
            return True

        return self.queue.take_spare(size) or self.queue.enter(Waiter(size), takes)

    def enter_alone(self) -> Waiter:
        """As the only run; runs that come later wait."""
        return self.enter(_ALONE, 0)

    def leave(self, place: Waiter, *, keep: bool = True) -> None:
        """The run has ended. With `keep`, its place may stay inside for the next run of its size."""
        is_spare = keep and place.size < _ALONE and self.queue.spare(place.size, place)
        if is_spare and not self.queue.waiting:
            return
        with self.queue.lock:
            self._free_spares()
            if not is_spare:
                self._inside.discard(place)
        self.queue.serve()

    def _free_spares(self) -> None:
        """Places for the next runs are free for any now."""
        for place in self.queue.take_spares():
            self._inside.discard(place)
