"""One thread of the process that gives back what sessions have not used for a while, or while memory is short."""

from __future__ import annotations

import os
import threading
import time
import weakref
from dataclasses import dataclass
from typing import Final

from edgemem.replay.logger import logger
from edgemem.replay.replayer import Replayer  # noqa: TC001 - its handler of forks comes before the one below
from edgemem.system.memory_pressure import MemoryPressure

__all__ = ["IdleWatch", "watch"]

_LONGEST_S: Final = 1.0  # between two looks
_LOOKS: Final = 4  # within the time after which something is idle


@dataclass(slots=True)
class _Session:
    """What is known of a session's runs.

    Attributes:
        idle_s: seconds without a run, after which all goes.
        runs: when it was looked at last.
        since: when there was another number, by the clock.
        is_trimmed: all has been given back since the last run.
    """

    idle_s: float
    runs: int = 0
    since: float = 0.0
    is_trimmed: bool = True

    def look(self, replayer: Replayer, now: float, *, is_short: bool) -> None:
        """Give back what is idle; while memory `is_short`, whatever nothing runs in now."""
        runs = replayer.totals().runs
        if runs != self.runs:
            self.runs, self.since, self.is_trimmed = runs, now, False
        is_idle = replayer.shrink_idle(now, self.idle_s)
        if not self.is_trimmed and (is_short or (is_idle and now - self.since >= self.idle_s)):
            self.is_trimmed = True
            replayer.trim()


class IdleWatch:
    """The sessions that are looked at; the thread ends with the last of them.

    `pressure` is that of this process's control group, unless another one is given.
    """

    def __init__(self, pressure: MemoryPressure | None = None) -> None:
        self._lock = threading.Lock()
        self._pressure = pressure
        self._sessions: weakref.WeakKeyDictionary[Replayer, _Session] = weakref.WeakKeyDictionary()
        self._is_running = False

    def add(self, replayer: Replayer, seconds: float) -> None:
        """Look at this session, too, which is idle after so many seconds."""
        with self._lock:
            self._sessions[replayer] = _Session(seconds)

    def start_again(self) -> None:
        """In a forked child: the thread is not there, and may have held the lock."""
        self._lock = threading.Lock()
        self._is_running = False
        self.start()

    def start(self) -> None:
        """Have the thread look, if there is a session. Raises RuntimeError if it cannot be started."""
        with self._lock:
            if self._sessions and not self._is_running:
                threading.Thread(target=self._work, name="edgemem-idle", daemon=True).start()
                self._is_running = True

    def _work(self) -> None:
        while (pause := self.look(time.monotonic())) is not None:
            time.sleep(pause)

    def look(self, now: float) -> float | None:
        """Look at each session; the seconds until the next time, or None if there is no session.

        `now`: seconds of a clock.
        """
        with self._lock:
            sessions = list(self._sessions.items())
            if not sessions:
                self._is_running = False
                return None
        if self._pressure is None:
            self._pressure = MemoryPressure()
        is_short = self._pressure.is_high(now)
        for replayer, session in sessions:
            try:
                session.look(replayer, now, is_short=is_short)
            except Exception:  # noqa: BLE001 - the session goes on, whatever the matter is
                logger().exception("edgemem could not give idle memory back")
        return min(_LONGEST_S, min(session.idle_s for _, session in sessions) / _LOOKS)


_WATCH: Final = IdleWatch()


def watch(replayer: Replayer, seconds: float) -> None:
    """Give back what a session has not used for so many seconds. Raises RuntimeError if no thread can be started."""
    _WATCH.add(replayer, seconds)
    _WATCH.start()


# Behind the handlers of what is imported above: the thread must not wait for a lock that they replace.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_WATCH.start_again)
