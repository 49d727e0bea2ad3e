"""Changes of what a plan set says besides its records and their places: its target, and what it is a plan of."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from edgemem.errors import EdgememError
from edgemem.plans import LowerBounds, Settings
from edgemem.targets import Region
from tests.oracle.memory_plans.draft import Draft, kind, names_of, remove

if TYPE_CHECKING:
    from random import Random

    from edgemem import PlanSet

__all__: list[str] = []

_REASONS = (
    *("", "the file leaves it to the runtime", "a graph input, held by the caller", "in a branch that is never taken"),
    *("its size depends on the data", "LiteRT keeps it elsewhere", "int4, not a texture format"),
)
_FIELDS: dict[str, tuple[Any, ...]] = {
    "alignment": (1, 2, 8, 16, 32, 64, 128, 256, 1024),
    "inputs": ("outside", "until_last_use", "whole_run"),
    "outputs": ("outside", "to_end"),
    "unread": ("one_op", "to_end"),
    "variables": ("outside", "whole_run"),
    "aliasing": ("none", "elementwise", "tflm", "litert", "gpu", "gpu-views"),
    "bodies": ("inline", "outside"),
    "sub_byte": ("packed", "unpacked"),
    "scratch": ("unknown", "litert"),
    "texels": (False, True),
    "storage": ("plain", "phwc4"),
    "precision": ("fp32", "fp16"),
    "texel_row": (0, 1, 3, 16, 1024),
    "layer_rows": (0, 1, 2, 4),
    "texture_side": (1, 4, 16, 8192),
    "binding": (0, 16, 64, 2**27),
    "name": ("tflm", "litert", "generic", "x"),
}


def _with(planset: PlanSet, **changes: Any) -> PlanSet | None:
    """Another target; None where the plan set has none or nothing is different."""
    if planset.target is None:
        return None
    try:
        target = replace(planset.target, **changes)
    except EdgememError:
        return None
    return None if target == planset.target else replace(planset, target=target)


def _register(field: str) -> None:
    @kind(f"target: {field}")
    def change(rng: Random, d: Draft) -> PlanSet | None:
        return _with(d.planset, **{field: rng.choice(_FIELDS[field])})


for _field in _FIELDS:
    _register(_field)


@kind("target: regions")
def _regions(rng: Random, d: Draft) -> PlanSet | None:
    size = d.plan.size
    capacity = rng.choice((None, size, max(size - 1, 0), size + 64, 0))
    begin = rng.randrange(max(size, 1))
    reserved = rng.choice(((), ((begin, begin + rng.choice((1, 16, 64))),), ((0, 0),)))
    return _with(d.planset, regions=(Region("arena", capacity, reserved), *rng.choice(((), (Region("more"),)))))


@kind("target: pins")
def _pins(rng: Random, d: Draft) -> PlanSet | None:
    name = rng.choice(names_of(d.records[d.any(rng)]))
    return _with(d.planset, pins=rng.choice(({}, {name: 64 * rng.randrange(8)})))


@kind("target: states")
def _states(rng: Random, d: Draft) -> PlanSet | None:
    names = [n for r in d.records for n in names_of(r)] + [n for n, _ in d.planset.unplanned]
    return _with(d.planset, states=rng.choice(({}, {rng.choice(names): rng.choice(names)})))


@kind("target: none")
def _no_target(_: Random, d: Draft) -> PlanSet | None:
    return replace(d.planset, target=None)


@kind("target: of another name altogether")
def _other_target(rng: Random, d: Draft) -> PlanSet | None:
    from edgemem.targets import BUILT_IN

    return replace(d.planset, target=BUILT_IN[rng.choice(list(BUILT_IN))])


@kind("unplanned: a record, with a reason")
def _record_unplanned(rng: Random, d: Draft) -> Draft:
    k = d.any(rng)
    gone = tuple((n, rng.choice(_REASONS)) for n in names_of(d.records[k]))
    remove(d, k)
    d.planset = replace(d.planset, unplanned=(*d.planset.unplanned, *gone))
    return d


@kind("unplanned: a tensor, with a reason")
def _tensor_unplanned(rng: Random, d: Draft) -> Draft | None:
    k = d.any(rng)
    names = names_of(d.records[k])
    gone = rng.choice(names)
    kept = tuple(n for n in names if n != gone)
    if not kept:
        return None
    d.records[k] = replace(d.records[k], name=kept[0], tensors=kept)
    d.planset = replace(d.planset, unplanned=(*d.planset.unplanned, (gone, rng.choice(_REASONS))))
    return d


@kind("unplanned: listed, too, or not any more")
def _unplanned(rng: Random, d: Draft) -> PlanSet | None:
    old = d.planset.unplanned
    more = (rng.choice(names_of(d.records[d.any(rng)])), rng.choice(_REASONS))
    return replace(d.planset, unplanned=rng.choice(((), old[1:], (*old, more), (*old, ("nothing", "")))))


@kind("order")
def _order(rng: Random, d: Draft) -> PlanSet | None:
    count = len(d.planset.steps)  # more than the main graph has, where there are bodies
    order = list(range(count))
    for _ in range(rng.choice((0, 1, 1, 2))):
        at = rng.randrange(max(count - 1, 1))
        order[at : at + 2] = order[at : at + 2][::-1]
    return replace(d.planset, order=tuple(order))


@kind("digest")
def _digest(rng: Random, d: Draft) -> PlanSet | None:
    return replace(d.planset, digest=rng.choice(("", "0" * 64, d.planset.digest[::-1])))


@kind("steps")
def _steps(rng: Random, d: Draft) -> PlanSet | None:
    steps = d.planset.steps
    return replace(d.planset, steps=rng.choice(((), steps[1:], steps[::-1], (*steps, "more"))))


@kind("bounds and sizes")
def _bounds(rng: Random, d: Draft) -> PlanSet | None:
    bounds, change = d.planset.bounds, rng.choice((-64, -1, 1, 64))
    return rng.choice(
        (
            replace(d.planset, bounds=LowerBounds(max(bounds.offsets + change, 0), bounds.shared_objects)),
            replace(d.planset, bounds=LowerBounds(bounds.offsets, max(bounds.shared_objects + change, 0))),
            replace(d.planset, naive=max(d.planset.naive + change, 0)),
        )
    )


@kind("settings and bindings")
def _settings(rng: Random, d: Draft) -> PlanSet | None:
    alignment = rng.choice((1, 16, 256))
    changes: tuple[dict[str, Any], ...] = (
        {"settings": Settings(alignment=alignment)},
        {"dims": {"n": 3}},
        {"input_shapes": {"in0": (1,)}},
        {"versions": {"edgemem": "9"}},
    )
    return replace(d.planset, **rng.choice(changes))
