"""The places that a plan gives to the requests of one iteration, in the form in which a Loop replays them.

A lane is a sequence of requests whose order does not depend on others: a thread's, or on a device a stream's. The slots
of a lane stand in the order in which its requests came.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from edgemem.errors import InvalidPlanError

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Slots"]

_MOST_LANES = 1 << 16
_COLUMNS = ("bytes", "offset", "other", "lane", "section", "space")


@dataclass(frozen=True, slots=True, eq=False)
class Slots:
    """One slot for each request, as columns; the columns become read-only int64 arrays of one length.

    Raises InvalidPlanError if a slot does not lie in the arena or says something impossible. Whether two slots overlap
    while both are in use is not checked here: a Loop gives a place only while it is free.

    Attributes:
        size: of the arena in bytes.
        alignment: of the offsets in bytes; a power of two, and the arena begins at a multiple of it.
        bytes: asked for; int64 [n], above 0.
        offset: the place of the request in bytes; -1: the fallback serves it. -1 in dynamic slots.
        other: the place if `offset` is in use, or -1.
        lane: number of the lane, from 0 to 65535.
        section: of the program that asks, or -1.
        space: in dynamic slots the index into `spaces`; -1 in all others. A dynamic slot serves a request of any size
            from what is free of its space.
        spaces: the bytes of the arena that dynamic slots may use, as half-open intervals [begin, end), ascending and
            disjoint; one int64 [m, 2] each.
    """

    size: int
    alignment: int
    bytes: NDArray[np.int64]
    offset: NDArray[np.int64]
    other: NDArray[np.int64]
    lane: NDArray[np.int64]
    section: NDArray[np.int64]
    space: NDArray[np.int64]
    spaces: tuple[NDArray[np.int64], ...] = ()

    def __post_init__(self) -> None:
        for name in _COLUMNS:
            object.__setattr__(self, name, _read_only(getattr(self, name)).reshape(-1))
        object.__setattr__(self, "spaces", tuple(_read_only(space).reshape(-1, 2) for space in self.spaces))
        if self.size < 0 or self.alignment < 1 or self.alignment & (self.alignment - 1):
            raise InvalidPlanError(f"slots in an arena of {self.size} bytes aligned to {self.alignment} are impossible")
        if len({len(getattr(self, name)) for name in _COLUMNS}) != 1:
            raise InvalidPlanError("the columns of the slots differ in length")
        self._check_columns()
        self._check_spaces()

    def __len__(self) -> int:
        return len(self.bytes)

    def _check_columns(self) -> None:
        dynamic = self.space >= 0
        _refuse(self.bytes < 1, "asks for no bytes")
        _refuse((self.lane < 0) | (self.lane >= _MOST_LANES), "has a lane that is impossible")
        _refuse(self.section < -1, "has a section below -1")
        _refuse((self.space < -1) | (self.space >= len(self.spaces)), "names a space that is not there")
        _refuse(dynamic & (self.offset != -1), "is dynamic and has an offset")
        _refuse((self.offset == -1) & (self.other != -1), "has a second place and no first")
        for name in ("offset", "other"):
            place = getattr(self, name)
            placed = place != -1
            wrong = (place < 0) | (place % self.alignment != 0) | (place > self.size - self.bytes)
            _refuse(placed & wrong, f"has its {name} outside of the arena or not aligned")

    def _check_spaces(self) -> None:
        for k, space in enumerate(self.spaces):
            bounds = space.reshape(-1)
            inside = not len(bounds) or (bounds[0] >= 0 and bounds[-1] <= self.size)
            if not inside or np.any(space[:, 0] >= space[:, 1]) or np.any(space[1:, 0] < space[:-1, 1]):
                raise InvalidPlanError(f"space {k} is not a list of ascending intervals within the arena")


def _refuse(wrong: NDArray[np.bool_], why: str) -> None:
    """Raise InvalidPlanError for the first slot that is wrong."""
    if np.any(wrong):
        raise InvalidPlanError(f"slot {int(np.argmax(wrong))} {why}")


def _read_only(values: NDArray[np.int64]) -> NDArray[np.int64]:
    column = np.array(values, dtype=np.int64, order="C")
    column.flags.writeable = False
    return column
