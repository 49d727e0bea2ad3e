"""What the best plan takes of each region of its target, and what the bytes that operators move cost there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from edgemem.plans import PlanSet
    from edgemem.targets import Region

__all__ = ["RegionUse", "region_uses"]


@dataclass(frozen=True, slots=True)
class RegionUse:
    """One region in a plan.

    Attributes:
        region: the region.
        alignment: of offsets in it, bytes.
        arena: bytes of its arena.
        moved: bytes that operators read and write in it in a run.
    """

    region: Region
    alignment: int
    arena: int
    moved: int

    @property
    def cost(self) -> int:
        """Of all that operators move in it."""
        return self.moved * self.region.cost


def region_uses(planset: PlanSet) -> tuple[RegionUse, ...]:
    """The regions of a plan set's target in the smallest offset plan; () where there is one region."""
    target, best, problem = planset.target, planset.best_offsets, planset.problem
    if target is None or best is None or len(target.regions) == 1:
        return ()
    of = np.zeros(len(problem), np.int64) if best.regions is None else best.regions
    sizes = best.region_sizes or (best.size,)
    traffic = np.zeros(len(problem), np.int64) if problem.traffic is None else problem.traffic
    return tuple(
        RegionUse(
            region,
            max(problem.alignment, region.alignment),
            sizes[r] if r < len(sizes) else 0,
            int(traffic[of == r].sum()),
        )
        for r, region in enumerate(target.regions)
    )
