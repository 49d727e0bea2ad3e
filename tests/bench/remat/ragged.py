"""Rows of different lengths in two columns."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from edgemem.errors import ModelError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

__all__ = ["Ragged"]


@dataclass(frozen=True, slots=True, eq=False)
class Ragged:
    """Rows of integers, one behind the other; row i is `items[starts[i] : starts[i + 1]]`.

    Attributes:
        starts: int64 [rows + 1], ascending from 0 to the number of items.
        items: int64 [items].

    Raises ModelError if the starts do not divide the items into rows.
    """

    starts: NDArray[np.int64]
    items: NDArray[np.int64]

    def __post_init__(self) -> None:
        starts = self.starts
        if not len(starts) or starts[0] != 0 or starts[-1] != len(self.items) or (np.diff(starts) < 0).any():
            raise ModelError("the starts of rows do not divide their items; they ascend from 0 to the number of items")

    @classmethod
    def from_rows(cls, rows: Iterable[Sequence[int]]) -> Ragged:
        """Rows as they come."""
        given = [tuple(row) for row in rows]
        starts = np.zeros(len(given) + 1, np.int64)
        np.cumsum([len(row) for row in given], out=starts[1:])
        return cls(starts, np.array([item for row in given for item in row], np.int64))

    def __len__(self) -> int:
        return len(self.starts) - 1

    def rows(self) -> tuple[tuple[int, ...], ...]:
        """All rows."""
        items, starts = self.items.tolist(), self.starts.tolist()
        return tuple(tuple(items[a:b]) for a, b in pairwise(starts))
