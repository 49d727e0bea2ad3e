"""Which runs of a session go on at once: as many as there is room for, or one alone."""

from __future__ import annotations

import itertools
import math
import threading
import weakref

from edgemem.replay.turns import MOST_PASSED, Turns

__all__ = ["Room", "RunPlace"]


class RunPlace:
    """What a run has that may run; one that an exception takes away is given back with its last reference."""

    __slots__ = ("__weakref__", "passed", "since", "size")

    def __init__(self, size: int) -> None:
        self.size = size
        self.passed = 0  # by larger runs that came later
        self.since: float = math.inf  # when it began to wait, by the number of those before it


class Room:
    """Lets runs in: several at once within so many bytes, or one alone.

    Attributes:
        has_waited: whether a run ever waited for others.
    """

    def __init__(self) -> None:
        self.has_waited = False
        self._arrivals = itertools.count()
        self._lock = threading.Lock()
        self._turns = Turns()
        self._inside: weakref.WeakSet[RunPlace] = weakref.WeakSet()
        self._waiting: weakref.WeakSet[RunPlace] = weakref.WeakSet()
        self._alone: weakref.WeakSet[RunPlace] = weakref.WeakSet()  # that are alone, or wait to be

    def enter(self, size: int, most: int) -> RunPlace:
        """As one of the runs that take at most `most` bytes at once, `size` of them this one.

        A run that needs more than that is let in when no other is inside. No run overtakes one that came before it and
        waits for more, and a few at most one that waits for less.
        """
        place = RunPlace(size)

        def look() -> RunPlace | None:
            with self._lock:
                ahead = [other for other in self._waiting if other.since < place.since] if self._waiting else []
                if self._alone or any(other.size > size for other in ahead):
                    return None
                smaller = [other for other in ahead if other.size < size]
                first = sum(other.size for other in smaller if other.passed >= MOST_PASSED)
                if (self._inside or first) and sum(other.size for other in self._inside) + first + size > most:
                    return None
                self._inside.add(place)
                for other in smaller:
                    other.passed += 1
                return place

        if look() is not None:
            return place
        self.has_waited = True
        with self._lock:
            place.since = next(self._arrivals)
            self._waiting.add(place)
        try:
            return self._turns.wait(look)
        finally:
            with self._lock:
                self._waiting.discard(place)
            self._turns.all()

    def enter_alone(self) -> RunPlace:
        """As the only run; runs that come later wait."""
        place = RunPlace(0)
        self._alone.add(place)

        def look() -> RunPlace | None:
            with self._lock:
                if self._inside:
                    return None
                self._inside.add(place)
                return place

        try:
            return look() or self._turns.wait(look)
        except BaseException:
            self.leave(place)
            raise

    def leave(self, place: RunPlace) -> None:
        """The run has ended."""
        with self._lock:
            self._inside.discard(place)
            self._alone.discard(place)
        self._turns.all()
