"""Android's x86_64 libraries on this machine: ONNX Runtime for Android in edgemem's plans, through C.

The libraries are those of an APK; `tests/android` acts out the rest of a device.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.android.checks import check_recorded_here, check_run_from_file, check_served, plain, with_recording
from tests.android.device import DeviceError
from tests.android.imports import exports, read_needs, refusals
from tests.android.installed import device
from tests.android.subjects import SUBJECTS, equal, make

if TYPE_CHECKING:
    from pathlib import Path

    from tests.android.device import Device

OF_ONE_SIZE = [name for name in SUBJECTS if name != "dynamic"]


@pytest.fixture(scope="module")
def phone(tmp_path_factory: pytest.TempPathFactory) -> Device:
    return device("x86_64", tmp_path_factory.mktemp("phone"))


def test_a_device_takes_the_libraries(phone: Device) -> None:
    own = {path.name: exports(path) for path in phone.libraries.iterdir()}
    assert set(own) == {"libonnxruntime.so", "libonnxruntime4j_jni.so", "libedgemem.so"}
    assert {name: refusals(phone.libraries / name, own) for name in own} == {name: [] for name in own}
    needs = read_needs(phone.libraries / "libedgemem.so")
    assert needs.soname == "libedgemem.so"
    assert {"RegisterCustomOps", "em_session_begin", "Java_ai_edgemem_Native_abi"} <= own["libedgemem.so"]
    assert not [name for name in own["libedgemem.so"] if name.startswith(("_Z", "operator"))]


@pytest.mark.parametrize("name", OF_ONE_SIZE)
def test_every_request_comes_from_the_arena_after_the_first_run(phone: Device, tmp_path: Path, name: str) -> None:
    subject = make(name, tmp_path)
    by_itself = plain(phone, subject, tmp_path / "plain")
    check_recorded_here(phone.run(subject.path, subject.feeds, tmp_path / "clean"), subject, by_itself)
    check_recorded_here(phone.run(subject.path, subject.feeds, tmp_path / "poison", "--poison"), subject, by_itself)


@pytest.mark.parametrize("name", OF_ONE_SIZE)
def test_a_recording_of_the_desktop_serves_the_first_run(phone: Device, tmp_path: Path, name: str) -> None:
    subject = make(name, tmp_path)
    by_itself = plain(phone, subject, tmp_path / "plain")
    model = with_recording(subject, tmp_path, keep_reuse=True, bind_outputs=True)
    check_run_from_file(phone.run(model, subject.feeds, tmp_path / "file", "--plan", "--poison"), by_itself)


@pytest.mark.parametrize("options", [{"bind_outputs": True}, {"keep_reuse": True}, {}])
def test_a_recording_that_does_not_fit_is_replaced(phone: Device, tmp_path: Path, options: dict[str, bool]) -> None:
    """Desktop sessions ask for other blocks: they have no reuse of ONNX Runtime's own, and results outlive the run."""
    subject = make("mobilenet_v2", tmp_path)
    by_itself = plain(phone, subject, tmp_path / "plain")
    model = with_recording(subject, tmp_path, **options)
    results = phone.run(model, subject.feeds, tmp_path / "file", "--plan", "--poison")
    assert equal(results.outputs["parent0"], by_itself.outputs["parent0"])
    first, *later = results.of()
    assert (first["source"], first["is_complete"]) == ("file", False)
    assert first["hits"] + first["misses"] == first["requests"]
    assert first["misses"] > 0
    assert first["heap_peak"] > 0
    for run in later:
        check_served(run, "made here")


def test_inputs_of_other_sizes_get_another_plan_that_serves_all(phone: Device, tmp_path: Path) -> None:
    subject = make("dynamic", tmp_path)
    by_itself = plain(phone, subject, tmp_path / "plain")
    results = phone.run(subject.path, subject.feeds, tmp_path / "planned", "--poison")
    assert equal(results.outputs["parent0"], by_itself.outputs["parent0"])
    recorded, five, grown, nine, again, seven = results.of()
    assert recorded["source"] == "none"
    check_served(five, "made here")
    assert (grown["source"], grown["is_complete"], grown["replans"]) == ("made here", False, 2)
    check_served(nine, "made here")
    check_served(again, "made here", is_largest=False)
    check_served(seven, "made here", is_largest=False)
    assert five["planned"] < nine["planned"] == again["planned"] == seven["planned"]
    assert seven["replans"] == 2


@pytest.mark.parametrize("options", [("--bind",), ("--threads", "3"), ("--workers", "3")])
def test_bindings_and_threads(phone: Device, tmp_path: Path, options: tuple[str, ...]) -> None:
    subject = make("mobilenet_v2", tmp_path)
    by_itself = plain(phone, subject, tmp_path / "plain")
    results = phone.run(subject.path, subject.feeds, tmp_path / "planned", "--poison", *options)
    check_recorded_here(results, subject, by_itself)
    assert len(results.outputs) == (3 if "--workers" in options else 1)


def test_a_child_process_runs_while_other_threads_allocate(phone: Device, tmp_path: Path) -> None:
    subject = make("convolutions", tmp_path)
    by_itself = plain(phone, subject, tmp_path / "plain")
    results = phone.run(subject.path, subject.feeds, tmp_path / "planned", "--poison", "--fork")
    assert set(results.outputs) == {"parent0", "child0"}
    check_recorded_here(results, replace(subject, feeds=subject.feeds), by_itself)


def test_a_shortage_of_memory_is_an_error_of_the_run(phone: Device, tmp_path: Path) -> None:
    """ONNX Runtime catches what edgemem's allocator throws, although each library has a C++ runtime of its own."""
    subject = make("mobilenet_v2", tmp_path)
    with pytest.raises(DeviceError, match=r"(?s)ended with 1: .*run_model: Run: "):
        phone.run(subject.path, subject.feeds, tmp_path / "short", "--fail-after", "2")
