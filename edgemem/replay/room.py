"""Which runs of a session go on at once: as many as there is room for, or one alone."""

from __future__ import annotations

import weakref

from edgemem.replay.turns import Queue, Waiter

__all__ = ["Room"]


class Room:
    """Lets runs in: several at once within so many bytes, or one alone. A run gets a place, whose size is its bytes."""

    def __init__(self) -> None:
        self.queue: Queue[Waiter] = Queue()
        self._inside: weakref.WeakSet[Waiter] = weakref.WeakSet()
        self._alone: weakref.WeakSet[Waiter] = weakref.WeakSet()  # that are alone, or wait to be

    def enter(self, size: int, most: int) -> Waiter:
        """As one of the runs that take at most `most` bytes at once, `size` of them this one.

        A run that needs more than that is let in when no other is inside. The order is that of `Queue`.
        """

        def takes(place: Waiter) -> bool:
            if self._alone:
                return False
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

        return self.queue.enter(Waiter(size), takes)

    def enter_alone(self) -> Waiter:
        """As the only run; runs that come later wait."""
        place = Waiter()
        self._alone.add(place)

        def takes(place: Waiter) -> bool:
            if self._inside:
                return False
            self._inside.add(place)
            return True

        try:
            return self.queue.enter(place, takes)
        except BaseException:
            self.leave(place)
            raise

    def leave(self, place: Waiter) -> None:
        """The run has ended."""
        with self.queue.lock:
            self._inside.discard(place)
            self._alone.discard(place)
        self.queue.serve()
