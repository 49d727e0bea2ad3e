"""Threads that wait for what other threads give back."""

from __future__ import annotations

import itertools
import math
import threading
import weakref
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["MOST_PASSED", "Queue", "Turns", "Waiter"]

MOST_PASSED: Final = 16  # larger ones that go before one that waits for less

_LOOK_AGAIN: Final = 0.05  # seconds; an exception may have taken away what a thread waits for, without a word

_Found = TypeVar("_Found")
_Waiter = TypeVar("_Waiter", bound="Waiter")


class Turns:
    """No threading.Condition: a signal's exception inside its Python code would leave it locked for good."""

    def __init__(self) -> None:
        self._waiters: deque[threading.Lock] = deque()  # locked; opened when there is something to look for

    def __bool__(self) -> bool:
        return bool(self._waiters)

    def next(self) -> None:
        """Let the thread look that waits longest."""
        with suppress(IndexError, RuntimeError):  # nobody waits, or the thread looks already
            self._waiters.popleft().release()

    def all(self) -> None:
        """Let every thread look that waits now."""
        for _ in range(len(self._waiters)):
            self.next()

    def wait(self, look: Callable[[], _Found | None]) -> _Found:
        """What `look` finds; it is called again when there may be something."""
        turn = threading.Lock()
        turn.acquire()
        try:
            while True:
                self._waiters.append(turn)  # before the look, so that nothing is missed
                found = look()
                if found is not None:
                    return found
                turn.acquire(timeout=_LOOK_AGAIN)
                self._withdraw(turn)
        finally:
            self._withdraw(turn)

    def _withdraw(self, turn: threading.Lock) -> None:
        with suppress(ValueError):
            self._waiters.remove(turn)


class Waiter:
    """What a thread gets in its turn; one that an exception takes away is given back with its last reference.

    Attributes:
        size: that it needs, in units of the queue's user.
    """

    __slots__ = ("__weakref__", "_passed", "_since", "size")

    def __init__(self, size: int = 0) -> None:
        self.size = size
        self._passed = 0  # by larger ones that came later
        self._since: float = math.inf  # when it began to wait, by the number of those before it


class Queue(Generic[_Waiter]):
    """Lets threads in that need more or less: none passes one that came before and needs more, few one that needs less.

    Attributes:
        lock: held while somebody looks whether there is something for it.
        has_waited: whether a thread ever waited.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.has_waited = False
        self.turns = Turns()
        self._arrivals = itertools.count()
        self._waiting: weakref.WeakSet[_Waiter] = weakref.WeakSet()

    def __len__(self) -> int:
        return len(self._waiting)

    def first(self, waiter: _Waiter) -> tuple[list[_Waiter], list[_Waiter]]:
        """Those that it must not pass: the larger ones that came before, and smaller ones that were passed often."""
        ahead = self._ahead(waiter)
        return (
            [other for other in ahead if other.size > waiter.size],
            [other for other in ahead if other.size < waiter.size and other._passed >= MOST_PASSED],  # noqa: SLF001
        )

    def enter(self, waiter: _Waiter, takes: Callable[[], bool]) -> _Waiter:
        """The waiter, once it takes what there is. `takes` is called with the lock held, again and again."""

        def look() -> _Waiter | None:
            with self.lock:
                if not takes():
                    return None
                for other in self._ahead(waiter):
                    other._passed += other.size < waiter.size  # noqa: SLF001
                return waiter

        if look() is not None:
            return waiter
        self.has_waited = True
        with self.lock:
            waiter._since = next(self._arrivals)  # noqa: SLF001
            self._waiting.add(waiter)
        try:
            return self.turns.wait(look)
        finally:
            with self.lock:
                self._waiting.discard(waiter)
            self.turns.all()

    def _ahead(self, waiter: _Waiter) -> list[_Waiter]:
        return [other for other in self._waiting if other._since < waiter._since] if self._waiting else []  # noqa: SLF001
