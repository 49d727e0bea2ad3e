"""What gives back what was taken, wherever an exception comes."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Ends"]


class Ends:
    """Calls that give back what was taken. One that an exception interrupts is made again, before all others."""

    def __init__(self) -> None:
        self._calls: list[Callable[[], object]] = []
        self._failed: Callable[[], object] | None = None

    def callback(self, call: Callable[..., object], *arguments: object) -> None:
        """Call this at the end, before all that are there already; perhaps twice."""
        self._calls.append(partial(call, *arguments))

    def close(self) -> None:
        """Make all calls, the last one first. Raises what the first one raised that failed, once all are made."""
        error: Exception | None = None
        while self._calls:
            call = self._calls[-1]
            try:
                call()
            except Exception as e:  # noqa: BLE001 - of a signal's handler, which comes once, or of the call itself
                error = error or e
                if call is not self._failed:
                    self._failed = call
                    continue
            self._calls.pop()
        if error is not None:
            raise error
