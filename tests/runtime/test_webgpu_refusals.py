"""Plans that are wrong are refused before a device is opened; what a device does not hold is refused by name."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import edgemem
from edgemem.errors import EdgememError, InvalidPlanError, StalePlanError, UnsupportedError
from edgemem.plans import OffsetPlan, PlanSet, SharedObjectsPlan
from edgemem.proof import prove
from edgemem.records.problem import Problem, UsageRecord
from edgemem.runtime.webgpu import executor as executor_module
from edgemem.runtime.webgpu.places import check_profile, planned_places, separate_places
from edgemem.runtime.webgpu.profile import GpuProfile, portable_profile
from edgemem.strategy.bounds import lower_bounds, naive_size
from edgemem.targets import BUILT_IN
from tests.webgpu_programs import Net, classifier, pyramid

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from edgemem.model.graph import Graph

Offsets = "NDArray[np.int64]"


class DeviceOpenedError(AssertionError):
    """The executor went as far as to open a device."""


@pytest.fixture
def no_device(monkeypatch: pytest.MonkeyPatch) -> None:
    def opened(*_: object) -> None:
        raise DeviceOpenedError

    monkeypatch.setattr(executor_module, "open_device", opened)


def rebuilt(planset: PlanSet, rows: list[tuple[UsageRecord, int]], *, size: int | None = None) -> PlanSet:
    """An offset plan of other records, with bounds and sizes that fit them."""
    best = planset.best_offsets
    assert best is not None
    problem = Problem([record for record, _ in rows], alignment=planset.problem.alignment)
    offsets = np.array([offset for _, offset in rows], np.int64)
    bounds = lower_bounds(problem)
    whole = int((offsets + problem.size).max()) if size is None else size
    plan = OffsetPlan(best.strategy, {}, offsets, whole, optimal=whole == bounds.offsets)
    return replace(
        planset, problem=problem, offsets=(plan,), shared_objects=(), bounds=bounds, naive=naive_size(problem)
    )


def with_offsets(planset: PlanSet, change: Callable[[NDArray[np.int64]], NDArray[np.int64]]) -> PlanSet:
    """The same records at other offsets."""
    best = planset.best_offsets
    assert best is not None
    rows = zip(planset.problem.records, change(best.offsets.copy()).tolist(), strict=True)
    return rebuilt(planset, [(record, max(offset, 0)) for record, offset in rows])


def with_records(planset: PlanSet, change: Callable[[list[UsageRecord]], list[UsageRecord]]) -> PlanSet:
    """Other records, each behind the one before it, so that none overlap."""
    rows, end = [], 0
    for record in change(list(planset.problem.records)):
        rows.append((record, end))
        end += -(-int(str(record.size)) // 256) * 256
    return rebuilt(planset, rows)


def planned_anew(planset: PlanSet, change: Callable[[UsageRecord], UsageRecord]) -> PlanSet:
    """The best plan of other records: right by itself, but not for the graph."""
    records = [change(record) for record in planset.problem.records]
    made = edgemem.plan(Problem(records, alignment=planset.problem.alignment), strategy="offsets/greedy_by_size")
    return replace(made, target=planset.target, digest=planset.digest, steps=planset.steps)


def raw(planset: PlanSet, **fields: Any) -> PlanSet:
    """The best plan with other fields, and nothing made to fit them."""
    best = planset.best_offsets
    assert best is not None
    return replace(planset, offsets=(replace(best, **fields),), shared_objects=())


def merged(one: int, other: int) -> Callable[[list[UsageRecord]], list[UsageRecord]]:
    """Two records as one, as if the tensors of the second were written over those of the first."""

    def change(records: list[UsageRecord]) -> list[UsageRecord]:
        a, b = records[one], records[other]
        both = replace(
            a,
            first_op=min(a.first_op, b.first_op),
            last_op=max(a.last_op, b.last_op),
            size=max(int(str(a.size)), int(str(b.size))),
            tensors=(*a.tensors, *b.tensors),
        )
        return [both if k == one else r for k, r in enumerate(records) if k != other]

    return change


def changed(number: int, **fields: Any) -> Callable[[list[UsageRecord]], list[UsageRecord]]:
    return lambda records: [replace(r, **fields) if k == number else r for k, r in enumerate(records)]


def swapped(offsets: NDArray[np.int64]) -> NDArray[np.int64]:
    """The tensors at the lowest and the highest place change places."""
    low, high = int(offsets.argmin()), int(offsets.argmax())
    offsets[[low, high]] = offsets[[high, low]]
    return offsets


WRONG_OFFSETS: dict[str, Callable[[PlanSet], PlanSet]] = {
    "all at 0": lambda p: with_offsets(p, np.zeros_like),
    "two at one place": lambda p: with_offsets(p, lambda o: np.where(o == o.max(), o.min(), o)),
    "swapped": lambda p: with_offsets(p, swapped),
    "one texel lower": lambda p: with_offsets(p, lambda o: np.where(o == o.max(), o - 16, o)),
    "one alignment lower": lambda p: with_offsets(p, lambda o: np.where(o == o.max(), o - 256, o)),
    "unaligned": lambda p: with_offsets(p, lambda o: np.where(o == o.max(), o + 4, o)),
    "half of the arena": lambda p: raw(p, size=p.best_offsets.size // 2),  # type: ignore[union-attr]
    "a larger arena": lambda p: raw(p, size=p.best_offsets.size + 256),  # type: ignore[union-attr]
    "negative": lambda p: raw(p, offsets=p.best_offsets.offsets - 256),  # type: ignore[union-attr]
    "too few": lambda p: raw(p, offsets=p.best_offsets.offsets[:-1]),  # type: ignore[union-attr]
    "none": lambda p: replace(p, offsets=(), shared_objects=()),
    "dead too early": lambda p: planned_anew(p, lambda r: replace(r, last_op=r.first_op)),
    "born too late": lambda p: planned_anew(p, lambda r: replace(r, first_op=r.last_op)),
    "too small": lambda p: with_records(p, changed(0, size=16)),
    "a texel too small": lambda p: with_records(
        p, lambda rs: [replace(r, size=max(int(str(r.size)) - 16, 0)) for r in rs]
    ),
    "without a tensor": lambda p: with_records(p, lambda rs: rs[1:]),
    "without names": lambda p: with_records(p, changed(0, tensors=("nothing",), name="nothing")),
    "one tensor twice": lambda p: with_records(p, lambda rs: [*rs, rs[-1]]),
    "two live tensors in one record": lambda p: with_records(p, merged(0, 1)),
    "stale": lambda p: replace(p, digest="0" * 64),
    "of fp16": lambda p: planned_anew(p, lambda r: replace(r, size=int(str(r.size)) // 2)),
    "without aliases": lambda p: replace(p, target=replace(BUILT_IN["gpu-buffer"], aliasing="none")),
    "views alone": lambda p: replace(p, target=replace(BUILT_IN["gpu-buffer"], aliasing="gpu-views")),
    "dense": lambda p: replace(p, target=BUILT_IN["generic"]),
    "of an order that cannot be": lambda p: replace(p, digest="2" * 64, order=tuple(reversed(range(12)))),
    "of another order": lambda p: replace(p, digest="2" * 64, order=(1, 0, *range(2, 12))),
    "optimal by claim": lambda p: replace(p, bounds=replace(p.bounds, offsets=p.bounds.offsets + 16)),
}


@pytest.mark.usefixtures("no_device")
@pytest.mark.parametrize("name", WRONG_OFFSETS)
@pytest.mark.parametrize("sharing", [True, False])
def test_wrong_offset_plans_are_refused_before_a_device_is_opened(name: str, sharing: bool) -> None:
    ready = classifier()
    planset = edgemem.plan(ready.graph(), target="gpu-buffer", strategy="offsets/greedy_by_size")
    with pytest.raises(EdgememError) as caught:
        edgemem.GpuExecutor(ready, WRONG_OFFSETS[name](planset), sharing=sharing)
    assert isinstance(caught.value, UnsupportedError if name == "dense" else EdgememError)
    if name == "stale":
        assert isinstance(caught.value, StalePlanError)
    assert "\n" not in str(caught.value)


@pytest.mark.usefixtures("no_device")
def test_the_plans_that_were_made_wrong_are_right_without_the_change() -> None:
    ready = classifier()
    for target in ("gpu-buffer", "gpu-texture", "gpu-texture-linear"):
        family = "offsets/greedy_by_size" if target == "gpu-buffer" else "shared_objects/greedy_by_size"
        planset = edgemem.plan(ready.graph(), target=target, strategy=family)
        with pytest.raises(DeviceOpenedError):
            edgemem.GpuExecutor(ready, planset)
    kept = with_records(edgemem.plan(ready.graph(), target="gpu-buffer"), lambda records: records)
    with pytest.raises(DeviceOpenedError):
        edgemem.GpuExecutor(ready, kept)


def with_objects(planset: PlanSet, assignment: NDArray[np.int64], objects: Any) -> PlanSet:
    """Other textures, with a total that fits them."""
    best = planset.best_shared_objects
    assert best is not None
    size = sum(int(np.prod(o)) for o in objects)
    is_best = size == planset.bounds.shared_objects
    plan = SharedObjectsPlan(best.strategy, {}, assignment, tuple(objects), size, optimal=is_best)
    return replace(planset, offsets=(), shared_objects=(plan,))


def textures(planset: PlanSet) -> tuple[NDArray[np.int64], list[tuple[int, ...]]]:
    best = planset.best_shared_objects
    assert best is not None
    return best.assignment.copy(), [o for o in best.objects if isinstance(o, tuple)]


def all_in_one(planset: PlanSet) -> PlanSet:
    assignment, objects = textures(planset)
    return with_objects(planset, assignment * 0, [tuple(np.max(objects, axis=0).tolist())])


def two_alive_in_one(planset: PlanSet) -> PlanSet:
    """The widest object holds everything of the next one, too."""
    assignment, objects = textures(planset)
    whole = tuple(np.max(objects, axis=0).tolist())
    return with_objects(planset, np.where(assignment == 1, 0, assignment), [whole, *objects[1:]])


def smaller(planset: PlanSet, axis: int) -> PlanSet:
    assignment, objects = textures(planset)
    objects[0] = tuple(side - (k == axis) for k, side in enumerate(objects[0]))
    return with_objects(planset, assignment, objects)


def turned(planset: PlanSet) -> PlanSet:
    """Width and height change places: the same area."""
    assignment, objects = textures(planset)
    return with_objects(planset, assignment, [tuple(reversed(o)) for o in objects])


def beyond(planset: PlanSet) -> PlanSet:
    assignment, objects = textures(planset)
    assignment[0] = len(objects)
    return with_objects(planset, assignment, objects)


def of_depth(planset: PlanSet) -> PlanSet:
    assignment, objects = textures(planset)
    return with_objects(planset, assignment, [(*o, 1) for o in objects])


def of_bytes(planset: PlanSet) -> PlanSet:
    assignment, objects = textures(planset)
    return with_objects(planset, assignment, [int(np.prod(o)) for o in objects])


WRONG_TEXTURES: dict[str, Callable[[PlanSet], PlanSet]] = {
    "all in one": all_in_one,
    "two alive in one": two_alive_in_one,
    "a texel narrower": lambda p: smaller(p, 0),
    "a texel lower": lambda p: smaller(p, 1),
    "turned": turned,
    "an object that is not there": beyond,
    "three dimensions": of_depth,
    "bytes": of_bytes,
    "none": lambda p: replace(p, offsets=(), shared_objects=()),
    "stale": lambda p: replace(p, digest="1" * 64),
    "of linear textures": lambda p: replace(p, target=replace(BUILT_IN["gpu-texture"], texel_row=7)),
    "of results in place": lambda p: replace(p, target=replace(BUILT_IN["gpu-texture"], aliasing="none")),
}


@pytest.mark.usefixtures("no_device")
@pytest.mark.parametrize("name", WRONG_TEXTURES)
def test_wrong_texture_plans_are_refused_before_a_device_is_opened(name: str) -> None:
    ready = classifier("nchw", channels=6, side=10)
    planset = edgemem.plan(ready.graph(), target="gpu-texture", strategy="shared_objects/greedy_by_size")
    assignment, objects = textures(planset)
    assert len(objects) > 1
    assert any(o[0] != o[1] for o in objects)
    with pytest.raises(EdgememError) as caught:
        edgemem.GpuExecutor(ready, WRONG_TEXTURES[name](planset))
    assert "\n" not in str(caught.value)
    assert len(assignment) == len(planset.problem)


def profile(**limits: int) -> GpuProfile:
    own = {name.replace("_", "-"): value for name, value in limits.items()}
    return GpuProfile("small", {**portable_profile().limits, **own})


def all_tensors(graph: Graph) -> range:
    return range(len(graph.tensors))


def test_places_are_checked_against_the_profile_before_anything_is_allocated() -> None:
    graph = pyramid(60).graph()
    planned = edgemem.plan(graph, target="gpu-buffer", alignment=64)
    layout = planned_places(prove(planned, graph), graph, all_tensors(graph))
    assert any(place.offset % 256 for place in layout.places.values())
    with pytest.raises(InvalidPlanError, match=r"takes multiples of 256; plan again with --alignment 256"):
        check_profile(layout, graph, portable_profile())
    check_profile(layout, graph, profile(min_storage_buffer_offset_alignment=64))
    binding = profile(min_storage_buffer_offset_alignment=64, max_storage_buffer_binding_size=4096)
    with pytest.raises(UnsupportedError, match=r"tensor 'x' has 56.25 KiB, and .* reaches 4.00 KiB; plan for gpu-tex"):
        check_profile(layout, graph, binding)
    arena = profile(min_storage_buffer_offset_alignment=64, max_buffer_size=60_000)
    with pytest.raises(UnsupportedError, match=r"the arena has .* KiB, and a buffer of the profile .* 58.59 KiB"):
        check_profile(layout, graph, arena)
    whole = separate_places(BUILT_IN["gpu-texture"], graph, all_tensors(graph))
    check_profile(whole, graph, portable_profile())
    with pytest.raises(UnsupportedError, match=r"'x' takes 60 x 60 texels, and textures of .* sides of 32; plan for"):
        check_profile(whole, graph, profile(max_texture_dimension_2d=32))


def test_a_tensor_too_large_for_a_texture_lies_by_index_and_one_too_large_for_a_binding_is_named() -> None:
    net = Net()
    x = net.input("x", 1, 4, 1, 9000)
    ready = net.ready(net.unary("Relu", "relu", x))
    graph = ready.graph()
    layout = separate_places(BUILT_IN["gpu-texture"], graph, all_tensors(graph))
    place = layout.places[x].texels
    assert place is not None
    assert place.linear
    assert max(place.width, place.height) <= 8192
    check_profile(layout, graph, portable_profile())
    net = Net()
    x = net.input("x", 1, 4, 4096, 4096)
    ready = net.ready(net.unary("Relu", "relu", x))
    with pytest.raises(UnsupportedError, match="'x'"):
        edgemem.GpuExecutor(ready)


@pytest.mark.usefixtures("no_device")
def test_more_elements_than_an_index_counts_are_refused_before_a_kernel_is_chosen() -> None:
    net = Net()
    x = net.input("x", 1, 3_000_000_000)
    ready = net.ready(net.unary("Relu", "relu", x))
    planset = edgemem.plan(ready.graph(), target=replace(BUILT_IN["gpu-buffer"], binding=0))
    with pytest.raises(UnsupportedError, match=r"'x' has more elements than a kernel can count"):
        edgemem.GpuExecutor(ready, planset)
