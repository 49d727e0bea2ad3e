"""What reading one file of a recording may take, whatever its format: bytes and items.

Snapshots, traces and operator logs (`.pickle`, `.npz`, `.log`, `.log.gz`) may come from strangers. Each reader counts
what it takes against one `ReadingBudget`, so that a small file cannot unpack into much memory or much work.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from edgemem.errors import ModelError

__all__ = ["MOST_BYTES", "MOST_ITEMS", "ReadingBudget"]

MOST_BYTES: Final = 1 << 29  # of the file as it lies there, and once more of what unpacks from it
MOST_ITEMS: Final = 5_000_000  # events, calls, values, blocks, lists, dictionaries, entries of a column


@dataclass(slots=True)
class ReadingBudget:
    """What is left of each.

    Attributes:
        unpacked: bytes that may still be unpacked.
        items: items that may still be made.
    """

    unpacked: int = MOST_BYTES
    items: int = MOST_ITEMS

    def unpack(self, count: int) -> None:
        """Count bytes. Raises ModelError where there are too many."""
        self.unpacked -= count
        if self.unpacked < 0:
            raise ModelError(f"it unpacks into more than {MOST_BYTES:,} bytes; record fewer iterations")

    def make(self, count: int) -> None:
        """Count items. Raises ModelError where there are too many."""
        self.items -= count
        if self.items < 0:
            raise ModelError(
                f"it has more than {MOST_ITEMS:,} events, lists and dictionaries; record fewer events, without stacks"
            )
