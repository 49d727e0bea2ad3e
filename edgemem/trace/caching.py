"""What PyTorch's caching allocator would do with a trace: how much it reserves, and where the holes are.

The rules are those that c10/cuda/CUDACachingAllocator.cpp describes: requests are rounded to 512 bytes; up to 1 MiB
they share segments of 2 MiB, below 10 MiB segments of 20 MiB, larger ones get a segment of their own size rounded to
2 MiB; the smallest free block of the stream serves, is split if enough is left, and merges with its free neighbours
when it is freed. The device has memory without end, so that no segment goes back to it.

Memory efficiency is defined as in STWeaver (§2.2), E = Ma / Mr: the most bytes allocated over the most bytes reserved.
Three quantities are told apart, as PyTorch's statistics do:

- requested: bytes that the program asked for (`requested_bytes`);
- allocated: bytes of the blocks that it got, with what was rounded up (`torch.cuda.memory_allocated`);
- reserved: bytes of all segments (`torch.cuda.memory_reserved`).

`efficiency` has allocated bytes in the numerator, so it counts fragmentation alone; `requested_efficiency` counts what
is lost by rounding, too. Deviation: what is freed while another stream still uses it (`record_stream`) is reused at
once, and the driver never gives the addresses of a released segment again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from edgemem import native
from edgemem.trace.caching_settings import CachingSettings

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from edgemem.trace.trace import Trace

__all__ = ["FREE", "UNMAPPED", "USED", "CachedBlocks", "CachingSettings", "Simulation", "simulate"]

_NO_LIMIT: Final = np.iinfo(np.int64).max
FREE, USED, UNMAPPED = range(3)  # states of a block


@dataclass(frozen=True, slots=True, eq=False)
class CachedBlocks:
    """All blocks of the allocator at one moment, by address; int64 columns of one length.

    Attributes:
        segment: address of the segment that the block is part of, in the order in which segments were taken.
        size: bytes.
        requested: bytes asked for; 0 if the block is free.
        state: `FREE` (0), `USED` (1), or `UNMAPPED` (2): addresses of an expandable segment that have no memory.
    """

    segment: NDArray[np.int64]
    size: NDArray[np.int64]
    requested: NDArray[np.int64]
    state: NDArray[np.int64]

    @property
    def largest_free(self) -> int:
        """Bytes of the largest free block."""
        return int(self.size[self.state == FREE].max(initial=0))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Simulation:
    """What the allocator did; bytes after each event. The columns end before the event that found no memory.

    Attributes:
        trace: what was simulated.
        settings: of the allocator.
        requested: int64 [events], bytes that the program had asked for and not freed.
        allocated: int64 [events], bytes of the blocks in use.
        reserved: int64 [events], bytes of all segments.
        reserved_peak: the most bytes reserved at once.
        times_taken: how often a segment was taken from the device; of expandable segments, how often they grew.
    """

    trace: Trace
    settings: CachingSettings
    requested: NDArray[np.int64]
    allocated: NDArray[np.int64]
    reserved: NDArray[np.int64]
    reserved_peak: int
    times_taken: int

    def __repr__(self) -> str:
        died = "" if self.out_of_memory is None else f", out of memory at event {self.out_of_memory:,}"
        return (
            f"Simulation({len(self.trace):,} events: {self.allocated_peak:,} bytes allocated, "
            f"{self.reserved_peak:,} reserved, efficiency {self.efficiency:.1%}{died})"
        )

    @property
    def out_of_memory(self) -> int | None:
        """The event that found no memory, where the program would have stopped; None if there was enough."""
        return len(self.reserved) if len(self.reserved) < len(self.trace) else None

    @property
    def requested_peak(self) -> int:
        """The most bytes requested at once: what an allocator without any loss needs."""
        return int(self.requested.max(initial=0))

    @property
    def allocated_peak(self) -> int:
        """The most bytes allocated at once, as `torch.cuda.max_memory_allocated`."""
        return int(self.allocated.max(initial=0))

    @property
    def efficiency(self) -> float:
        """Most bytes allocated / most bytes reserved; 1 if nothing was reserved."""
        return self.allocated_peak / self.reserved_peak if self.reserved_peak else 1.0

    @property
    def requested_efficiency(self) -> float:
        """Most bytes requested / most bytes reserved; 1 if nothing was reserved."""
        return self.requested_peak / self.reserved_peak if self.reserved_peak else 1.0

    @property
    def fragmentation(self) -> int:
        """Bytes reserved beyond what was ever allocated at once."""
        return self.reserved_peak - self.allocated_peak

    @property
    def peak_event(self) -> int | None:
        """The event at which the most bytes are reserved for the first time; None without events."""
        return int(self.reserved.argmax()) if len(self.reserved) else None

    def blocks(self, event: int | None = None) -> CachedBlocks:
        """All blocks after an event, which defaults to `peak_event`. Simulates up to there again.

        After the event that found no memory, and all later ones, the blocks are as that one left them.

        Raises IndexError for an event that the trace does not have.
        """
        at = self.peak_event if event is None else event
        if at is not None and not 0 <= at < len(self.trace):
            raise IndexError(f"event {at} of a trace of {len(self.trace)} events")
        rows = _run(self.trace, self.settings, 0 if at is None else at + 1)[-1].reshape(-1, 4)
        return CachedBlocks(*(np.ascontiguousarray(column) for column in rows.T))


def simulate(trace: Trace, settings: CachingSettings | None = None) -> Simulation:
    """What PyTorch's caching allocator would do with the trace.

    Args:
        trace: requests and frees; all on one device, each on its stream.
        settings: default to PyTorch's own.
    """
    chosen = settings or CachingSettings()
    requested, allocated, reserved, counters, _ = _run(trace, chosen, len(trace))
    reserved_peak, times_taken = counters.tolist()
    return Simulation(
        trace=trace,
        settings=chosen,
        requested=requested,
        allocated=allocated,
        reserved=reserved,
        reserved_peak=reserved_peak,
        times_taken=times_taken,
    )


def _run(trace: Trace, settings: CachingSettings, events: int) -> tuple[NDArray[np.int64], ...]:
    most, rounding = settings.max_split_size, settings.max_non_split_rounding
    return native.kernels.simulate_caching(
        np.ascontiguousarray(trace.size[:events]),
        np.ascontiguousarray(trace.request[:events]),
        np.ascontiguousarray(trace.stream[:events]),
        settings.large_segment_size,
        _NO_LIMIT if most is None else most,
        settings.large_segment_size if rounding is None else rounding,
        np.array(settings.roundup_power2_divisions, np.int64),
        settings.expandable_segments,
    )
