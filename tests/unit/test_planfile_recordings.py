"""Plan files of version 4: several plan sets, recordings, and settings."""

from __future__ import annotations

import json
import shutil
import subprocess
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgemem import planfile
from edgemem.errors import PlanFileError
from edgemem.planfile import decode, decode_all, encode, encode_all, load, load_all, save_all
from edgemem.planfile.streams import HeapRequests, heap_requests, stream_of
from edgemem.plans import LowerBounds, OffsetPlan, PlanSet, SearchReport, Settings, SharedObjectsPlan
from edgemem.records.problem import Problem, UsageRecord
from edgemem.targets import Region, Target
from edgemem.trace import Trace
from edgemem.trace.recording import Fingerprint, Recording, Signature
from tests import extent
from tests.plansets import files, fingerprint, int64s, plain, plansets, recorded, recorded_plansets, small, streams

SCHEMA = Path(planfile.__file__).parent / "plan.fbs"
SHARED = SharedObjectsPlan("equality", {}, int64s([0, 1]), (100, 200), 300, False)


@pytest.mark.full
@settings(max_examples=extent.examples(200), deadline=None)
@given(files())
def test_every_plan_set_of_a_file_comes_back_in_its_place(sets: list[PlanSet]) -> None:
    data = encode_all(sets)
    back = decode_all(data)
    assert [plain(p) for p in back] == [plain(p) for p in sets]
    assert encode_all(back) == data
    chosen = [p for p in sets if p.recording is None and p.cycle is None] or sets
    assert plain(decode(data)) == plain(chosen[0])


@pytest.mark.full
@settings(max_examples=extent.examples(100), deadline=None)
@given(plansets() | recorded_plansets())
def test_a_file_of_one_is_the_plan_set_alone(p: PlanSet) -> None:
    assert encode_all([p]) == encode(p)
    plain_graph = p.recording is None and p.settings == Settings()
    one_region = p.target is None or not (p.target.pins or p.target.states or p.target.regions[1:])
    one_region &= all(plan.regions is None for plan in p.offsets)
    unrelated = not p.problem.features - {"pinned", "reserved"} and p.problem.traffic is None
    assert (encode(p)[4] < 4) == (plain_graph and one_region and unrelated)


wild = st.sampled_from([-(2**63) - 1, -(2**63), -2, -1, 0, 1, 3, 2**63 - 1, 2**63, 2**64])
wild_real = st.floats() | wild
wild_text = st.text(max_size=3)  # surrogates, too
wild_map = st.dictionaries(wild_text, wild | st.floats() | wild_text | st.booleans() | st.none(), max_size=2)
wild_column = st.lists(wild, max_size=4).map(lambda values: np.array(values, object if values else np.int64))
wild_settings = st.builds(
    Settings, st.lists(wild_text).map(tuple), st.none() | wild_text, st.none() | wild, wild_real, wild, wild
)
wild_signatures = st.builds(
    Signature,
    wild_text,
    st.lists(st.tuples(wild_text, wild_text, st.lists(wild, max_size=2).map(tuple)), max_size=2).map(tuple),
    st.lists(wild_text, max_size=2).map(tuple),
)
WILD: dict[str, st.SearchStrategy[Any]] = {
    "naive": wild,
    "bounds": st.builds(LowerBounds, wild, wild),
    "target": st.builds(Target, wild_text, wild)
    | st.builds(Target, st.just("t"), regions=st.tuples(st.builds(Region, wild_text, wild))),
    "digest": wild_text,
    "steps": st.lists(wild_text, max_size=4).map(tuple),
    "unplanned": st.lists(st.tuples(wild_text, wild_text), max_size=2).map(tuple),
    "order": st.lists(wild, max_size=3).map(tuple),
    "dims": wild_map,
    "input_shapes": st.dictionaries(wild_text, st.lists(wild, max_size=2).map(tuple), max_size=2),
    "versions": wild_map,
    "settings": wild_settings,
    "offsets": st.lists(
        st.builds(
            OffsetPlan,
            wild_text,
            wild_map,
            wild_column | st.just(int64s([0, 64, 128])),
            wild,
            st.booleans(),
            st.none() | st.builds(SearchReport, wild, wild_text, wild, st.none() | wild),
        ),
        max_size=2,
    ).map(tuple),
    "shared_objects": st.lists(
        st.builds(
            SharedObjectsPlan,
            wild_text,
            wild_map,
            wild_column | st.just(int64s([0, 1, 0])),
            st.lists(wild | st.tuples(wild, wild), max_size=2).map(tuple),
            wild,
            st.booleans(),
        ),
        max_size=2,
    ).map(tuple),
}


