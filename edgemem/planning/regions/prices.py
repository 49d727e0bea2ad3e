"""A lower bound of what items cost, by prices of room (Lagrange multipliers, Held & Karp 1971).

Each byte of a region has a price at each section of time. Items pay for the bytes that they take, each goes where it
costs least, room is no limit, and all room is paid back:

    bound = sum over items of min over regions (cost + price of its bytes) - sum of price * room

No placement that keeps to the room costs less, whatever the prices (0 or more). Prices are raised where too much is
wanted and lowered where room is left, until the bound grows no more.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, gcd
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from edgemem.planning.regions.items import Items

__all__ = ["Bound", "bound_by_prices", "usage"]

_ROUNDS: Final = 300
_PATIENCE: Final = 8  # rounds without a better bound, after which steps are halved
_ERROR: Final = 1e-9  # of the sums, which are floating-point numbers


@dataclass(frozen=True, slots=True, eq=False)
class Bound:
    """A lower bound, and what each choice costs above it.

    Attributes:
        value: no placement costs less.
        exact: the same before it is rounded up to what costs can be.
        above: float64 [items, R], what the bound grows by if the item is in that region; infinite where it may not be.
        unit: all costs are multiples of it.
    """

    value: int
    exact: float
    above: NDArray[np.float64]
    unit: int

    def rounded(self, value: float) -> int:
        """The least that costs can be at this value or above it."""
        return ceil(value / self.unit) * self.unit


def usage(items: Items, where: NDArray[np.int64]) -> NDArray[np.int64]:
    """int64 [R, sections]: the bytes in use where each item is in the region `where` says, -1 for none."""
    count = len(items.room)
    changes = np.zeros((count, len(items.steps) + 1), np.int64)
    of = where[items.pieces[:, 0]]
    for r in range(count):
        mine = of == r
        np.add.at(changes[r], items.pieces[mine, 1], items.weights[mine, r])
        np.subtract.at(changes[r], items.pieces[mine, 2], items.weights[mine, r])
    return changes.cumsum(axis=1)[:, :-1]


def bound_by_prices(items: Items, upper: int | None) -> Bound:
    """The best bound that is found, given what a placement costs (None: there is none yet)."""
    cost = np.where(items.allowed, items.cost.astype(np.float64), np.inf)
    unit = gcd(*items.cost.reshape(-1).tolist()) or 1
    count, sections = len(items.room), len(items.steps)
    prices = np.zeros((count, sections))
    best, above = -1.0, cost
    margin, since, aim = 1.0, 0, float(upper if upper is not None else items.cost.max(axis=1, initial=0).sum())
    for _ in range(_ROUNDS):
        sums = np.concatenate((np.zeros((count, 1)), prices.cumsum(axis=1)), axis=1)
        due = items.weights * (sums[:, items.pieces[:, 2]] - sums[:, items.pieces[:, 1]]).T
        full = cost.copy()
        np.add.at(full, items.pieces[:, 0], due)
        least = full.min(axis=1)
        back = float((prices * items.room.reshape(-1, 1)).sum())
        value = float(least.sum()) - back - _ERROR * (float(least.sum()) + back)
        if value > best + 1e-12 * abs(best):
            best, above, since = value, full - least.reshape(-1, 1), 0
        else:
            since += 1
            if since % _PATIENCE == 0:
                margin /= 2
        if upper is not None and ceil(best / unit) * unit >= upper:
            break
        slope = usage(items, full.argmin(axis=1)) - items.room.reshape(-1, 1).astype(np.float64)
        slope[(slope < 0) & (prices == 0)] = 0
        length = float((slope * slope).sum())
        if length == 0 or margin < 1e-4:
            break
        prices = np.maximum(prices + slope * (margin * max(aim - value, 1e-6 * abs(aim)) / length), 0)
    found = max(best, 0.0)
    return Bound(ceil(found / unit) * unit, found, above, unit)
