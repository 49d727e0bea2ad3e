"""Processes of one measurement that wait for each other, through files in a folder that all of them know.

`wait_for_all` returns once all of them have come so far. In `turn` one runs after the other; every other turn goes from
the last to the first, so that nobody is always the first.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["Meeting"]

_POLL_S: Final = 0.01
_TURN_POLL_S: Final = 0.0005
_GONE: Final = "gone"


@dataclass(frozen=True, slots=True)
class Meeting:
    """One of the processes that meet.

    Attributes:
        folder: that all of them know.
        number: of this process, from 0.
        count: of all processes.
    """

    folder: str
    number: int = 0
    count: int = 1

    def leave(self) -> None:
        """Let the others know that this process does not come any more: they stop waiting for it."""
        (Path(self.folder) / _GONE).touch()

    def wait_for_all(self, name: str) -> None:
        """Wait until all processes are here. Raises TimeoutError where one of them has gone."""
        if self.count == 1:
            return
        folder = Path(self.folder)
        (folder / f"{name}-{self.number}").touch()
        self._wait(lambda: len(list(folder.glob(f"{name}-*"))) == self.count, _POLL_S)

    @contextmanager
    def turn(self, number: int) -> Iterator[None]:
        """Wait for this process's part of a turn, and give it to the next one; turns are counted from 0.

        Raises TimeoutError where a process has gone.
        """
        own = Path(self.folder) / f"turns-{self.number}"
        order = [*range(self.count)] if number % 2 == 0 else [*reversed(range(self.count))]
        earlier = order[: order.index(self.number)]
        needed = {other: number + (other in earlier) for other in range(self.count) if other != self.number}
        self._wait(lambda: all(self._turns_of(other) >= turns for other, turns in needed.items()), _TURN_POLL_S)
        yield
        with own.open("ab") as file:
            file.write(b".")

    def _turns_of(self, other: int) -> int:
        try:
            return (Path(self.folder) / f"turns-{other}").stat().st_size
        except FileNotFoundError:
            return 0

    def _wait(self, is_reached: Callable[[], bool], poll_s: float) -> None:
        while not is_reached():
            if (Path(self.folder) / _GONE).exists():
                raise TimeoutError("another one of the processes that measure together has ended")
            time.sleep(poll_s)
