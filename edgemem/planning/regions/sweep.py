"""Chooses regions from the first section of time to the last, for all choices of what is alive at once.

    state = the region of each item that is alive         section    alive    states
    at each section: items that end are forgotten, and    0          a b      aa ab ba bb
    of states that are then the same the cheapest stays   1          b c      (a forgotten)  ...

This is dynamic programming over the sections: nothing is cheaper, if all states that may lead to something cheaper
were kept. There are as many as regions to the power of what is alive at once, but for those without room and those
that the bound by prices rules out. Where there are still too many, the most promising stay, and nothing is proved.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from edgemem.planning.regions.items import Items
    from edgemem.planning.regions.prices import Bound

__all__ = ["sweep_sections"]

_STATES: Final = 20_000
_WORK: Final = 4_000_000  # states of all items together
_MOST_CODE: Final = 2.0**62


def sweep_sections(items: Items, bound: Bound, upper: int | None) -> tuple[NDArray[np.int64] | None, bool]:
    """The cheapest choice below `upper`, if there is one; and whether it is proved that nothing is cheaper."""
    return _Sweep(items, bound, upper).run()


class _Sweep:
    def __init__(self, items: Items, bound: Bound, upper: int | None) -> None:
        self._items, self._bound = items, bound
        # Sums from here on lead to nothing cheaper: costs are multiples of the unit.
        self._limit = np.inf if upper is None else float(upper - bound.unit)
        self._most = min(_STATES, _WORK // max(len(items), 1))
        self._alive: list[int] = []
        self._regions = np.zeros((1, 0), np.int64)  # [states, alive]
        self._cost, self._above = np.zeros(1, np.int64), np.full(1, bound.exact)
        self._history: list[tuple[int, NDArray[np.int64], NDArray[np.int64]]] = []  # item, state before, its region
        self._is_whole = True

    def run(self) -> tuple[NDArray[np.int64] | None, bool]:
        items = self._items
        beginning: dict[int, list[int]] = {}
        for i, section in enumerate(items.begin.tolist()):
            beginning.setdefault(section, []).append(i)
        for section in range(len(items.steps)):
            if not self._forget(section):
                return None, False
            used = np.zeros((len(self._cost), len(items.room)), np.int64)
            for column, i in enumerate(self._alive):
                of = self._regions[:, column]
                used[np.arange(len(of)), of] += self._weight(i, section)[of]
            for i in beginning.get(section, ()):
                used = self._add(i, section, used)
            fitting = (used <= items.room).all(axis=1)
            if not fitting.all():
                self._keep(np.flatnonzero(fitting))
            if not len(self._cost):
                return None, self._is_whole
        where = np.full(len(items), -1, np.int64)
        state = int(self._cost.argmin())
        if self._cost[state] > self._limit:  # the bound was lower than what it costs
            return None, self._is_whole
        for i, before, of in reversed(self._history):
            if i >= 0:
                where[i] = of[state]
            state = int(before[state])
        return where, self._is_whole

    def _weight(self, i: int, section: int) -> NDArray[np.int64]:
        profile = self._items.profiles[i]
        return profile[:, section - int(self._items.begin[i]) if profile.shape[1] > 1 else 0]

    def _forget(self, section: int) -> bool:
        """Leaves out items that have ended. False: too many are alive for their regions to be one number."""
        stay = [k for k, i in enumerate(self._alive) if self._items.end[i] > section]
        if len(stay) == len(self._alive):
            return True
        self._alive = [self._alive[k] for k in stay]
        self._regions = self._regions[:, stay]
        base = len(self._items.room)
        if float(base) ** len(stay) > _MOST_CODE:
            return False
        codes = self._regions @ (base ** np.arange(len(stay), dtype=np.int64))
        order = np.lexsort((self._cost, codes))
        first = np.ones(len(order), np.bool_)
        first[1:] = codes[order][1:] != codes[order][:-1]
        self._keep(np.sort(order[first]))
        return True

    def _add(self, i: int, section: int, used: NDArray[np.int64]) -> NDArray[np.int64]:
        """Every state with the item in each region that has room for it; what each uses then."""
        items, weight = self._items, self._weight(i, section)
        before, of = [], []
        for r in np.flatnonzero(items.allowed[i]).tolist():
            may = (used[:, r] + weight[r] <= items.room[r]) & (self._above + self._bound.above[i, r] <= self._limit)
            before.append(np.flatnonzero(may))
            of.append(np.full(len(before[-1]), r, np.int64))
        parents = np.concatenate([*before, np.zeros(0, np.int64)])
        regions = np.concatenate([*of, np.zeros(0, np.int64)])
        above = self._above[parents] + self._bound.above[i, regions]
        if len(parents) > self._most:
            best = np.sort(np.argsort(above, kind="stable")[: self._most])
            parents, regions, above, self._is_whole = parents[best], regions[best], above[best], False
        self._history.append((i, parents, regions))
        used = used[parents]
        used[np.arange(len(parents)), regions] += weight[regions]
        self._alive.append(i)
        self._regions = np.concatenate((self._regions[parents], regions.reshape(-1, 1)), axis=1)
        self._cost, self._above = self._cost[parents] + items.cost[i, regions], above
        return used

    def _keep(self, chosen: NDArray[np.int64]) -> None:
        self._history.append((-1, chosen, chosen))
        self._regions, self._cost, self._above = self._regions[chosen], self._cost[chosen], self._above[chosen]
