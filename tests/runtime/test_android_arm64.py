"""Android's arm64-v8a libraries under qemu: the same runs in the same plans as on x86_64, with the same outputs.

An emulated start takes seconds, so models are fewer than in test_android_x86_64.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.android.checks import check_recorded_here, check_run_from_file, check_served, plain, with_recording
from tests.android.device import DeviceError
from tests.android.imports import exports, read_needs, refusals
from tests.android.installed import device
from tests.android.subjects import equal, make

if TYPE_CHECKING:
    from pathlib import Path

    from tests.android.device import Device


@pytest.fixture(scope="module")
def phone(tmp_path_factory: pytest.TempPathFactory) -> Device:
    return device("arm64-v8a", tmp_path_factory.mktemp("phone"))


def test_a_device_takes_the_libraries(phone: Device) -> None:
    own = {path.name: exports(path) for path in phone.libraries.iterdir()}
    assert {name: refusals(phone.libraries / name, own) for name in own} == {name: [] for name in own}
    assert len(own) == 3
    assert read_needs(phone.libraries / "libedgemem.so").soname == "libedgemem.so"


@pytest.mark.full
@pytest.mark.parametrize("name", ["convolutions", "mobilenet_v2", "random 11", "rapidocr_det"])
def test_every_request_comes_from_the_arena_after_the_first_run(phone: Device, tmp_path: Path, name: str) -> None:
    subject = make(name, tmp_path)
    by_itself = plain(phone, subject, tmp_path / "plain")
    check_recorded_here(phone.run(subject.path, subject.feeds, tmp_path / "planned", "--poison"), subject, by_itself)


@pytest.mark.full
@pytest.mark.parametrize("name", ["transformer", "branches"])
def test_a_recording_of_the_desktop_serves_the_first_run(phone: Device, tmp_path: Path, name: str) -> None:
    subject = make(name, tmp_path)
    by_itself = plain(phone, subject, tmp_path / "plain")
    model = with_recording(subject, tmp_path, keep_reuse=True, bind_outputs=True)
    check_run_from_file(phone.run(model, subject.feeds, tmp_path / "file", "--plan", "--poison"), by_itself)


@pytest.mark.full
def test_convolutions_ask_for_other_blocks_than_on_a_desktop(phone: Device, tmp_path: Path) -> None:
    """ONNX Runtime's convolutions have another layout on x86-64; the device plans its own requests instead."""
    subject = make("mobilenet_v2", tmp_path)
    by_itself = plain(phone, subject, tmp_path / "plain")
    model = with_recording(subject, tmp_path, keep_reuse=True, bind_outputs=True)
    results = phone.run(model, subject.feeds, tmp_path / "file", "--plan", "--poison")
    assert equal(results.outputs["parent0"], by_itself.outputs["parent0"])
    first, *later = results.of()
    assert (first["source"], first["is_complete"]) == ("file", False)
    assert first["hits"] + first["misses"] == first["requests"]
    assert first["misses"] > 0
    for run in later:
        check_served(run, "made here")


@pytest.mark.full
def test_inputs_of_other_sizes_get_another_plan_that_serves_all(phone: Device, tmp_path: Path) -> None:
    subject = make("dynamic", tmp_path)
    by_itself = plain(phone, subject, tmp_path / "plain")
    results = phone.run(subject.path, subject.feeds, tmp_path / "planned", "--poison")
    assert equal(results.outputs["parent0"], by_itself.outputs["parent0"])
    for run in results.of()[3:]:
        check_served(run, "made here", is_largest=run["run"] == 3)


@pytest.mark.full
def test_threads_and_a_child_process(phone: Device, tmp_path: Path) -> None:
    subject = make("convolutions", tmp_path)
    by_itself = plain(phone, subject, tmp_path / "plain")
    options = ("--poison", "--workers", "2", "--threads", "2")
    check_recorded_here(phone.run(subject.path, subject.feeds, tmp_path / "threads", *options), subject, by_itself)
    check_recorded_here(phone.run(subject.path, subject.feeds, tmp_path / "child", "--fork"), subject, by_itself)


@pytest.mark.full
def test_a_shortage_of_memory_is_an_error_of_the_run(phone: Device, tmp_path: Path) -> None:
    """ONNX Runtime catches what edgemem's allocator throws, although each library has a C++ runtime of its own."""
    subject = make("mobilenet_v2", tmp_path)
    with pytest.raises(DeviceError, match=r"(?s)ended with 1: .*run_model: Run: "):
        phone.run(subject.path, subject.feeds, tmp_path / "short", "--fail-after", "2")
