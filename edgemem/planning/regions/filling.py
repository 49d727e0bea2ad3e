"""Regions while they are filled with items: what fits, and exchanges that make a placement cheaper."""

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

    def improve(self, trials: int) -> None:
        """Moves items to regions where they cost less, and others out of their way, until none is worth it.

        At most so many moves are tried.
        """
        cost = self.items.cost
        changed = True
        while changed and trials > 0:
            changed = False
            gain = cost[np.arange(len(self.where)), self.where] - np.where(
                self.items.allowed, cost, np.iinfo(np.int64).max // 2
            ).min(axis=1)
            for i in np.argsort(-gain, kind="stable").tolist():
                if gain[i] <= 0 or trials <= 0:
                    break
                now = int(self.where[i])
                better = [r for r in np.argsort(cost[i], kind="stable").tolist() if cost[i, r] < cost[i, now]]
                for r in better:
                    trials -= 1
                    if self.items.allowed[i, r] and self._enter(i, r):
                        changed = True
                        break

    def _enter(self, i: int, r: int) -> bool:
        """Whether moving an item to a region, and others out of it, saves anything; then it is done."""
        cost, was = self.items.cost, self.take(i)
        saved = int(cost[i, was] - cost[i, r])
        moved: list[tuple[int, int]] = []  # items in another region now, and the one where they were
        self.put(i, r)
        while saved > 0:
            span = self._spans[i]
            excess = self._used[r, span] - self._room[r]
            worst = int(excess.argmax()) + span.start
            if excess[worst - span.start] <= 0:
                return True
            leaving = self._cheapest_to_leave(r, worst, i, int(excess[worst - span.start]), saved)
            if leaving is None:
                break
            k, other, loss = leaving
            moved.append((k, self.take(k)))
            self.put(k, other)
            saved -= loss
        for k, old in reversed(moved):
            self.take(k)
            self.put(k, old)
        self.take(i)
        self.put(i, was)
        return False

    def _cheapest_to_leave(
        self, r: int, section: int, kept: int, excess: int, most: int
    ) -> tuple[int, int, int] | None:
        """The item alive in a region at a section that leaves it at the least cost for a byte of the excess.

        Returns it with the region that it goes to and what that costs, less than `most`; None if there is none.
        """
        items = self.items
        alive = np.flatnonzero((self.where == r) & (items.begin <= section) & (items.end > section))
        best: tuple[float, int, int, int] | None = None
        for k in alive.tolist():
            if k == kept:
                continue
            profile = items.profiles[k][r]
            size = int(profile[section - items.begin[k] if len(profile) > 1 else 0])
            for other in np.argsort(items.cost[k], kind="stable").tolist():
                loss = int(items.cost[k, other] - items.cost[k, r])
                if other == r or not items.allowed[k, other] or loss >= most:
                    continue
                rate = loss / max(min(size, excess), 1)
                if (best is None or rate < best[0]) and self.fits(k, other):
                    best = (rate, k, other, loss)
                    break
        return best[1:] if best is not None else None
