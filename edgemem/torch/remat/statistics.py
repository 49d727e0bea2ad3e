"""What happened to a program under a budget of memory."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from edgemem.replay.remat import MemoryCounts

__all__ = ["Notes", "RematerializationStats"]


class Notes:
    """What the user should know about a context, a line for each."""

    def __init__(self) -> None:
        self._lines: dict[str, None] = {}
        self._kept: Counter[str] = Counter()
        self._kept_bytes: Counter[str] = Counter()

    def add(self, line: str) -> None:
        """Add a line, once."""
        self._lines[line] = None

    def keep(self, reason: str, size: int) -> None:
        """A tensor stays in memory, and what is made of it, because something else knows its memory."""
        self._kept[reason] += 1
        self._kept_bytes[reason] += size

    def lines(self) -> tuple[str, ...]:
        """All lines."""
        kept = (
            f"{reason}: {count:,} tensor{'s' * (count > 1)} of {self._kept_bytes[reason]:,} bytes in all stay in memory"
            for reason, count in self._kept.items()
        )
        return (*self._lines, *kept)


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
        notes: what keeps memory that could be evicted otherwise, and what runs in another way than outside.
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
    notes: tuple[str, ...] = ()

    @classmethod
    def of(cls, counts: MemoryCounts, notes: Notes) -> RematerializationStats:
        """From what the memory counted, and what is to be told."""
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
            notes=notes.lines(),
        )

    def __str__(self) -> str:
        """For people."""
        of = "" if self.budget is None else f" of {self.budget:,}"
        counts = (
            f"peak {self.peak:,}{of} bytes, {self.evictions:,} evictions, {self.recomputed_calls:,} operators run "
            f"again in {self.recomputed_seconds * 1e3:,.1f} ms, {self.searches:,} searches in "
            f"{self.search_seconds * 1e3:,.1f} ms, fragmentation {self.fragmentation:.1%}"
        )
        return "\n".join((counts, *self.notes))
