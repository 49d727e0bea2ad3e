"""Snapshots of PyTorch's memory: `torch.cuda.memory._dump_snapshot`."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Self

from edgemem.errors import ModelError
from edgemem_converters.snapshot.process import read_apart

if TYPE_CHECKING:
    from pathlib import Path

    from edgemem.trace.history import MemoryHistory

__all__ = ["SnapshotConverter"]


class SnapshotConverter:
    """A snapshot as `torch.cuda.memory._dump_snapshot` writes it."""

    suffixes: ClassVar[tuple[str, ...]] = (".pickle", ".pkl")

    def __init__(self, histories: tuple[MemoryHistory, ...]) -> None:
        self._histories = histories

    def histories(self) -> tuple[MemoryHistory, ...]:
        """What each device was asked for, by number; only devices with segments or events."""
        return self._histories

    @classmethod
    def open(cls, path: Path) -> Self:
        """Read a file, and run nothing that is in it. Raises ModelError as `read_apart`."""
        try:
            return cls(read_apart(path))
        except ModelError as e:
            raise ModelError(f"{path.name}: {e}") from None
