"""A piece of memory that interpreters run in: one of them, or several that take turns."""

from __future__ import annotations

from threading import RLock
from typing import TYPE_CHECKING, Final

import numpy as np

from edgemem.errors import RuntimeBindError

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["POISON", "Arena"]

POISON: Final = 0xCD
_ALIGNMENT: Final = 64


class Arena:
    """Memory aligned to 64 bytes, which grows until it is `fixed`.

    Attributes:
        lock: held while an interpreter uses the memory; `with arena.lock:` around setting inputs, running and reading
            outputs makes a turn of them when several threads share the arena.
        holder: who set its inputs or ran here last; what all others have left here is lost.
    """

    def __init__(self, capacity: int | None = None) -> None:
        """An arena of `capacity` bytes that never grows, or one that starts empty and grows as it is needed."""
        self.lock = RLock()
        self.holder: object = None
        self._fixed = capacity is not None
        self._memory = _aligned(capacity or 0)

    @property
    def memory(self) -> NDArray[np.uint8]:
        """Its bytes. Growing replaces them; views of the old ones stay valid, but nothing runs there any more."""
        return self._memory

    @property
    def address(self) -> int:
        """Of its first byte."""
        return int(self._memory.ctypes.data)

    def reserve(self, size: int) -> None:
        """Grow to at least `size` bytes, forgetting the contents. Raises RuntimeBindError if it cannot grow."""
        if size <= len(self._memory):
            return
        if self._fixed:
            raise RuntimeBindError(
                f"the model needs an arena of {size:,} bytes, the one it was given has {len(self._memory):,}"
            )
        self._memory = _aligned(size)
        self.holder = None


def _aligned(size: int) -> NDArray[np.uint8]:
    raw = np.zeros(size + _ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % _ALIGNMENT
    return raw[start : start + size]
