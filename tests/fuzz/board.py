"""What a fuzzing process shares with the one that watches it: counters, and the case that is being run.

    cases    started    cpu      slowest  peak     running  length   the case
    uint64   double     double   double   uint64   uint64   uint64   bytes

It is a mapped file, so what was written last is there when the process has crashed.
"""

from __future__ import annotations

import mmap
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tests.fuzz.cases import MOST_BYTES

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["Board", "State"]

_STATE: Final = struct.Struct("<QdddQQQ")


@dataclass(frozen=True, slots=True)
class State:
    """What the board says.

    Attributes:
        cases: that are finished.
        started: when the present one began, by the monotonic clock.
        cpu: seconds of processor time that the process had used then.
        slowest: processor seconds of the slowest case that is finished.
        peak: bytes resident at most, less those when the first case began.
        running: whether a case is being run.
        length: bytes of the case.
    """

    cases: int = 0
    started: float = 0.0
    cpu: float = 0.0
    slowest: float = 0.0
    peak: int = 0
    running: int = 0
    length: int = 0


class Board:
    """The mapped file. Only the fuzzing process writes."""

    def __init__(self, path: Path) -> None:
        size = _STATE.size + MOST_BYTES
        with path.open("r+b") as file:
            file.truncate(size)
            self._memory = mmap.mmap(file.fileno(), size)

    def write(self, state: State, data: bytes | None = None) -> None:
        """Show a state, and the case if one is given, whose length is then the state's."""
        if data is not None:
            self._memory[_STATE.size : _STATE.size + len(data)] = data
        fields = (state.cases, state.started, state.cpu, state.slowest, state.peak, state.running, state.length)
        _STATE.pack_into(self._memory, 0, *fields)

    def read(self) -> State:
        return State(*_STATE.unpack_from(self._memory))

    def case(self) -> bytes:
        """The case that was begun last."""
        return bytes(self._memory[_STATE.size : _STATE.size + self.read().length])
