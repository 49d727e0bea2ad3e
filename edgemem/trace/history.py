"""What the allocator of a device was asked for, and what it held for that: a trace with the memory behind it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from edgemem.errors import ModelError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from edgemem.trace.trace import Trace

__all__ = ["MemoryHistory", "OutOfMemory"]


@dataclass(frozen=True, slots=True)
class OutOfMemory:
    """A request that failed.

    Attributes:
        event: the next event of the trace.
        size: bytes asked for.
        free: bytes that the device still had.
    """

    event: int
    size: int
    free: int


@dataclass(frozen=True, slots=True, eq=False)
class MemoryHistory:
    """A device's requests as an allocator noted them.

    Attributes:
        device: number of the device.
        trace: the events. What was alive when the allocator began to take notes stands first, as requests outside of
            any iteration.
        already_alive: how many requests those are.
        reserved: bytes that the allocator held after each event; int64 [events].
        label: index into `labels` for each request, or -1; int64 [requests].
        labels: places in the program.
        failures: requests that found no memory.
        settings: of the allocator, as the text of PYTORCH_CUDA_ALLOC_CONF; "" for its own, or if they are not known.
    """

    device: int
    trace: Trace
    already_alive: int
    reserved: NDArray[np.int64]
    label: NDArray[np.int64]
    labels: tuple[str, ...] = ()
    failures: tuple[OutOfMemory, ...] = ()
    settings: str = ""

    def __post_init__(self) -> None:
        if len(self.reserved) != len(self.trace) or len(self.label) != len(self.trace.requests):
            raise ModelError("a history's columns differ in length from its trace")

    @property
    def allocated(self) -> NDArray[np.int64]:
        """Bytes that were asked for and not yet freed, after each event; int64 [events]."""
        size = self.trace.size
        of = size[self.trace.requests][self.trace.request]
        return np.cumsum(np.where(size > 0, size, -of))

    def at_failure(self, failure: OutOfMemory) -> tuple[int, int]:
        """Bytes that were in use when a request failed, and those that the allocator held then and nobody used."""
        if not failure.event:
            return 0, 0
        used, held = int(self.allocated[failure.event - 1]), int(self.reserved[failure.event - 1])
        return used, max(held - used, 0)

    @property
    def reserved_peak(self) -> int:
        """The most bytes that the allocator held at once."""
        return int(self.reserved.max(initial=0))
