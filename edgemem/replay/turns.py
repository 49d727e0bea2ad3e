"""Threads that wait for what other threads give back."""

from __future__ import annotations

import itertools
import sys
import threading
import weakref
from contextlib import suppress
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

__all__ = ["MOST_PASSED", "Queue", "RefusedError", "Waiter"]

MOST_PASSED: Final = 16  # larger ones that go before one that waits for less

_LOOK_AGAIN: Final = 0.05  # seconds; an exception may have taken away what a thread waits for, without a word

_Waiter = TypeVar("_Waiter", bound="Waiter")


class RefusedError(Exception):
    """A thread cannot have what it waits for; of memory, MemoryError says it, too."""


class Waiter:
    """What a thread gets in its turn; one that an exception takes away is given back with its last reference.

    Attributes:
        size: that it needs, in units of the queue's user.
        since: when it came, by the number of those before it.
        order: of spares for the same need, the one with the lowest is taken.
    """

    __slots__ = ("__weakref__", "_has", "_passed", "_takes", "_turn", "order", "since", "size")

    def __init__(self, size: int = 0) -> None:
        self.size = size
        self._has = False
        self._passed = 0  # by larger ones that came later
        self.since = 0
        self.order = 0
        self._takes: Callable[[Any], bool] = bool
        self._turn: threading.Lock | None = None  # locked while it waits


class Queue(Generic[_Waiter]):
    """Lets threads in that need more or less, in their order as far as it matters (`first`).

    Who gives something back hands it on (`serve`), so that no thread that comes later can take it away, and none wakes
    up in vain. No threading.Condition: a signal's exception inside its Python code would leave it locked for good.

    While nobody waits, what is given back may stay as it is, a spare for the next thread that needs the same. Spares
    take no lock: where more threads run than there are processors, one that holds a lock may stand still. Python's own
    lock makes each operation on a list or a heap one step.

    Attributes:
        lock: held while somebody looks whether there is something for it.
        has_waited: whether a thread ever waited.
        waiting: those that wait, in their order.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.has_waited = False
        self._arrivals = itertools.count()
        self.waiting: list[weakref.ref[_Waiter]] = []
        self._spares: dict[Hashable, list[tuple[int, int, _Waiter]]] = {}  # heaps, by need

    def take_spare(self, need: Hashable) -> _Waiter | None:
        """A spare for this need, unless somebody waits, who goes first."""
        if self.waiting:
            return None
        try:
            return heappop(self._spares[need])[2]
        except (KeyError, IndexError):
            return None

    def spare(self, need: Hashable, waiter: _Waiter) -> bool:
        """Whether what is given back is a spare for this need from now on: it is if nobody waits.

        Who comes meanwhile may not see it: look again whether somebody waits, and take the spares back.
        """
        if self.waiting:
            return False
        heappush(self._spares.setdefault(need, []), (waiter.order, next(self._arrivals), waiter))
        return True

    def take_spares(self) -> list[_Waiter]:
        """All spares."""
        taken = []
        for spares in list(self._spares.values()):
            while spares:
                with suppress(IndexError):  # another thread took the last one
                    taken.append(spares.pop()[2])
        return taken

    def first(self, waiter: _Waiter) -> tuple[list[_Waiter], list[_Waiter]]:
        """Those that it must leave room for: larger ones that came before, and smaller ones that were passed often."""
        ahead = self._ahead(waiter)
        return (
            [other for other in ahead if other.size > waiter.size],
            [other for other in ahead if other.size < waiter.size and other._passed >= MOST_PASSED],  # noqa: SLF001
        )

    def enter(self, waiter: _Waiter, takes: Callable[[_Waiter], bool]) -> _Waiter:
        """The waiter, once it takes what there is.

        `takes` is called with the waiter and with the lock held, again and again, by this thread and by those that give
        something back. It has no reference to the waiter of its own, which would keep that alive, and returns True for
        a waiter that has what it needs: an exception may have stopped the thread that gave it.
        """
        with self.lock:
            waiter.since = next(self._arrivals)
            if takes(waiter):
                self._count_passed(waiter)
                return waiter
        self.has_waited = True
        turn = threading.Lock()
        turn.acquire()
        waiter._takes, waiter._turn = takes, turn  # noqa: SLF001
        ref = weakref.ref(waiter)
        try:
            with self.lock:
                waiter.since = next(self._arrivals)  # again, so that those that wait stand in their order
                self.waiting.append(ref)
                if self._is_served(waiter, ref):  # by what was given back before it stood there
                    return waiter
            while True:
                turn.acquire(timeout=_LOOK_AGAIN)
                if waiter._has:  # noqa: SLF001
                    return waiter
                with self.lock:
                    if self._is_served(waiter, ref):
                        return waiter
        except BaseException:
            del waiter  # it may have been handed something, and the exception may be kept with this frame
            with self.lock, suppress(ValueError):
                self.waiting.remove(ref)
            self.serve()  # those that it kept waiting
            raise

    def serve(self) -> None:
        """Something was given back: hand it to those that wait, in their order."""
        if not self.waiting:
            return
        with self.lock:
            while self._serve_each():
                pass

    def _serve_each(self) -> bool:
        """Whether one of those that wait was served, and others before it were not, perhaps because of it."""
        least = sys.maxsize  # of those for whom there is nothing: nor is there for others who need as much
        is_passed = False
        for ref in list(self.waiting):
            waiter = ref()
            if waiter is None:
                self.waiting.remove(ref)
            elif waiter.size < least:
                if not self._hand(waiter, ref):
                    least = waiter.size
                elif least < sys.maxsize and ref not in self.waiting:  # where it is until it raises
                    is_passed = True
        return is_passed

    def _hand(self, waiter: _Waiter, ref: weakref.ref[_Waiter]) -> bool:
        """Whether it is served, or raises itself why it cannot be."""
        turn = waiter._turn  # noqa: SLF001
        with suppress(MemoryError, RefusedError):
            if not self._is_served(waiter, ref):
                return False
        if turn is not None and turn.locked():
            turn.release()
        return True

    def _is_served(self, waiter: _Waiter, ref: weakref.ref[_Waiter]) -> bool:
        """Whether it has what it waits for, and waits no longer. The lock is held. Raises as `takes`."""
        if not waiter._has:  # noqa: SLF001
            if not waiter._takes(waiter):  # noqa: SLF001
                return False
            waiter._has = True  # noqa: SLF001 - nobody hands it another one
            waiter._takes = bool  # noqa: SLF001 - which refers to all that the queue belongs to; a spare stays in that
            self._count_passed(waiter)
        with suppress(ValueError):
            self.waiting.remove(ref)
        return True

    def _count_passed(self, waiter: _Waiter) -> None:
        for other in self._ahead(waiter):
            other._passed += other.size < waiter.size  # noqa: SLF001

    def _ahead(self, waiter: _Waiter) -> list[_Waiter]:
        return [other for ref in self.waiting if (other := ref()) is not None and other.since < waiter.since]
