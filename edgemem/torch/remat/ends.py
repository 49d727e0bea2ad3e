"""What gives back what was taken, wherever an exception comes."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Ends"]


class Ends:
    """Calls that give back what was taken. One that an exception interrupts is made again by the next `close`."""

    def __init__(self) -> None:
        self._calls: list[Callable[[], object]] = []

    def callback(self, call: Callable[..., object], *arguments: object) -> None:
        """Call this at the end, before all that are there already; perhaps twice."""
        self._calls.append(partial(call, *arguments))

    def close(self) -> None:
        """Make all calls, the last one first."""
        while self._calls:
            self._calls[-1]()
            self._calls.pop()
