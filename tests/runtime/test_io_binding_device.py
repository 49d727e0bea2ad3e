"""Node by node on a device: one allocation of ONNX Runtime's is the arena. Without a GPU the CPU stands in for it.

The stand-in takes the same way as CUDA: an OrtValue is the arena, tensors are bound by address, and ONNX Runtime copies
to and from parts of it.
"""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from click.testing import CliRunner

import edgemem
from edgemem.cli.main import main
from edgemem.errors import RuntimeBindError
from edgemem.runtime.onnxruntime import bound_arena, io_binding
from edgemem.runtime.onnxruntime.bound_arena import Device, HostArena, OrtArena
from edgemem.runtime.onnxruntime.cuda import CUDA
from edgemem.runtime.onnxruntime.io_binding import make_session
from tests.runtime.networks import DIMS, equal, feeds_of, small

if TYPE_CHECKING:
    from pathlib import Path

ort = pytest.importorskip("onnxruntime")

NAMES = ["mobilenet_v2", "resnet18", "unet", "transformer"]


def has_device() -> bool:
    if CUDA not in ort.get_available_providers():
        return False
    try:
        OrtArena(64, Device("cuda"))
    except RuntimeBindError:
        return False
    return True


@pytest.fixture
def arenas(monkeypatch: pytest.MonkeyPatch) -> list[OrtArena]:
    """The arenas that sessions make: of ONNX Runtime's memory, on the CPU."""
    made: list[OrtArena] = []

    def make(size: int, device: Device) -> OrtArena:
        made.append(OrtArena(size, device))
        return made[-1]

    monkeypatch.setattr(io_binding, "make_arena", make)
    return made


@pytest.mark.parametrize("name", NAMES)
def test_the_stand_in_gives_what_the_host_gives(name: str, tmp_path: Path, arenas: list[OrtArena]) -> None:
    path, dims = small(name, tmp_path), DIMS.get(name, {})
    # `tflm` has inputs and outputs inside the arena, too.
    planset = edgemem.plan(path, dims=dims, target="tflm", strategy="offsets/greedy_by_size")
    feeds = feeds_of(path, dims=dims)
    session = make_session(path, planset, poison=0xFF)
    (arena,) = arenas
    expected = session.plain_session().run(None, feeds)
    for _ in range(2):
        assert equal(session.run(None, feeds), expected)
    assert session.memory.reason == ""
    assert session.memory.steps > 0
    whole = arena.read(0, session.memory.planned)
    assert len(np.unique(whole)) > 2  # the run happened there
    first = next(iter(session._offsets))
    at, size = session._offsets[first], session._prepared.size(session._prepared.forms[first])
    assert arena.address + at == session._address(first)
    assert arena.read(at, size).tolist() == whole[at : at + size].tolist()


def test_what_no_tensor_has_is_filled_before_each_run(tmp_path: Path, arenas: list[OrtArena]) -> None:
    path = small("mobilenet_v2", tmp_path)
    planset = edgemem.plan(path, alignment=4096, strategy="naive")
    session = make_session(path, planset, poison=0xFF)
    (arena,) = arenas
    arena.fill(7)
    session.run(None, feeds_of(path))
    free = np.ones(session.memory.planned, bool)
    for name, at in session._offsets.items():
        free[at : at + session._prepared.size(session._prepared.forms[name])] = False
    assert free.any()
    assert set(arena.read(0, free.size)[free].tolist()) == {0xFF}


def test_the_head_of_an_arena_is_the_same_memory() -> None:
    arena = OrtArena(1000, Device())
    head = arena.head(100)
    assert head.address == arena.address
    head.write(10, np.arange(5, dtype=np.float32))
    assert arena.read(10, 20).view(np.float32).tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("arena", [HostArena(4096), OrtArena(4096, Device())])
def test_arenas(arena: Any) -> None:
    arena.fill(0xAB)
    assert arena.read(0, 4096).tolist() == [0xAB] * 4096
    arena.write(256, np.arange(6, dtype=np.int64).reshape(2, 3))
    arena.write(0, np.array(2.5, np.float16))
    arena.write(4096, np.empty((0, 4), np.float32))
    assert arena.read(256, 48).view(np.int64).tolist() == list(range(6))
    assert arena.read(0, 2).view(np.float16).tolist() == [2.5]
    assert arena.read(2, 254).tolist() == [0xAB] * 254
    assert arena.read(0, 0).tolist() == []


