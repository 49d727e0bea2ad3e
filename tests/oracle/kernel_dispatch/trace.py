"""When a kernel reads and writes each element, and the least distance at which no write destroys a later read.

    input      i0 i1 i2 ...        begins D bytes after the output
    output  o0 o1 o2 ...

Byte o of the output lies on byte i of the input if o - i = D. D is wrong if some byte o is written before the last read
of the byte i that it lies on, so the least safe distance is one more than the largest o - i of such pairs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

Elements: TypeAlias = "slice | Sequence[int] | NDArray[np.int64]"

_NEVER: Final = np.iinfo(np.int64).max


class Trace:
    """The last read of each element of an input and the first write of each element of the output.

    Args:
        read: elements of the input.
        made: elements of the output.
        widths: bytes of an element of the input and of the output.
    """

    def __init__(self, read: int, made: int, widths: tuple[int, int]) -> None:
        self._last = np.full(read, -1, np.int64)
        self._first = np.full(made, _NEVER, np.int64)
        self._source = np.full(made, -1, np.int64)
        self._widths = widths
        self._time = 0
        self._copied: list[int] = []  # distances that a copy of unknown direction forbids, the largest of each copy
        self.branches: list[str] = []

    def branch(self, name: str) -> None:
        """Record which branch of the dispatch runs."""
        self.branches.append(name)

    def read(self, elements: Elements) -> None:
        """The kernel reads these elements of the input, all before anything that follows."""
        self._time += 1
        self._last[elements] = self._time

    def write(self, elements: Elements) -> None:
        """The kernel writes these elements of the output, all after anything before."""
        self._time += 1
        self._first[elements] = np.minimum(self._first[elements], self._time)

    def each(self, read: NDArray[np.int64], made: NDArray[np.int64], block: int = 1) -> None:
        """For each block of elements one after the other: reads `read`, writes `made`."""
        order = np.arange(len(read), dtype=np.int64) // block * 2 + self._time + 1
        np.maximum.at(self._last, read, order)
        np.minimum.at(self._first, made, order + 1)
        self._time += 2 * len(read) + 2

    def copy(self, to: int, start: int, count: int, block: int = 0) -> None:
        """Copies elements [start, start + count) of the input to `to`.

        With `block`, upwards, so many at a time. 0: by memcpy, which may go either way.
        """
        read, made = np.arange(start, start + count), np.arange(to, to + count)
        self._source[made] = read
        if block:
            self.each(read, made, block)
            return
        self.read(read)
        self.write(made)
        if count > 1:
            self._copied.append((to - start + count) * self._widths[1] - 1)

    def forget_copies(self) -> None:
        """What was copied is changed in place afterwards, so it is no longer the input's own value."""
        self._source[:] = -1

    def is_complete(self) -> bool:
        """Whether every element of the output is written."""
        return bool((self._first != _NEVER).all())

    def least(self) -> int:
        """The least safe distance in bytes; minus the input's bytes if all are safe."""
        read, made = self._widths
        found = [-len(self._last) * read - 1, *self._copied]
        order = np.argsort(self._last, kind="stable")
        times = self._last[order]
        lowest, second = _lowest_from(order)
        outputs = np.nonzero(self._first != _NEVER)[0]
        place = np.searchsorted(times, self._first[outputs], side="right")
        outputs, place = outputs[place < len(order)], place[place < len(order)]
        against = lowest[place]
        # A byte that is overwritten by its own copy is not destroyed.
        own = against == self._source[outputs]
        against = np.where(own, second[place], against)
        outputs, against = outputs[against != _NEVER], against[against != _NEVER]
        if len(outputs):
            found.append(int((outputs * made + made - 1 - against * read).max()))
        return max(found) + 1


def _lowest_from(order: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Of each suffix the lowest element and the second lowest."""
    lowest, second = np.empty(len(order), np.int64), np.empty(len(order), np.int64)
    one = two = int(_NEVER)
    for place in range(len(order) - 1, -1, -1):
        value = int(order[place])
        if value < one:
            one, two = value, one
        elif value < two:
            two = value
        lowest[place], second[place] = one, two
    return lowest, second
