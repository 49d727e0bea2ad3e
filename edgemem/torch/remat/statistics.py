"""What happened to a program under a budget of memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from edgemem.replay.remat import MemoryCounts

__all__ = ["RematerializationStats"]


@dataclass(frozen=True, slots=True)
class RematerializationStats:
    """What happened inside a context of `rematerialize`, as its allocator counts it. Bytes, counts and seconds.

    Attributes:
        budget: of the pool; None for none.
        peak: most bytes of tensors and workspace at once, rounded up to 64 for each. Never above the budget.
        peak_at_end: the same with what was made again when the context ended, which the budget does not bound.
        pinned_bytes: of what cannot be evicted: made by no operator that may run again, or workspace.
        requests: for memory.
        evictions: of values, to make room.
        evicted_bytes: of these.
        recomputed_calls: operators that ran again.
        recomputed_seconds: that they took.
        searches: passes over all blocks for values to evict.
        evaluations: of heuristics, in these.
        search_seconds: that they took.
        moves: of blocks, where enough was free, but not in one piece.
        fragmentation: free share of the pool when a request did not fit, on average (Coop, section 4.2).
    """

    budget: int | None
    peak: int
    peak_at_end: int
    pinned_bytes: int
    requests: int
    evictions: int
    evicted_bytes: int
    recomputed_calls: int
    recomputed_seconds: float
    searches: int
    evaluations: int
    search_seconds: float
    moves: int
    fragmentation: float

    @classmethod
    def of(cls, counts: MemoryCounts) -> RematerializationStats:
        """From what the memory counted."""
        return cls(
            budget=None if counts.budget < 0 else counts.budget,
            peak=counts.peak,
            peak_at_end=counts.last_peak,
            pinned_bytes=counts.pinned,
            requests=counts.requests,
            evictions=counts.evictions,
            evicted_bytes=counts.evicted_bytes,
            recomputed_calls=counts.recomputed_calls,
            recomputed_seconds=counts.recomputed_ns / 1e9,
            searches=counts.searches,
            evaluations=counts.evaluations,
            search_seconds=counts.search_ns / 1e9,
            moves=counts.moves,
            fragmentation=counts.fragmentation,
        )

    def __str__(self) -> str:
        """For people."""
        of = "" if self.budget is None else f" of {self.budget:,}"
        return (
            f"peak {self.peak:,}{of} bytes, {self.evictions:,} evictions, {self.recomputed_calls:,} operators run "
            f"again in {self.recomputed_seconds * 1e3:,.1f} ms, {self.searches:,} searches in "
            f"{self.search_seconds * 1e3:,.1f} ms, fragmentation {self.fragmentation:.1%}"
        )
