"""Threads that wait for what other threads give back."""

from __future__ import annotations

import threading
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["MOST_PASSED", "Turns"]

MOST_PASSED: Final = 16  # larger runs that go before one that waits for less

_LOOK_AGAIN: Final = 0.05  # seconds; an exception may have taken away what a thread waits for, without a word

_Found = TypeVar("_Found")


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
