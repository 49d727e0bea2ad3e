"""Where a decoder's caches lie in their buffers, which pages their rows are in, and the budget that states share."""

from __future__ import annotations

import mmap
from dataclasses import dataclass
from math import prod
from threading import Lock
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

import numpy as np

from edgemem.errors import BudgetExceededError
from edgemem.report.sizes import size_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from edgemem.model.states import StatePair
    from edgemem.runtime.reserved_memory import ReservedMemory

__all__ = ["Cache", "CacheBudget", "lay_out", "page_spans", "page_total"]

_ALIGNMENT: Final = 64


@dataclass(slots=True)
class Cache:
    """One pair with its places in memory.

    Attributes:
        pair: the input and the output.
        dtype: of its elements, as NumPy has it.
        shape: with 0 for the axis that grows.
        offset: where it begins in a buffer, in bytes.
        places: addresses of its buffers, one or two.
    """

    pair: StatePair
    dtype: Any
    shape: tuple[int, ...]
    offset: int = 0
    places: tuple[int, ...] = ()

    def form(self, rows: int) -> tuple[int, ...]:
        """The shape with this many rows."""
        axis = self.pair.axis
        return (*self.shape[:axis], rows, *self.shape[axis + 1 :])

    def view(self, memory: ReservedMemory, rows: int) -> NDArray[Any]:
        """[n, rows, elements of a row]: the cache in a buffer, when it has this many rows."""
        form = (prod(self.shape[: self.pair.axis]), rows, prod(self.shape[self.pair.axis + 1 :]))
        whole = memory.array((memory.size,), np.uint8)[self.offset : self.offset + self.bytes_of(rows)]
        made: NDArray[Any] = whole.view(self.dtype).reshape(form)
        return made

    def bytes_of(self, rows: int) -> int:
        """Bytes of this many rows."""
        return prod(self.form(rows)) * int(np.dtype(self.dtype).itemsize)

    def spans(self, begin: int, end: int, length: int) -> NDArray[np.int64]:
        """The bytes [n, (first, behind the last)] of rows begin to end in a buffer that has `length` rows."""
        axis = self.pair.axis
        row = prod(self.shape[axis + 1 :]) * int(np.dtype(self.dtype).itemsize)
        starts = self.offset + np.arange(prod(self.shape[:axis]), dtype=np.int64) * (row * length)
        return np.stack((starts + begin * row, starts + end * row), axis=1)


def lay_out(caches: Sequence[Cache], capacity: int) -> int:
    """Place all caches one after the other at their capacity; bytes that they take."""
    end = 0
    for cache in caches:
        cache.offset = end
        end += -(-cache.bytes_of(capacity) // _ALIGNMENT) * _ALIGNMENT
    return end


def page_spans(spans: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    """The pages [n, (first byte, behind the last)] that ascending spans of bytes lie in; pages side by side are one."""
    every = np.concatenate(spans)
    every = every[every[:, 0] < every[:, 1]]
    first, behind = every[:, 0] // mmap.PAGESIZE, -(-every[:, 1] // mmap.PAGESIZE)
    begins = np.r_[True, first[1:] > behind[:-1]][: len(every)]
    ends = np.r_[begins[1:], True][: len(every)]
    return np.stack((first[begins], behind[ends]), axis=1) * mmap.PAGESIZE


def page_total(spans: Sequence[NDArray[np.int64]]) -> int:
    """Bytes of the pages that ascending spans of bytes lie in."""
    pages = page_spans(spans)
    return int((pages[:, 1] - pages[:, 0]).sum())


class CacheBudget:
    """The bytes that a state and its forks hold together, and the most that they may hold.

    Args:
        most: bytes; None: any number.
    """

    def __init__(self, most: int | None) -> None:
        self.most = most
        self._held: WeakKeyDictionary[object, int] = WeakKeyDictionary()
        self._lock = Lock()

    def claim(self, holder: object, size: int, purpose: str) -> None:
        """Let the holder have this many bytes instead of those that it has.

        Raises BudgetExceededError if all have more than the budget then; nothing is changed then.
        """
        with self._lock:
            others = sum(self._held.values()) - self._held.get(holder, 0)
            if self.most is not None and size > self._held.get(holder, 0) and others + size > self.most:
                raise BudgetExceededError(
                    f"{purpose} takes {size_text(size)} of caches, and {size_text(others)} are held beside them, "
                    f"which is {size_text(others + size)}; max_bytes is {size_text(self.most)}: close or reset other "
                    "states, or give them more",
                    required=others + size,
                    available=self.most,
                )
            self._held[holder] = size

    @property
    def held(self) -> int:
        """Bytes that all have."""
        with self._lock:
            return sum(self._held.values())
