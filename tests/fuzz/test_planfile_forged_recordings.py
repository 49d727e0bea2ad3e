"""Forged plan files of version 4: several plan sets, recordings and settings that no honest writer makes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from edgemem.errors import PlanFileError
from edgemem.planfile import decode_all
from tests.forge import PEAK_FLOOR, PEAK_RATIO, Forge, peak_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


def signature(f: Forge, **fields: int) -> int:
    return f.table("Signature", **({"Call": f.string("run")} | fields))


def recording(f: Forge, name: str = "r", /, **fields: int) -> int:
    """A recording of two events, which are those of the record that `planset` has, unless the fields say otherwise."""
    texts = {"Runtime": f.string(name), "Version": f.string("1"), "Model": f.string("m")}
    if "Signature" not in fields:
        fields["Signature"] = signature(f)
    return f.table("Recording", **(texts | {"Events": 2} | fields))


def records(f: Forge, rows: Sequence[tuple[int, int, int]]) -> int:
    first, last, sizes = (f.int64s([row[k] for row in rows]) for k in range(3))
    names = f.strings([b"n"] * len(rows))
    return f.table("Problem", Names=names, FirstOp=first, LastOp=last, Sizes=sizes, Kinds=f.octets(bytes(len(rows))))


def planset(f: Forge, recorded: int | None, rows: Sequence[tuple[int, int, int]] = ((0, 0, 8),), **fields: int) -> int:
    plan = f.table("OffsetPlan", Strategy=f.string("s"), Offsets=f.int64s([0] * len(rows)))
    own = {"Problem": records(f, rows), "Offsets": f.offsets([plan])}
    return f.table("PlanSet", **own, **({} if recorded is None else {"Recording": recorded}), **fields)


def refused(data: bytes, message: str) -> None:
    with pytest.raises(PlanFileError, match=message):
        decode_all(data)


def test_an_honest_one_is_read() -> None:
    f = Forge()
    (back,) = decode_all(f.finish_all(planset(f, recording(f))))
    assert back.recording is not None
    assert back.recording.trace.events.tolist() == [8, -1]


def test_what_one_file_cannot_hold() -> None:
    f = Forge()
    refused(f.finish_all(), "there are no plan sets")
    f = Forge()
    refused(f.finish_all(planset(f, None), planset(f, None)), "several plan sets without a recording or a cycle")
    f = Forge()
    refused(f.finish_all(planset(f, recording(f)), planset(f, recording(f))), "have the same fingerprint")
    f = Forge()
    assert len(decode_all(f.finish_all(planset(f, recording(f)), planset(f, recording(f, "other"))))) == 2
    f = Forge()
    refused(f.finish_all(planset(f, None)), "has version 4, but holds what version 1 is for")


def test_a_recording_in_a_file_of_version_1() -> None:
    f = Forge()
    plan = f.table("OffsetPlan", Strategy=f.string("s"), Offsets=f.int64s([0]))
    fields = {"Problem": records(f, [(0, 0, 8)]), "Offsets": f.offsets([plan]), "Recording": recording(f)}
    refused(f.finish(**fields), "has version 1, but holds what version 4 is for")


def test_plans_of_a_recording() -> None:
    f = Forge()
    no_plan = f.table("PlanSet", Problem=records(f, [(0, 0, 8)]), Recording=recording(f))
    refused(f.finish_all(no_plan), "not one offset plan")
    f = Forge()
    shared = f.table("SharedObjectsPlan", Strategy=f.string("s"), Assignment=f.int64s([0]), Objects=f.int64s([8]))
    refused(f.finish_all(planset(f, recording(f), SharedObjects=f.offsets([shared]))), "not one offset plan")


@pytest.mark.parametrize(
    ("rows", "events", "columns", "message"),
    [
        ([(0, 0, 8)], 3, {}, "3 events for 1 requests, of which 1 are freed"),
        ([(0, 0, 8)], -1, {}, "ends after the last"),
        ([(0, 0, 8)], 2**63 - 1, {}, "events for 1 requests"),
        ([(0, 2**63 - 1, 8)], 2**63 - 1, {}, "ends after the last"),
        ([(1, 1, 8), (0, 2, 8)], 4, {}, "not in the order"),
        ([(0, 0, 0)], 2, {}, "no bytes"),
        ([(0, 0, 8), (1, 2, 8)], 4, {}, "two requests"),
        ([], 0, {"HeapEvents": [0]}, "differ in length"),
        ([], 1, {"HeapEvents": [0], "HeapSizes": [0]}, "no bytes"),
        ([], 1, {"HeapEvents": [0], "HeapSizes": [-(2**63)]}, "no bytes"),
        ([], 1, {"HeapEvents": [2**63 - 1], "HeapSizes": [1]}, "ends before it begins"),
        ([], 1, {"HeapEvents": [-(2**63)], "HeapSizes": [1]}, "an event that is none"),
        ([], 2, {"HeapEvents": [0, 0], "HeapSizes": [1, 1]}, "not in the order"),
        ([], 2, {"HeapEvents": [0], "HeapSizes": [1], "HeapEnds": [2]}, "ends after the last"),
        ([], 2, {"HeapEvents": [0], "HeapSizes": [1], "HeapEnds": [0]}, "ends before it begins"),
        ([], 2, {"HeapEvents": [0], "HeapSizes": [1], "HeapEnds": [1, 1]}, "differ in length"),
        ([], 1, {"HeapEvents": [0], "HeapSizes": [1], "HeapEnds": [-1]}, "no event at all"),
        ([], 1, {"HeapEvents": [0], "HeapSizes": [1], "HeapEnds": [-(2**63)]}, "no event at all"),
        ([], 3, {"HeapEvents": [0, 1], "HeapSizes": [1, 1], "HeapEnds": [2, -7]}, "an event that is none"),
        ([], 4, {"HeapEvents": [0, 1], "HeapSizes": [1, 1], "HeapEnds": [2, 2]}, "two requests"),
    ],
)
def test_forged_streams(
    rows: list[tuple[int, int, int]], events: int, columns: dict[str, list[int]], message: str
) -> None:
    f = Forge()
    places = {name: f.int64s(values) for name, values in columns.items()}
    refused(f.finish_all(planset(f, recording(f, Events=events, **places), rows)), message)


@pytest.mark.parametrize(
    ("names", "types", "dims", "ends", "message"),
    [
        ([b"b", b"a"], [b"", b""], [], [0, 0], "not distinct and ascending"),
        ([b"a", b"a"], [b"", b""], [], [0, 0], "not distinct and ascending"),
        ([b"a"], [], [], [0], "types has 0 entries instead of 1"),
        ([b"a"], [b""], [1], [0], "do not cut 1 items"),
        ([b"a"], [b""], [1], [2], "do not cut 1 items"),
        ([b"a"], [b""], [1], [], "do not cut 1 items"),
        ([b"a"], [b""], [1], [0, 1], "dim_ends has 2 entries instead of 1"),
        ([b"a"], [b""], [-1], [1], "dims of the signature has -1"),
    ],
)
def test_forged_signatures(
    names: list[bytes], types: list[bytes], dims: list[int], ends: list[int], message: str
) -> None:
    f = Forge()
    columns = {"Inputs": f.strings(names), "Types": f.strings(types)}
    called = signature(f, **columns, Dims=f.int64s(dims), DimEnds=f.int64s(ends))
    refused(f.finish_all(planset(f, recording(f, Signature=called))), message)


@pytest.mark.parametrize("field", ["Runtime", "Version", "Model", "Signature"])
def test_a_recording_without_a_part_of_its_fingerprint(field: str) -> None:
    f = Forge()
    fields = {name: f.string("x") for name in ("Runtime", "Version", "Model")} | {"Signature": signature(f)}
    del fields[field]
    refused(f.finish_all(planset(f, f.table("Recording", Events=2, **fields))), f"{field.lower()} is missing")


def test_a_signature_without_a_call() -> None:
    f = Forge()
    refused(f.finish_all(planset(f, recording(f, Signature=f.table("Signature")))), "call is missing")


@pytest.mark.parametrize(
    ("numbers", "message"),
    [
        ({"Seed": -2}, "seed of the settings is -2"),
        ({"TimeLimit": -0.5}, "time_limit is -0.5"),
        ({"TimeLimit": float("nan")}, "time_limit is nan"),
        ({"TimeLimit": float("inf")}, "time_limit is inf"),
        ({"Threads": -1}, "threads is -1"),
        ({"Alignment": -4}, "no power of two"),
        ({"Alignment": 3}, "no power of two"),
        ({}, "has version 4, but holds what version 1 is for"),
    ],
)
def test_forged_settings(numbers: dict[str, float], message: str) -> None:
    f = Forge()
    settings = f.table("Settings", Strategies=f.strings([b"auto"]), **numbers)
    refused(f.finish_all(planset(f, None, Settings=settings)), message)


def test_settings_without_strategies() -> None:
    f = Forge()
    refused(f.finish_all(planset(f, None, Settings=f.table("Settings", Seed=1))), "strategies is missing")


def one_recording_in_many_plan_sets(f: Forge) -> bytes:
    events = f.int64s(range(2000))
    heap = recording(f, Events=2000, HeapEvents=events, HeapSizes=f.int64s([1] * 2000))
    return f.finish_all(*[planset(f, heap, ()) for _ in range(300)])


def one_plan_set_many_times(f: Forge) -> bytes:
    return f.finish_all(*[planset(f, recording(f))] * 500)


def one_column_for_events_and_sizes(f: Forge) -> bytes:
    column = f.int64s(range(1, 5001))
    return f.finish_all(planset(f, recording(f, HeapEvents=column, HeapSizes=column, HeapEnds=column), ()))


@pytest.mark.parametrize(
    "attack", [one_recording_in_many_plan_sets, one_plan_set_many_times, one_column_for_events_and_sizes]
)
def test_contents_count_each_time_they_are_used(attack: Callable[[Forge], bytes]) -> None:
    data = attack(Forge())
    refused(data, "used more than once")
    assert peak_of(data) <= PEAK_RATIO * len(data) + PEAK_FLOOR


def many_requests_on_the_heap(f: Forge) -> bytes:
    columns = {"HeapEvents": f.int64s(range(20_000)), "HeapSizes": f.int64s([300] * 20_000)}
    return f.finish_all(planset(f, recording(f, Events=20_000, **columns), ()))


def many_requests_freed_on_the_heap(f: Forge) -> bytes:
    even = np.arange(0, 20_000, 2)
    columns = {"HeapEvents": even, "HeapSizes": np.full(10_000, 300), "HeapEnds": even + 1}
    places = {name: f.int64s(values.tolist()) for name, values in columns.items()}
    return f.finish_all(planset(f, recording(f, Events=20_000, **places), ()))


def many_requests_with_a_place(f: Forge) -> bytes:
    return f.finish_all(planset(f, recording(f, Events=10_000), [(k, k, 300) for k in range(0, 10_000, 2)]))


def many_recordings(f: Forge) -> bytes:
    return f.finish_all(*[planset(f, recording(f, str(k))) for k in range(1000)])


def many_inputs(f: Forge) -> bytes:
    columns: dict[str, Any] = {
        "Inputs": f.strings([b"%05d" % k for k in range(10_000)]),
        "Types": f.strings([b"t"] * 10_000),
        "Dims": f.int64s(range(300, 10_300)),
        "DimEnds": f.int64s(range(1, 10_001)),
    }
    return f.finish_all(planset(f, recording(f, Signature=signature(f, **columns))))


@pytest.mark.full
@pytest.mark.parametrize(
    "dense",
    [
        many_requests_on_the_heap,
        many_requests_freed_on_the_heap,
        many_requests_with_a_place,
        many_recordings,
        many_inputs,
    ],
)
def test_the_densest_contents_stay_within_memory(dense: Callable[[Forge], bytes]) -> None:
    data = dense(Forge())
    decode_all(data)
    assert peak_of(data) <= PEAK_RATIO * len(data) + PEAK_FLOOR
