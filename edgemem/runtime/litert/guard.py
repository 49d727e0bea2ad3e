"""The tensors of LiteRT that lie in our arena: sets their addresses, and checks that LiteRT moved or resized none."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from edgemem.errors import RuntimeBindError
from edgemem.runtime.litert.probe_data import ALLOCATIONS
from edgemem.runtime.litert.structs import NativeTensor

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from edgemem.runtime.litert.delegate import Delegate

__all__ = ["TensorGuard"]

_ARENA: Final = ALLOCATIONS.index("arena")
_WORD: Final = ctypes.sizeof(ctypes.c_void_p)  # a tensor's structure is a row of words of this many bytes


def _words(field: str) -> list[int]:
    """The words of a tensor's structure that hold a field."""
    entry = getattr(NativeTensor, field)
    return list(range(entry.offset // _WORD, -(-(entry.offset + entry.size) // _WORD)))


_WATCHED: Final = np.array(sorted({*_words("data"), *_words("allocation_type"), *_words("bytes")}))
_WORDS: Final = ctypes.sizeof(NativeTensor) // _WORD


class TensorGuard:
    """Puts tensors of the main subgraph into memory of ours, and checks before each run that they are still there.

    The addresses, sizes and allocation types of all tensors are compared at once with their values after `point`; the
    tensors are examined one by one only if something differs.
    """

    def __init__(self, delegate: Delegate, places: Sequence[tuple[int, int, int]]) -> None:
        """For tensors at `places`: (index, offset, bytes)."""
        self._delegate = delegate
        self._pointer = delegate.tensors_pointer
        self._places = places
        self._base = 0
        indices = np.array([i for i, _, _ in places], np.intp)
        self._gather = (indices[:, None] * _WORDS + _WATCHED[None, :]).reshape(-1)
        self._count = int(indices.max(initial=0)) + 1
        self._at = -1
        self._structures: NDArray[np.intp] = np.empty(0, np.intp)
        self._now: NDArray[np.intp] = np.empty(len(self._gather), np.intp)
        self._expected = b""

    def point(self, base: int) -> None:
        """Set the tensors' addresses, in memory that begins at `base`."""
        tensors = self._delegate.tensors
        self._base = base
        for i, offset, _ in self._places:
            tensors[i].data = base + offset
        self._expected = self._snapshot()
        self._explain(tensors)

    def is_moved(self) -> bool:
        """Whether a tensor has another address, size or allocation type than after `point`."""
        return self._snapshot() != self._expected

    def check(self) -> None:
        """Raise RuntimeBindError unless every tensor has its planned size and the address that `point` set."""
        if self._snapshot() != self._expected:
            self._explain(self._delegate.tensors)
            self._expected = self._snapshot()

    def _snapshot(self) -> bytes:
        at = self._pointer.value or 0
        if at != self._at:  # LiteRT moves the array when it adds tensors
            words = (ctypes.c_ssize_t * (self._count * _WORDS)).from_address(at)
            self._structures, self._at = np.frombuffer(memoryview(words), np.intp), at
        self._structures.take(self._gather, out=self._now, mode="clip")
        return self._now.tobytes()

    def _explain(self, tensors: Any) -> None:
        """Raise for the first tensor that is not as planned."""
        for i, offset, size in self._places:
            tensor = tensors[i]
            if tensor.bytes != size or tensor.allocation_type != _ARENA:
                raise RuntimeBindError(
                    f"tensor {i} was planned with {size:,} bytes and has {tensor.bytes:,} now; call allocate_tensors()"
                )
            if tensor.data != self._base + offset:
                raise RuntimeBindError(f"LiteRT has moved tensor {i} out of the arena; call allocate_tensors()")
