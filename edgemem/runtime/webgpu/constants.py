"""Weights and constants of kernels: many arrays in few read-only buffers, laid out before any device is there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from edgemem.errors import UnsupportedError
from edgemem.report.sizes import size_text

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator

    from numpy.typing import NDArray

    from edgemem.runtime.webgpu.profile import GpuProfile

__all__ = ["ALIGNMENT", "ConstantRange", "Constants"]

ALIGNMENT: Final = 256  # bytes, of which every device takes multiples
_MOST: Final = 8 * 2**20  # bytes of a buffer with several arrays
_LEAST: Final = 16  # bytes of a binding


@dataclass(frozen=True, slots=True)
class ConstantRange:
    """Where an array is: a buffer's number, and bytes of it."""

    buffer: int
    offset: int
    size: int


class Constants:
    """Arrays that kernels only read.

    Attributes:
        sizes: bytes of each buffer.
        ranges: of each array.
    """

    def __init__(self, profile: GpuProfile) -> None:
        self._profile = profile
        self._arrays: list[list[tuple[int, Callable[[], NDArray[Any]]]]] = []
        self._known: dict[Hashable, int] = {}
        self.sizes: list[int] = []
        self.ranges: list[ConstantRange] = []

    def add(self, size: int, values: Callable[[], NDArray[Any]], what: str, key: Hashable = None) -> int:
        """Keep an array, and return its number.

        Args:
            size: bytes of it.
            values: makes it, when it is put into its buffer.
            what: whose it is, for errors.
            key: an array with an equal key is kept once. None: it is no other's.

        Raises UnsupportedError for an array that is larger than a shader can reach.
        """
        if key is not None and key in self._known:
            return self._known[key]
        profile = self._profile
        size = max(size, _LEAST)
        if size > min(profile.binding, profile.buffer):
            more = "" if profile.name != "portable" else "; run with the adapter's own limits (--profile adapter)"
            raise UnsupportedError(
                f"the constants of {what} have {size_text(size)}, and a shader of the profile {profile.name!r} "
                f"reaches {size_text(min(profile.binding, profile.buffer))}{more}"
            )
        padded = -(-size // ALIGNMENT) * ALIGNMENT
        if not self.sizes or self.sizes[-1] + padded > min(_MOST, profile.buffer):
            self.sizes.append(0)
            self._arrays.append([])
        number = len(self.ranges)
        self.ranges.append(ConstantRange(len(self.sizes) - 1, self.sizes[-1], size))
        self._arrays[-1].append((self.sizes[-1], values))
        self.sizes[-1] += padded
        if key is not None:
            self._known[key] = number
        return number

    def arrays(self, buffer: int) -> Iterator[tuple[int, NDArray[Any]]]:
        """The offset of each array of a buffer, and its numbers in one row."""
        for offset, values in self._arrays[buffer]:
            yield offset, np.ascontiguousarray(values()).reshape(-1)

    def forget(self) -> None:
        """Let go of the arrays, once they are on the device; where they are stays known."""
        self._arrays = []