@pytest.mark.full
@settings(max_examples=extent.examples(1000), deadline=None)
@given(
    st.sampled_from(sorted(WILD)).flatmap(lambda name: st.fixed_dictionaries({name: WILD[name]})),
    st.builds(Fingerprint, wild_text, wild_text, wild_text, wild_map, wild_signatures),
    st.booleans(),
)
def test_what_is_written_is_read(change: dict[str, Any], stranger: Fingerprint, with_recording: bool) -> None:
    """The writer does not read what it has written, so it must refuse all that the reader refuses."""
    p = small()
    if with_recording:
        made = recorded()
        assert made.recording is not None
        p = replace(made, recording=replace(made.recording, fingerprint=stranger))
    p = replace(p, **change)
    try:
        data = encode(p)
    except PlanFileError:
        return
    assert encode(decode(data)) == data


def other(**change: Any) -> PlanSet:
    """The recording of `recorded` with another fingerprint."""
    p = recorded()
    assert p.recording is not None
    return replace(p, recording=replace(p.recording, fingerprint=replace(fingerprint(), **change)))


def test_maps_have_one_encoding() -> None:
    ab, ba = other(options={"a": 1, "b": 2}), other(options={"b": 2, "a": 1})
    assert encode(ab) == encode(ba)


def test_a_time_limit_of_zero_has_one_encoding() -> None:
    zero, negative = (replace(small(), settings=Settings(time_limit=limit)) for limit in (0.0, -0.0))
    assert encode(zero) == encode(negative)


@pytest.mark.parametrize(
    "asked",
    [
        Settings(strategies=()),
        Settings(effort=""),
        Settings(seed=0),
        Settings(time_limit=0.0),
        Settings(threads=1),
        Settings(alignment=1),
    ],
)
def test_nothing_is_taken_for_the_default(asked: Settings) -> None:
    data = encode(replace(small(), settings=asked))
    assert data[4] == 4
    assert decode(data).settings == asked


def test_header_and_identifier_of_version_4() -> None:
    data = encode(recorded())
    assert (data[:4], data[4], data[20:24]) == (b"EDGM", 4, b"EMPF")


def test_a_plan_set_without_news_keeps_its_version_alone_and_not_beside_a_recording() -> None:
    assert encode(small())[4] == 1
    data = encode_all([small(), recorded()])
    assert data[4] == 4
    assert encode(decode_all(data)[0]) == encode(small())


def test_version_4_is_refused_for_what_an_earlier_one_can_say() -> None:
    data = bytearray(encode(replace(small(), settings=Settings(seed=7))))
    position = data.index((7).to_bytes(8, "little"))
    data[position : position + 8] = (-1).to_bytes(8, "little", signed=True)  # no seed: the default settings
    data[8:12] = zlib.crc32(bytes(data[16:])).to_bytes(4, "little")
    with pytest.raises(PlanFileError, match="has version 4, but holds what version 1 is for"):
        decode(bytes(data))


def test_times_and_threads_are_left_out() -> None:
    p = recorded()
    assert p.recording is not None
    t = p.recording.trace
    timed = Trace.from_columns(t.size, t.request, np.arange(len(t)), np.full(len(t), 9))
    timed_set = replace(p, recording=replace(p.recording, trace=timed))
    assert encode(timed_set) == encode(p)
    back = decode(encode(timed_set)).recording
    assert back is not None
    assert not back.trace.time_ns.any()
    assert not back.trace.thread.any()


