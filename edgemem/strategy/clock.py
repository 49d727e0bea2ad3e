"""The clock of a time limit that several searches share."""

from __future__ import annotations

import time

__all__ = ["Clock"]


class Clock:
    """Counts the seconds from when it is made, and what is left of a time limit."""

    def __init__(self, limit: float | None) -> None:
        self._limit = limit
        self._begin = time.monotonic()

    def left(self, sharers: int = 1) -> float | None:
        """The seconds left, divided evenly among `sharers`; None where there is no limit."""
        return None if self._limit is None else max(0.0, self._limit - self.seconds()) / sharers

    def is_up(self) -> bool:
        """Whether there is a limit and no time is left."""
        return self.left() == 0.0

    def seconds(self) -> float:
        """Those that went by."""
        return time.monotonic() - self._begin
