"""Proof that records lie in regions they may lie in, and that the regions hold them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from edgemem.proof.relations import Regions
from edgemem.proof.violations import Cause, violation

if TYPE_CHECKING:
    from collections.abc import Iterator

    from edgemem.plans import OffsetPlan, PlanSet
    from edgemem.proof.violations import Violation
    from edgemem.records.problem import Problem
    from edgemem.targets import Target

__all__ = ["regions_of", "sweep_alignments", "sweep_capacity", "sweep_regions"]


def regions_of(plan: OffsetPlan, target: Target | None) -> Regions | None:
    """Where the plan puts its records, with what the target reserves behind its first region; None for one arena."""
    if plan.regions is None and not plan.region_sizes:
        return None
    of = np.zeros(len(plan.offsets), np.int64) if plan.regions is None else plan.regions
    sizes = plan.region_sizes or (plan.size,)
    behind = target.regions[: len(sizes)] if target else ()
    alignments = tuple(region.alignment for region in behind)
    return Regions(of, sizes, ((), *(region.reserved for region in behind[1:])), alignments)


def sweep_alignments(problem: Problem, plan: OffsetPlan, regions: Regions) -> Iterator[Violation]:
    """Records at offsets that are no multiples of the alignment of their region."""
    for r, alignment in enumerate(regions.alignments):
        wrong = (problem.size > 0) & (regions.of == r) & (plan.offsets % alignment != 0)
        for i in np.flatnonzero(wrong).tolist():
            message = f"offset {plan.offsets[i]} of {problem.names[i]!r} in region {r} is no multiple of {alignment}"
            yield violation(plan, Cause.MISALIGNED, message, problem.names[i])


def sweep_regions(problem: Problem, plan: OffsetPlan) -> Iterator[Violation]:
    """Records in a region where they may not be, pinned ones in another than their first, and sizes that differ."""
    if plan.region_sizes and sum(plan.region_sizes) != plan.size:
        message = f"the regions' arenas add up to {sum(plan.region_sizes)}, not {plan.size}"
        yield violation(plan, Cause.WRONG_SIZE, message)
    if plan.regions is None and problem.regions is None:
        return
    of = np.zeros(len(problem), np.int64) if plan.regions is None else plan.regions
    pins = [-1] * len(problem) if problem.pinned is None else problem.pinned.tolist()
    masks = [0] * len(problem) if problem.regions is None else problem.regions.tolist()
    for name, size, region, mask, pin in zip(
        problem.names, problem.size.tolist(), of.tolist(), masks, pins, strict=True
    ):
        first = (mask & -mask).bit_length() - 1 if mask else 0
        if size and region >= 0 and mask and not mask >> region & 1:
            yield violation(plan, Cause.WRONG_REGION, f"{name!r} is in region {region}, where it may not be", name)
        elif size and pin >= 0 and region != first:
            yield violation(plan, Cause.WRONG_REGION, f"{name!r} is in region {region}, but is pinned in {first}", name)


def sweep_capacity(planset: PlanSet) -> Iterator[Violation]:
    """Regions of the target that do not hold their arena of the best plan, which is the one that is used."""
    plan, target = planset.best_offsets, planset.target
    if plan is None or target is None:
        return
    arenas = plan.region_sizes or (plan.size,)
    if len(arenas) > len(target.regions):
        message = f"the plan has {len(arenas)} regions, target {target.name!r} has {len(target.regions)}"
        yield violation(plan, Cause.WRONG_REGION, message)
    for region, arena in zip(target.regions, arenas, strict=False):
        if region.capacity is not None and arena > region.capacity:
            message = f"{arena} bytes are needed in region {region.name!r}, which has {region.capacity}"
            yield violation(plan, Cause.OVER_CAPACITY, message)