@pytest.mark.full
@given(streams())
def test_a_stream_is_its_records_and_the_rest(stream: list[int]) -> None:
    trace = Trace.from_stream(stream)
    for problem in (trace.problem(), trace.problem(outlive=True), Problem([])):
        heap = heap_requests(trace, problem)
        assert len(heap.events) + len(problem) == len(trace.requests)
        assert stream_of(problem, heap, len(trace)).tolist() == stream


def heap(events: list[int], sizes: list[int], ends: list[int] | None = None) -> HeapRequests:
    return HeapRequests(int64s(events), int64s(sizes), int64s([-1] * len(events) if ends is None else ends))


@pytest.mark.parametrize(
    ("rows", "rest", "count", "message"),
    [
        ([(0, 0, 8)], heap([], []), 3, "3 events for 1 requests, of which 1 are freed"),
        ([(0, 0, 8)], heap([], []), 0, "ends after the last of 0 events"),
        ([(0, 0, 8)], heap([], []), 2**62, "events for 1 requests"),
        ([(0, 2, 8)], heap([], []), 2, "ends after the last"),
        ([(0, 2**62, 8)], heap([], []), 2, "ends after the last"),
        ([(1, 1, 8), (0, 2, 8)], heap([], []), 4, "not in the order"),
        ([(0, 0, 8), (0, 1, 8)], heap([], []), 4, "not in the order"),
        ([(0, 0, 8), (1, 2, 8)], heap([], []), 4, "belongs to two requests"),  # a free where a request is
        ([(0, 2, 8), (1, 2, 8)], heap([], []), 4, "belongs to two requests"),  # two frees in one event
        ([(0, 0, 0)], heap([], []), 2, "no bytes"),
        ([(0, 0, 8)], heap([2], [0]), 3, "no bytes"),
        ([(0, 0, 8)], heap([2], [-5]), 3, "no bytes"),
        ([(0, 0, 8)], heap([1], [8]), 3, "belongs to two requests"),
        ([(0, 0, 8)], heap([-1], [8]), 3, "an event that is none"),
        ([(0, 0, 8)], heap([3], [8]), 3, "ends before it begins"),
        ([(0, 0, 8)], heap([2], [8], [1]), 4, "ends before it begins"),
        ([(0, 0, 8)], heap([2], [8], [2]), 4, "ends before it begins"),
        ([(0, 0, 8)], heap([2], [8], [4]), 4, "ends after the last"),
        ([(0, 0, 8)], heap([2], [8], [-2]), 4, "an event that is none"),
        ([], heap([1, 0], [8, 8]), 2, "not in the order"),
        ([], heap([0, 1], [8]), 2, "differ in length"),
    ],
)
def test_records_and_requests_that_make_no_stream(
    rows: list[tuple[int, int, int]], rest: HeapRequests, count: int, message: str
) -> None:
    problem = Problem([UsageRecord(str(i), *row) for i, row in enumerate(rows)])
    with pytest.raises(PlanFileError, match=message):
        stream_of(problem, rest, count)


def test_a_stream_of_many_requests_is_put_together_in_linear_time() -> None:
    """About 0.1 s; comparing each request with each would take minutes."""
    n = 400_000
    first = np.arange(0, 2 * n, 2)
    problem = Problem.from_arrays(first, first, np.full(n, 64))
    trace = Trace.from_stream(stream_of(problem, heap([], []), 2 * n))
    assert len(heap_requests(trace, problem).events) == 0
    assert trace.peak == 64


def with_trace(*stream: int) -> PlanSet:
    return replace(recorded(), recording=Recording(fingerprint(), Trace.from_stream(list(stream))))