@pytest.mark.full
def test_views_of_the_arena_may_outlive_it() -> None:
    for _ in range(5):
        arena = OrtArena(1 << 16, Device())
        arena.write(512, np.ones(100, np.float32))
        found = arena.read(512, 400)
        del arena
        gc.collect()
        assert found.view(np.float32).tolist() == [1.0] * 100


def test_names_of_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Device.parse("cpu") == Device("cpu", 0)
    for text in ("gpu", "cuda:", "cuda:-1", "cuda:1234", "CUDA", "", "cpu:1"):
        with pytest.raises(RuntimeBindError, match="there are cpu, cuda and cuda:NUMBER"):
            Device.parse(text)
    monkeypatch.setattr(ort, "get_available_providers", lambda: [CUDA, "CPUExecutionProvider"])
    assert Device.parse("cuda:2") == Device("cuda", 2)
    assert str(Device.parse("cuda:2")) == "cuda:2"
    assert str(Device.parse("cuda")) == "cuda"
    assert Device("cuda", 2).providers[0][1]["device_id"] == "2"
    assert Device("cuda").provider_names == [CUDA, "CPUExecutionProvider"]


def test_no_memory_on_a_device_is_one_line() -> None:
    if has_device():
        pytest.skip("this ONNX Runtime has CUDA")
    with pytest.raises(RuntimeBindError, match="no arena of 64 bytes on cuda:3") as raised:
        OrtArena(64, Device("cuda", 3))
    assert "\n" not in str(raised.value)


def test_a_device_that_is_not_there_is_said(tmp_path: Path) -> None:
    if has_device():
        pytest.skip("this ONNX Runtime has CUDA")
    path = small("unet", tmp_path)
    with pytest.raises(RuntimeBindError, match=f"no {CUDA} here.* install onnxruntime-gpu"):
        make_session(path, plan="make", device="cuda")


def test_a_provider_that_falls_back_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """ONNX Runtime lists CUDA where its libraries are missing, and then runs on the CPU without an error."""
    if has_device():
        pytest.skip("this ONNX Runtime has CUDA")
    monkeypatch.setattr(bound_arena.Device, "provider_names", property(lambda _: [CUDA, "CPUExecutionProvider"]))
    monkeypatch.setattr(bound_arena.Device, "providers", property(lambda _: [CUDA, "CPUExecutionProvider"]))
    path = small("unet", tmp_path)
    with (
        pytest.warns(UserWarning, match="not in available provider names"),
        pytest.raises(RuntimeBindError, match="would have run on CPUExecutionProvider"),
    ):
        make_session(path, plan="make")


@pytest.mark.parametrize("executor", ["replay", "io-binding"])
def test_the_command_says_so_too(executor: str, tmp_path: Path) -> None:
    if has_device():
        pytest.skip("this ONNX Runtime has CUDA")
    path = str(small("unet", tmp_path))
    for device, said in (("cuda", f"no {CUDA} here"), ("tpu", "no device 'tpu'; there are cpu, cuda and cuda:NUMBER")):
        done = CliRunner().invoke(main, ["run", "--executor", executor, "--device", device, path])
        assert done.exit_code == 1, done.output
        assert said in done.output
        assert len(done.output.strip().splitlines()) <= 4, done.output
    (tmp_path / "net.tflite").write_bytes(b"")
    done = CliRunner().invoke(main, ["run", "--runtime", "tflm", "--device", "cuda", str(tmp_path / "net.tflite")])
    assert done.exit_code == 2
    done = CliRunner().invoke(main, ["run", "--runtime", "webgpu", "--device", "cuda", path])
    assert done.exit_code == 2
    assert "--runtime webgpu has --adapter" in done.output


@pytest.mark.skipif(not has_device(), reason="no CUDA provider, or no CUDA runtime")
@pytest.mark.parametrize("name", NAMES)
def test_on_a_gpu(name: str, tmp_path: Path) -> None:
    path, dims = small(name, tmp_path), DIMS.get(name, {})
    feeds = feeds_of(path, dims=dims)
    session = make_session(path, plan="make", dims=dims, poison=0xFF, device="cuda")
    first = session.run(None, feeds)
    assert session.memory.reason == ""
    assert session.memory.steps > 0
    # Other kernels than the CPU's: near, not equal. The same kernels again: equal.
    on_cpu = make_session(path, plan="make", dims=dims).run(None, feeds)
    for mine, theirs in zip(first, on_cpu, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-2, atol=1e-3)
    assert equal(session.run(None, feeds), first)
