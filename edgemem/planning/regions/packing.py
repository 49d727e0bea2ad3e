"""The arenas of single regions, each made by the strategies for the records that are to lie there."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from edgemem.planning.choice import choices
from edgemem.planning.problem_plan import plan_with_settings
from edgemem.plans import Settings
from edgemem.records.problem import Problem

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from edgemem.planning.regions.items import Items
    from edgemem.plans import OffsetPlan
    from edgemem.targets import Region

__all__ = ["Packing"]

# How `auto` finds out whether records fit: a rule first, then a short search.
_CHECKS: Final = ("offsets/greedy_by_size", "offsets/search:effort=fast")


class Packing:
    """Packs records into regions, and remembers what fits.

    Attributes:
        is_sure: whether all that did not fit was proved not to.
        left: how many more times strategies may be run to find out what fits.
    """

    def __init__(
        self, problem: Problem, items: Items, regions: Sequence[Region], settings: Settings, *, most: int
    ) -> None:
        self._problem, self._items, self._regions, self._settings = problem, items, regions, settings
        self._known: dict[tuple[int, bytes], OffsetPlan | None] = {}
        self.is_sure, self.left = True, most

    def accepts(self, where: NDArray[np.int64]) -> bool:
        """Whether the items of each region fit in it."""
        return all(self.plan(where, r) is not None for r in range(len(self._regions)))

    def overfull(self, where: NDArray[np.int64]) -> list[int]:
        """The regions in which their items do not fit."""
        return [r for r in range(len(self._regions)) if self.plan(where, r) is None]

    def plan(self, where: NDArray[np.int64], r: int) -> OffsetPlan | None:
        """A plan of a region's items that fits in it; None if none was found."""
        key = (r, np.packbits(where == r).tobytes())
        if key not in self._known:
            self._known[key] = self._packed(where, r)
        return self._known[key]

    def best(self, where: NDArray[np.int64], r: int, progress: Callable[[str], None]) -> OffsetPlan:
        """The smallest plan of a region's items that the settings give, for a choice that was accepted."""
        known = self.plan(where, r)
        made = plan_with_settings(
            self.part(where, r),
            self._settings,
            families=("offsets",),
            fits=self._regions[r].capacity,
            progress=progress,
        )
        best = made.best_offsets
        assert known is not None
        return known if best is None or known.size < best.size else best

    def part(self, where: NDArray[np.int64], r: int) -> Problem:
        """The records of one region, in the order of all of them, as a problem of their own."""
        chosen = self.records(where, r)
        number = np.full(len(self._problem), -1, np.int64)
        number[chosen] = np.arange(len(chosen))
        p, region = self._problem, self._regions[r]

        def rows(of: NDArray[np.int64] | None) -> NDArray[np.int64]:
            if of is None:
                return np.zeros((0, 3), np.int64)
            both = np.stack((number[of[:, 0]], number[of[:, 1]], of[:, 2]), axis=1)
            return both[(both[:, :2] >= 0).all(axis=1)]

        return Problem(
            [replace(p.records[i], regions=(), traffic=0) for i in chosen.tolist()],
            alignment=max(p.alignment, region.alignment),
            reserved=p.given_reserved if r == 0 else region.reserved,
            overlap=rows(p.overlap),
            within=rows(p.within),
            roles=None if p.roles is None else p.roles[chosen],
            phases=None if p.phases is None else p.phases[chosen],
        )

    def records(self, where: NDArray[np.int64], r: int) -> NDArray[np.int64]:
        """The indices of the records of a region's items, ascending."""
        return np.array(sorted(i for k in np.flatnonzero(where == r) for i in self._items.members[k]), np.int64)

    def _packed(self, where: NDArray[np.int64], r: int) -> OffsetPlan | None:
        capacity = self._regions[r].capacity
        part = self.part(where, r)
        is_auto = self._settings.strategies == ("auto",)
        able = [name for name in _CHECKS if choices(name)[0].strategy.can_plan(part)]
        checks = [Settings((name,)) for name in able] if is_auto else [replace(self._settings, time_limit=None)]
        for settings in checks:
            if self.left <= 0:
                break
            self.left -= 1
            made = plan_with_settings(part, settings, families=("offsets",))
            best = made.best_offsets
            if best is not None and (capacity is None or best.size <= capacity):
                return best
            if capacity is not None and made.proved.offsets > capacity:
                return None
        self.is_sure = False
        return None
