"""Node by node on a device: one allocation of ONNX Runtime's is the arena. Without a GPU the CPU stands in for it.

The stand-in takes the same way as CUDA: an OrtValue is the arena, tensors are bound by address, and ONNX Runtime copies
to and from parts of it.
"""

from __future__ import annotations

import gc
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from click.testing import CliRunner

import edgemem
from edgemem.cli.main import main
from edgemem.errors import RuntimeBindError
from edgemem.runtime.onnxruntime import bound_arena, bound_nodes
from edgemem.runtime.onnxruntime.bound_arena import HostArena, OrtArena, OrtDevice
from edgemem.runtime.onnxruntime.bound_nodes import BoundNodes
from edgemem.runtime.onnxruntime.cuda import CUDA
from edgemem.runtime.onnxruntime.split_model import split_model
from tests.runtime.networks import DIMS, equal, feeds_of, small

if TYPE_CHECKING:
    from pathlib import Path

ort = pytest.importorskip("onnxruntime")

NAMES = ["mobilenet_v2", "resnet18", "unet", "transformer"]


def has_device() -> bool:
    if CUDA not in ort.get_available_providers():
        return False
    try:
        OrtArena(64, OrtDevice("cuda"))
    except RuntimeBindError:
        return False
    return True


@pytest.fixture
def arenas(monkeypatch: pytest.MonkeyPatch) -> list[OrtArena]:
    """The arenas that sessions make: of ONNX Runtime's memory, on the CPU."""
    made: list[OrtArena] = []

    def make(size: int, device: OrtDevice) -> OrtArena:
        made.append(OrtArena(size, device))
        return made[-1]

    monkeypatch.setattr(bound_nodes, "make_arena", make)
    return made


@pytest.mark.parametrize("name", NAMES)
def test_the_stand_in_gives_what_the_host_gives(name: str, tmp_path: Path, arenas: list[OrtArena]) -> None:
    path, dims = small(name, tmp_path), DIMS.get(name, {})
    # `tflm` has inputs and outputs inside the arena, too.
    planset = edgemem.plan(path, dims=dims, target="tflm", strategy="offsets/greedy_by_size")
    feeds = feeds_of(path, dims=dims)
    model = split_model(path, planset)
    nodes = BoundNodes(model, poison=0xFF)
    (arena,) = arenas
    expected = BoundNodes(model, separate=True).run(feeds)
    for _ in range(2):
        assert equal(list(nodes.run(feeds).values()), list(expected.values()))
    whole = arena.read(0, nodes.report.planned)
    assert len(np.unique(whole)) > 2  # the run happened there
    first = next(iter(nodes._places))
    at, size = nodes._places[first], model.size(first)
    assert arena.address + at == nodes._address(first)
    assert arena.read(at, size).tolist() == whole[at : at + size].tolist()


def test_what_no_tensor_has_is_filled_before_each_run(tmp_path: Path, arenas: list[OrtArena]) -> None:
    path = small("mobilenet_v2", tmp_path)
    model = split_model(path, edgemem.plan(path, alignment=4096, strategy="naive"))
    nodes = BoundNodes(model, poison=0xFF)
    (arena,) = arenas
    arena.fill(7)
    nodes.run(feeds_of(path))
    free = np.ones(nodes.report.planned, bool)
    for name, at in nodes._places.items():
        free[at : at + model.size(name)] = False
    assert free.any()
    assert set(arena.read(0, free.size)[free].tolist()) == {0xFF}


@pytest.mark.parametrize("arena", [HostArena(4096), OrtArena(4096, OrtDevice())])
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
        arena = OrtArena(1 << 16, OrtDevice())
        arena.write(512, np.ones(100, np.float32))
        found = arena.read(512, 400)
        del arena
        gc.collect()
        assert found.view(np.float32).tolist() == [1.0] * 100


def test_names_of_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    assert OrtDevice.parse("cpu") == OrtDevice("cpu", 0)
    for text in ("gpu", "cuda:", "cuda:-1", "cuda:1234", "CUDA", "", "cpu:1"):
        with pytest.raises(RuntimeBindError, match="there are cpu, cuda and cuda:NUMBER"):
            OrtDevice.parse(text)
    monkeypatch.setattr(ort, "get_available_providers", lambda: [CUDA, "CPUExecutionProvider"])
    assert OrtDevice.parse("cuda:2") == OrtDevice("cuda", 2)
    assert str(OrtDevice.parse("cuda:2")) == "cuda:2"
    assert str(OrtDevice.parse("cuda")) == "cuda"
    assert OrtDevice("cuda", 2).providers[0][1]["device_id"] == "2"


def test_no_memory_on_a_device_is_one_line() -> None:
    if has_device():
        pytest.skip("this ONNX Runtime has CUDA")
    with pytest.raises(RuntimeBindError, match="no arena of 64 bytes on cuda:3") as raised:
        OrtArena(64, OrtDevice("cuda", 3))
    assert "\n" not in str(raised.value)


def test_a_provider_that_falls_back_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """ONNX Runtime lists CUDA where its libraries are missing, and then runs on the CPU without an error."""
    if has_device():
        pytest.skip("this ONNX Runtime has CUDA")
    monkeypatch.setattr(bound_arena.OrtDevice, "providers", property(lambda _: [CUDA, "CPUExecutionProvider"]))
    path = small("unet", tmp_path)
    with (
        pytest.warns(UserWarning, match="not in available provider names"),
        pytest.raises(RuntimeBindError, match="would have run on CPUExecutionProvider"),
    ):
        BoundNodes(split_model(path, edgemem.plan(path)))


@pytest.mark.parametrize("device", ["cuda", "cuda:3"])
def test_a_run_on_a_device_that_cannot_be_had_is_an_error(
    device: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before, the session went on with the CPU, and its outputs were "identical"."""
    if has_device():
        pytest.skip("this ONNX Runtime has CUDA")
    monkeypatch.setattr(ort, "get_available_providers", lambda: [CUDA, "CPUExecutionProvider"])
    monkeypatch.setattr("edgemem.runtime.onnxruntime.cuda.CUDA", "CPUExecutionProvider")  # no device memory is planned
    path = str(small("unet", tmp_path))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of ONNX Runtime: it has no such provider
        done = CliRunner().invoke(main, ["run", "--device", device, "--compare", path])
    assert done.exit_code == 1, done.output
    assert f"ONNX Runtime has no {CUDA} here and would have run on CPUExecutionProvider" in done.output
    assert "identical" not in done.output


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
    model = split_model(path, edgemem.plan(path, dims=dims))
    nodes = BoundNodes(model, poison=0xFF, device=OrtDevice("cuda"))
    first = list(nodes.run(feeds).values())
    # Other kernels than the CPU's: near, not equal. The same kernels again: equal.
    for mine, theirs in zip(first, BoundNodes(model).run(feeds).values(), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-2, atol=1e-3)
    assert equal(list(nodes.run(feeds).values()), first)
