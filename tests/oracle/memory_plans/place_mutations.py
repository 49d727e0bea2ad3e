"""Changes of where a plan puts its records."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from edgemem import OffsetPlan, PlanSet
from tests.oracle.memory_plans.draft import Draft, kind, larger, planset_of, random_size

if TYPE_CHECKING:
    from random import Random

__all__: list[str] = []


@kind("offset: anywhere")
def _anywhere(rng: Random, d: Draft) -> Draft | None:
    if not d.offsets:
        return None
    step = d.alignment if rng.random() < 0.8 else rng.choice((1, 2, 4, 8))
    most = max(d.plan.size // step, 1)
    d.places[d.any(rng)] = step * rng.randrange(most + 1)
    return d


@kind("offset: of another record")
def _onto(rng: Random, d: Draft) -> Draft | None:
    if not d.offsets or len(d.records) < 2:
        return None
    a, b = d.two(rng)
    d.places[a] = d.places[b] + rng.choice((0, 0, d.alignment, -d.alignment))
    return d if d.places[a] >= 0 else None


@kind("offset: two exchanged")
def _exchanged(rng: Random, d: Draft) -> Draft | None:
    if len(d.records) < 2:
        return None
    a, b = d.two(rng)
    d.places[a], d.places[b] = d.places[b], d.places[a]
    return d


@kind("offset: beyond the arena")
def _beyond(rng: Random, d: Draft) -> PlanSet | None:
    if not d.offsets:
        return None
    d.places[d.any(rng)] = d.plan.size + d.alignment * rng.randrange(4)
    return planset_of(d, repaired=False)


@kind("offset: unaligned or negative")
def _unaligned(rng: Random, d: Draft) -> Draft | None:
    if not d.offsets:
        return None
    d.places[d.any(rng)] += rng.choice((1, 2, 4, 8, 16, -1, -16, -64))
    return d


@kind("offset: unaligned, with the problem's alignment")
def _alignment(rng: Random, d: Draft) -> Draft | None:
    if not d.offsets:
        return None
    d.alignment = rng.choice((1, 2, 4, 8))
    k = d.any(rng)
    d.places[k] += d.alignment * rng.choice((1, 2, 3))
    for other in range(len(d.places)):
        if d.places[other] >= d.places[k] and other != k and rng.random() < 0.7:
            d.places[other] += d.alignment * 3
    return d


@kind("offset: all at 0")
def _zeros(_: Random, d: Draft) -> Draft:
    d.places = [0] * len(d.places)
    return d


@kind("arena: size")
def _arena(rng: Random, d: Draft) -> PlanSet | None:
    if not isinstance(d.plan, OffsetPlan):
        return None
    size = max(d.plan.size + rng.choice((-64, -16, -1, 1, 16, 64)), 0)
    return replace(d.planset, offsets=(replace(d.plan, size=size, optimal=False, search=None),), shared_objects=())


@kind("object: of another record")
def _object(rng: Random, d: Draft) -> Draft | None:
    if d.offsets or len(d.records) < 2:
        return None
    a, b = d.two(rng)
    d.places[a] = d.places[b]
    return d


@kind("object: two made one")
def _merged(rng: Random, d: Draft) -> Draft | None:
    if d.offsets or len(d.objects) < 2:
        return None
    a, b = rng.sample(range(len(d.objects)), 2)
    d.places = [a if p == b else p for p in d.places]
    d.places = [p - (p > b) for p in d.places]
    whole = larger([d.objects[a], d.objects[b]])
    assert whole is not None
    d.objects[a] = whole
    del d.objects[b]
    return d


@kind("object: size or form")
def _object_size(rng: Random, d: Draft) -> PlanSet | None:
    if d.offsets or not d.objects:
        return None
    k = rng.randrange(len(d.objects))
    d.objects[k] = random_size(rng, d.objects[k])
    return planset_of(d, repaired=False)


@kind("object: a number that is not there")
def _no_object(rng: Random, d: Draft) -> PlanSet | None:
    if d.offsets:
        return None
    d.places[d.any(rng)] = rng.choice((-1, len(d.objects), len(d.objects) + 3))
    return planset_of(d, repaired=False)


@kind("region: number or size")
def _region(rng: Random, d: Draft) -> PlanSet | None:
    if not isinstance(d.plan, OffsetPlan):
        return None
    old = d.plan.regions
    regions = np.zeros(len(d.places), np.int64) if old is None else np.array(old)
    if rng.random() < 0.7:
        regions[d.any(rng)] = rng.choice((0, 1, 2, -1))
    sizes = list(d.plan.region_sizes or (d.plan.size,))
    while len(sizes) < int(regions.max(initial=0)) + 1 and rng.random() < 0.9:
        sizes.append(d.plan.size)
    if rng.random() < 0.4:
        k = rng.randrange(len(sizes))
        sizes[k] = max(sizes[k] + rng.choice((-64, -16, 16, 64)), 0)
    plan = replace(d.plan, regions=regions, region_sizes=tuple(sizes), size=sum(sizes), optimal=False, search=None)
    return replace(d.planset, offsets=(plan,), shared_objects=())
