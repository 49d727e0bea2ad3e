"""Snapshots of PyTorch's memory as histories: what was asked for, what was reserved, where it came from."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import pytest

from edgemem.errors import ModelError
from edgemem.formats import load_histories
from edgemem.trace.cycle import Cycle
from edgemem.trace.history import OutOfMemory
from edgemem_converters.snapshot.histories import histories_of
from tests.snapshots import FRAMES, Device, snapshot, write

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

MIB = 1 << 20


def _simple() -> Device:
    """A segment, two requests in it of which one is freed, and a second segment that is given back."""
    device = Device()
    first = device.segment(20 * MIB)
    address = device.block(first, 3 * MIB)
    device.alloc(address, 3 * MIB, frames=FRAMES)
    device.alloc(address + 3 * MIB, 5_000)
    device.free(address + 3 * MIB, 5_000)
    device.note("segment_alloc", addr=1 << 40, size=2 * MIB)
    device.note("segment_free", addr=1 << 40, size=2 * MIB)
    return device


def test_a_snapshot_is_a_trace_with_what_was_reserved() -> None:
    (history,) = histories_of(snapshot(_simple()))
    trace = history.trace
    assert (history.device, history.already_alive, history.failures) == (0, 0, ())
    assert trace.size.tolist() == [3 * MIB, 5_000, 0]
    assert trace.request.tolist() == [0, 1, 1]
    assert trace.ends.tolist() == [-1, 2]
    assert trace.thread.tolist() == [-1, -1, -1]
    assert trace.iteration.tolist() == [-1, -1, -1]
    assert history.allocated.tolist() == [3 * MIB, 3 * MIB + 5_000, 3 * MIB]
    assert history.reserved.tolist() == [20 * MIB] * 3
    assert history.reserved_peak == 20 * MIB
    assert (trace.time_ns % 1_000_000 == 0).all()
    assert trace.time_ns.tolist() == sorted(trace.time_ns.tolist())


def test_a_file_gives_what_is_in_it(tmp_path: Path) -> None:
    device, other = _simple(), Device(1)
    device.note("oom", size=30 * MIB, device_free=7)
    address = other.segment(2 * MIB)["address"]
    other.alloc(address, 512, stream=5, user_metadata="layers.3")
    settings = {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}
    content = snapshot(device, other, allocator_settings=settings)
    read = load_histories(write(tmp_path / "snapshot.pickle", content))
    for one, same in zip(read, histories_of(content), strict=True):
        for name in ("size", "request", "time_ns", "thread", "stream", "section", "iteration"):
            assert getattr(one.trace, name).tolist() == getattr(same.trace, name).tolist()
        assert (one.reserved.tolist(), one.label.tolist()) == (same.reserved.tolist(), same.label.tolist())
        assert (one.trace.sections, one.labels) == (same.trace.sections, same.labels)
        assert (one.device, one.already_alive, one.failures) == (same.device, same.already_alive, same.failures)
        assert one.settings == same.settings == "expandable_segments:True"


def test_a_request_ends_when_its_free_is_completed() -> None:
    device = Device()
    address = device.segment(20 * MIB)["address"]
    device.alloc(address, 512)
    device.note("free_requested", addr=address, size=512)
    device.alloc(address + 512, 1024)
    device.note("free_completed", addr=address, size=512)
    (history,) = histories_of(snapshot(device))
    assert history.trace.events.tolist() == [512, 1024, -1]
    # Without completed frees in the record, the requested ones are all there is.
    device.entries = [entry for entry in device.entries if entry["action"] != "free_completed"]
    (history,) = histories_of(snapshot(device))
    assert history.trace.events.tolist() == [512, -1, 1024]


def test_the_place_of_a_request_is_in_the_users_own_code() -> None:
    (history,) = histories_of(snapshot(_simple()))
    assert history.label.tolist() == [0, -1]
    assert history.labels == ("train.py:40 forward",)


def test_a_place_is_a_library_or_native_code_if_there_is_nothing_else() -> None:
    device = Device()
    address = device.segment(20 * MIB)["address"]
    device.alloc(address, 512, frames=FRAMES[:1])
    device.alloc(address + 512, 512, frames=[{"filename": "??", "line": 0, "name": "at::empty"}])
    (history,) = histories_of(snapshot(device))
    assert history.labels == ("functional.py:2 linear", "??:0 at::empty")


def test_what_was_in_use_before_stands_first() -> None:
    device = Device()
    segment = device.segment(20 * MIB, noted=False)
    kept = device.block(segment, 700)
    pending = device.block(segment, 900, "active_awaiting_free")
    device.alloc(pending + MIB, 100)
    device.free(pending + 2 * MIB, 4_000)  # was in use before, and is freed in the trace
    (history,) = histories_of(snapshot(device))
    assert history.already_alive == 3
    assert sorted(history.trace.size[:3].tolist()) == [700, 900, 4_000]
    freed = history.trace.request[history.trace.size == 0].tolist()
    assert history.trace.size[freed].tolist() == [4_000]
    assert history.trace.peak == 700 + 900 + 4_000 + 100
    assert history.reserved.tolist() == [20 * MIB] * 5
    assert kept < pending


def test_reserved_memory_grows_and_shrinks_with_segments() -> None:
    device = Device()
    address = device.segment(20 * MIB)["address"]
    device.alloc(address, 512)
    device.note("segment_map", addr=1 << 40, size=4 * MIB)
    device.alloc(address + 512, 512)
    device.note("segment_unmap", addr=1 << 40, size=4 * MIB)
    device.free(address, 512)
    (history,) = histories_of(snapshot(device))
    assert history.reserved.tolist() == [20 * MIB, 24 * MIB, 20 * MIB]


def test_devices_and_streams_are_apart() -> None:
    one, other = Device(0), Device(2)
    address = one.segment(2 * MIB)["address"]
    one.alloc(address, 512, stream=0)
    one.alloc(address + 512, 513, stream=94_000)
    one.alloc(address + 1536, 514, stream=93_000)
    one.free(address + 512, 513, stream=0)  # the stream of a request is that of its allocation
    other.alloc(other.segment(4 * MIB)["address"], 1000, stream=7)
    first, second = histories_of(snapshot(one, other))
    assert (first.device, second.device) == (0, 2)
    assert first.trace.stream.tolist() == [0, 1, 2, 1]
    assert second.trace.stream.tolist() == [1]
    assert (first.reserved_peak, second.reserved_peak) == (2 * MIB, 4 * MIB)


def test_segments_that_name_no_device_belong_to_the_one_with_events() -> None:
    device = Device(1)
    device.alloc(device.segment(2 * MIB)["address"], 512)
    del device.segments[0]["device"]
    (history,) = histories_of(snapshot(device))
    assert (history.device, history.reserved_peak) == (1, 2 * MIB)


def test_a_snapshot_without_history_has_what_is_in_use() -> None:
    device = Device()
    device.block(device.segment(20 * MIB, noted=False), 700)
    content = snapshot(device)
    content["device_traces"] = []
    (history,) = histories_of(content)
    assert history.trace.events.tolist() == [700]
    assert history.labels == ("train.py:40 forward",)
    assert histories_of({"segments": [], "device_traces": [[], []]}) == ()


def test_requests_that_failed_are_kept() -> None:
    device = _simple()
    del device.entries[-2:]
    device.note("oom", size=10 * MIB, device_free=3 * MIB)
    device.note("snapshot", addr=0, size=0)
    (history,) = histories_of(snapshot(device))
    assert history.failures == (OutOfMemory(3, 10 * MIB, 3 * MIB),)


def _steps(device: Device, count: int) -> list[dict[str, Any]]:
    """Iterations that ask for 1,000 bytes in `forward`, and free them in `backward`; their annotations."""
    annotations: list[dict[str, Any]] = []
    address = device.segment(20 * MIB)["address"]

    def mark(name: str, stage: str) -> None:
        annotations.append({"name": name, "stage": stage, "device": 0, "time_us": device.time_us + 1})

    for step in range(count):
        mark(f"ProfilerStep#{step}", "START")
        mark("forward", "START")
        device.alloc(address, 1000)
        mark("forward", "END")
        mark("backward", "START")
        device.free(address, 1000)
        mark("backward", "END")
        mark(f"ProfilerStep#{step}", "END")
        device.alloc(address, 64)
        device.free(address, 64)
    return annotations


def test_annotations_are_iterations_and_sections() -> None:
    device = Device()
    annotations = _steps(device, 3)
    (history,) = histories_of(snapshot(device, external_annotations=annotations))
    trace = history.trace
    assert trace.iteration.tolist() == [0, 0, -1, -1, 1, 1, -1, -1, 2, 2, -1, -1]
    assert [s.name for s in trace.sections] == ["forward", "backward"]
    assert trace.section.tolist() == [0, 1, -1, -1] * 3
    cycle = Cycle.of(trace)
    assert (cycle.length, cycle.size.tolist(), cycle.end.tolist()) == (2, [1000], [1])


def test_annotations_of_other_devices_do_not_count() -> None:
    device = Device()
    annotations = [{**mark, "device": 1} for mark in _steps(device, 2)]
    (history,) = histories_of(snapshot(device, external_annotations=annotations))
    assert set(history.trace.iteration.tolist()) == {-1}
    assert history.trace.sections == ()


def test_metadata_of_an_allocation_is_its_section() -> None:
    device = Device()
    address = device.segment(20 * MIB)["address"]
    device.alloc(address, 512, user_metadata="layers.3")
    device.alloc(address + 512, 512)
    (history,) = histories_of(snapshot(device))
    assert history.trace.section.tolist() == [0, -1]
    assert history.trace.sections[0].name == "layers.3"
    assert history.trace.sections[0].phase == -1


def test_settings_of_the_allocator() -> None:
    settings = {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True", "max_split_size": -1}
    (history,) = histories_of(snapshot(_simple(), allocator_settings=settings))
    assert history.settings == "expandable_segments:True"
    (history,) = histories_of(snapshot(_simple()))
    assert history.settings == ""


def _changed(change: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
    content = copy.deepcopy(snapshot(_simple()))
    change(content)
    return content


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ([1], "the top of the snapshot is no dictionary"),
        ({}, "segments of the snapshot is no list"),
        ({"segments": [3]}, "a segment of the snapshot is no dictionary"),
        ({"segments": [{"total_size": 3, "address": 1}]}, "blocks of the snapshot is no list"),
        ({"segments": [], "device_traces": [3]}, "a device's trace of the snapshot is no list"),
        ({"segments": [], "device_traces": [[3]]}, "an event of the snapshot is no dictionary"),
        ({"segments": [], "device_traces": [[]] * 2000}, "more than 1,024 devices"),
        (_changed(lambda s: s["segments"][0].update(total_size=-1)), "'total_size' of an entry of the snapshot is -1"),
        (_changed(lambda s: s["segments"][0].update(device=10**6)), "'device' of an entry of the snapshot is 1000000"),
        (_changed(lambda s: s["segments"][0].update(device="cuda")), "'device' of an entry of the snapshot is 'cuda'"),
        (_changed(lambda s: s["device_traces"][0][1].pop("addr")), "'addr' of an entry of the snapshot is missing"),
        (_changed(lambda s: s["device_traces"][0][1].update(size=0)), "of no bytes"),
        (_changed(lambda s: s["device_traces"][0][1].update(size=2**63)), "'size' of an entry"),
        (_changed(lambda s: s["device_traces"][0][1].update(time_us=2**62)), "'time_us' of an entry"),
        (
            _changed(lambda s: s["device_traces"][0][1].update(action=3)),
            "'action' of an entry of the snapshot is no",
        ),
        (_changed(lambda s: s["device_traces"][0][1].update(action=[])), "'action' of an entry of the snapshot is no"),
        (_changed(lambda s: s["device_traces"][0][1].update(action="grow")), "'grow' is no action"),
        (_changed(lambda s: s["device_traces"][0][1].update(frames=3)), "frames of the snapshot is no list"),
        (_changed(lambda s: s["device_traces"][0].insert(2, s["device_traces"][0][1])), "taken twice without a free"),
        (_changed(lambda s: s.update(external_annotations=[3])), "an annotation of the snapshot is no dictionary"),
        (_changed(lambda s: s.update(external_annotations=[{"name": "a", "stage": "END"}])), "'time_us' of an entry"),
    ],
)
def test_what_contradicts_the_documented_shape_is_refused(content: object, says: str) -> None:
    with pytest.raises(ModelError) as caught:
        histories_of(content)
    assert says in str(caught.value)


def test_annotations_that_never_end_are_refused() -> None:
    marks = [{"name": f"s{k}", "stage": "START", "time_us": 1} for k in range(1001)]
    with pytest.raises(ModelError, match="more than 1,000 annotations are open"):
        histories_of(snapshot(_simple(), external_annotations=marks))


def test_lists_that_are_shared_do_not_multiply() -> None:
    trace = _simple().entries * 1000
    with pytest.raises(ModelError, match="more than 5,000,000 events"):
        histories_of({"segments": [], "device_traces": [trace] * 1000})
    with pytest.raises(ModelError, match="more than 1,024 devices"):
        histories_of({"segments": [], "device_traces": [[]] * 1025})
    blocks = _simple().segments[0]["blocks"] * 5000
    segments = [{**_simple().segments[0], "blocks": blocks}] * 2000
    with pytest.raises(ModelError, match="more than 5,000,000 events"):
        histories_of({"segments": segments, "device_traces": []})


def test_files_that_are_no_snapshots(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"cannot read none\.pickle"):
        load_histories(tmp_path / "none.pickle")
    (tmp_path / "text.pkl").write_text("text")
    with pytest.raises(ModelError, match=r"^text\.pkl: it is no pickle, or a damaged one: "):
        load_histories(tmp_path / "text.pkl")
    with pytest.raises(ModelError, match=r"nothing here reads traces in \.zip"):
        load_histories(tmp_path / "a.zip")