@pytest.mark.parametrize(
    ("sets", "message"),
    [
        ([], "no plan sets"),
        ([small(), small()], "several plan sets without a recording"),
        ([recorded(), small(), recorded()], "two recordings have the same fingerprint"),
        ([other(options={"a": 1}), other(options={"a": True})], "two recordings have the same fingerprint"),
        ([replace(recorded(), offsets=())], "not one offset plan"),
        ([replace(recorded(), offsets=recorded().offsets * 2)], "not one offset plan"),
        ([replace(recorded(), shared_objects=(SHARED,))], "not one offset plan"),
        ([with_trace(100, 200, -1, 90, 40, -3, -2)], "belongs to two requests"),
        ([with_trace(100, 300, -1, 90, 40, -2, -3)], "not requests of the recorded trace"),
        ([with_trace(100, 200, -1)], "ends after the last"),
        ([with_trace()], "ends after the last"),
        ([other(signature=Signature("run", (("b", "", ()), ("a", "", ()))))], "not distinct and ascending"),
        ([other(signature=Signature("run", (("a", "", ()), ("a", "", ()))))], "not distinct and ascending"),
        ([other(signature=Signature("run", (("a", "", (-1,)),)))], "dims of the signature has -1"),
        ([other(options={"a": None})], "'a' is None"),
        ([other(options={"a": float("nan")})], "'a' in options is nan"),
        ([other(runtime="\ud800")], "surrogates not allowed"),
        ([replace(small(), settings=Settings(seed=-1))], "seed of the settings is -1"),
        ([replace(small(), settings=Settings(time_limit=-1.0))], "time_limit is -1"),
        ([replace(small(), settings=Settings(time_limit=float("nan")))], "time_limit is nan"),
        ([replace(small(), settings=Settings(threads=0))], "threads is 0"),
        ([replace(small(), settings=Settings(alignment=0))], "no power of two"),
        ([replace(small(), settings=Settings(alignment=48))], "no power of two"),
        ([replace(small(), settings=Settings(seed=2**63))], "beyond int64"),
    ],
)
def test_what_would_not_be_read_is_not_written(sets: list[PlanSet], message: str) -> None:
    with pytest.raises(PlanFileError, match=f"^these plans cannot be written: .*{message}"):
        encode_all(sets)


def test_save_and_load_all(tmp_path: Path) -> None:
    path = tmp_path / "net.edgemem"
    save_all([recorded(), small()], path)
    assert [plain(p) for p in load_all(path)] == [plain(recorded()), plain(small())]
    assert plain(load(path)) == plain(small())


def test_flatc_reads_a_recording_by_the_schema(tmp_path: Path) -> None:
    flatc = shutil.which("flatc")
    if flatc is None:
        pytest.skip("flatc is not installed")
    (tmp_path / "p.bin").write_bytes(encode_all([small(), recorded()])[16:])
    command = [flatc, "--json", "--strict-json", "--raw-binary", "--root-type", "edgemem.planfile.PlanFile"]
    subprocess.run(
        [*command, "-o", str(tmp_path), str(SCHEMA), "--", str(tmp_path / "p.bin")], check=True, capture_output=True
    )
    graph, recording = json.loads((tmp_path / "p.json").read_text())["plan_sets"]
    assert graph["digest"] == "ab" * 32
    assert "recording" not in graph
    asked = recording["settings"]
    assert (asked["effort"], asked["seed"], asked["time_limit"], asked["threads"], asked["alignment"]) == (
        "max",
        3,
        0.5,
        2,
        64,
    )
    stored = recording["recording"]
    assert (stored["runtime"], stored["version"], stored["events"]) == ("onnxruntime", "1.31.1", 7)
    assert (stored["heap_events"], stored["heap_sizes"], stored["heap_ends"]) == ([3, 4], [90, 40], [6, -1])
    signature = stored["signature"]
    assert (signature["call"], signature["bound"], signature.get("shared", False)) == ("run", True, False)
    assert (signature["dims"], signature["dim_ends"]) == ([1, 3], [2, 2])
