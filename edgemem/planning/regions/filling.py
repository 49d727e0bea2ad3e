"""Regions while they are filled with items, and what fits."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from edgemem.planning.regions.items import Items

__all__ = ["Filling"]


class Filling:
    """Which items lie in which regions, and the bytes in use there.

    Attributes:
        items: what there is to place.
        where: int64 [items], the region of each, -1 for none.
    """

    def __init__(self, items: Items) -> None:
        self.items = items
        self.where = np.full(len(items), -1, np.int64)
        self._room = items.room
        self._used = np.zeros((len(items.room), len(items.steps)), np.int64)
        self._spans = [slice(b, e) for b, e in zip(items.begin.tolist(), items.end.tolist(), strict=True)]

    @property
    def cost(self) -> int:
        """Of the items that are placed."""
        placed = np.flatnonzero(self.where >= 0)
        return int(self.items.cost[placed, self.where[placed]].sum())

    def free(self, i: int, r: int) -> int:
        """The bytes that are free in a region for as long as an item is alive."""
        return int(self._room[r]) - int(self._used[r, self._spans[i]].max())

    def fits(self, i: int, r: int) -> bool:
        """Whether a region has room for an item."""
        return bool((self._used[r, self._spans[i]] + self.items.profiles[i][r]).max() <= self._room[r])

    def put(self, i: int, r: int) -> None:
        """Places an item that lies nowhere."""
        self._used[r, self._spans[i]] += self.items.profiles[i][r]
        self.where[i] = r

    def take(self, i: int) -> int:
        """Takes an item out of its region, which is returned."""
        r = int(self.where[i])
        self._used[r, self._spans[i]] -= self.items.profiles[i][r]
        self.where[i] = -1
        return r

    def place(self, order: Iterable[int], rank: NDArray[np.float64]) -> int | None:
        """Puts each item into the region of least rank that has room.

        Returns None, or the first item without room, after which nothing is placed.
        """
        preferred = np.argsort(rank, axis=1, kind="stable").tolist()
        for i in order:
            r = next((r for r in preferred[i] if self.items.allowed[i, r] and self.fits(i, r)), None)
            if r is None:
                return i
            self.put(i, r)
        return None
