"""One thread of the process that plans, proves and writes to the cache, so that no request waits for it."""

from __future__ import annotations

import atexit
import os
import queue
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from edgemem.replay.logger import logger

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Worker", "worker"]

_LAST_SECONDS: Final = 2.0  # that the end of the process waits for plans which are being made
_LOOK_AGAIN: Final = 0.005  # seconds, whether all jobs are done


class Worker:
    """Jobs one after the other on a thread that begins with the first of them. A job that fails is logged."""

    def __init__(self) -> None:
        self._jobs: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._lock = threading.Lock()  # no threading.Condition: a signal's exception can leave that locked for good
        self._thread: threading.Thread | None = None
        self._open = 0
        self._is_ending = False

    def submit(self, job: Callable[[], None]) -> None:
        """Do this job after those that were submitted before it.

        Raises RuntimeError if no thread can be started; the job is not done then.
        """
        with self._lock:
            if self._thread is None:
                thread = threading.Thread(target=self._work, name="edgemem-plans", daemon=True)
                thread.start()
                self._thread = thread
            # Python runs handlers of signals after calls alone, so the job is counted if and only if it is put.
            self._open += 1
            self._jobs.put(job)

    @property
    def is_ending(self) -> bool:
        """Whether the process ends: long jobs give up then."""
        return self._is_ending

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until every job is done, at most so many seconds; whether every job is."""
        end = None if seconds is None else time.monotonic() + seconds
        while self._open:
            if end is not None and time.monotonic() >= end:
                return False
            time.sleep(_LOOK_AGAIN)
        return True

    def end(self) -> None:
        """What the end of the process calls.

        It waits for the job that is on, because a thread cannot be left inside compiled code, and for those after it if
        they do not take long.
        """
        self._is_ending = True
        if not self.wait(_LAST_SECONDS):
            with suppress(queue.Empty):
                while True:
                    self._jobs.get_nowait()
                    self._count_done()
            self.wait()

    def _work(self) -> None:
        while True:
            job = self._jobs.get()
            try:
                job()
            except Exception:  # noqa: BLE001 - a session goes on without its plan, whatever the matter is
                logger().exception("edgemem could not make a plan; the session goes on without it")
            finally:
                del job  # it holds a session's state
                self._count_done()

    def _count_done(self) -> None:
        with self._lock:
            self._open -= 1


_WORKERS: list[Worker] = []


def worker() -> Worker:
    """The worker of this process."""
    if not _WORKERS:
        _WORKERS.append(Worker())
    return _WORKERS[0]


# A forked child has none of its parent's threads, and its parent stores the plans that are being made.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_WORKERS.clear)
atexit.register(lambda: _WORKERS[0].end() if _WORKERS else None)
