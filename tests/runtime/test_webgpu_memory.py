"""What is on the device: exact buffers and textures, values at the borders, constants in few buffers, nothing left."""

from __future__ import annotations

import gc
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import edgemem
from edgemem.errors import AdapterError, MissingDependencyError, RuntimeBindError, UnsupportedError
from edgemem.model.graph import Tensor
from edgemem.runtime.webgpu import device as device_module
from edgemem.runtime.webgpu.constants import Constants
from edgemem.runtime.webgpu.device import adapters, busy_workgroups, checked, open_device
from edgemem.runtime.webgpu.graph_binding import BoundConstants
from edgemem.runtime.webgpu.memory import GpuMemory
from edgemem.runtime.webgpu.places import separate_places
from edgemem.runtime.webgpu.profile import GpuProfile, portable_profile
from edgemem.runtime.webgpu.timing import Stopwatch
from edgemem.runtime.webgpu.values import from_floats, to_floats
from edgemem.system.process_memory import resident_bytes
from edgemem.targets import BUILT_IN
from tests.webgpu_adapters import ADAPTERS, need_adapter
from tests.webgpu_programs import Net, classifier, pyramid

if TYPE_CHECKING:
    from edgemem.runtime.webgpu.values import Precision

pytest.importorskip("wgpu")

TARGETS = [
    f"gpu-{kind}{half}" for kind in ("buffer", "texture", "texture-linear", "texture-array") for half in ("", "-fp16")
]


@pytest.mark.parametrize("adapter", ADAPTERS)
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("shape", [(2, 5, 3, 7), (1, 1, 1, 1), (3, 11), (6,), (2, 3, 4, 5, 6), (), (1, 9, 40, 31)])
def test_values_come_back_as_they_were_written(adapter: str, target: str, shape: tuple[int, ...]) -> None:
    device = open_device(need_adapter(adapter))
    net = Net()
    x, y = net.input("x", *shape), net.input("y", *shape)
    graph = net.ready(x).graph()
    memory = GpuMemory(device, separate_places(BUILT_IN[target], graph, (x, y)))
    values = np.random.default_rng(0).standard_normal((2, *shape)).astype(np.float32)
    half = values.astype(np.float16).astype(np.float32)
    memory.poison()
    assert np.isnan(memory.read(x)).all()
    memory.write(x, values[0])
    assert np.isnan(memory.read(y)).all()
    memory.write(y, values[1], unused=float("nan"))
    for number, tensor in enumerate((x, y)):
        found = memory.read(tensor).reshape(shape)
        assert found.tobytes() == (half if "fp16" in target else values)[number].tobytes()
    memory.close()


@pytest.mark.parametrize("target", TARGETS)
def test_poison_reaches_every_texel_of_large_memory(target: str) -> None:
    device = open_device(need_adapter())
    net = Net()
    x = net.input("x", 1, 64, 150, 300)  # more than is filled at once
    memory = GpuMemory(device, separate_places(BUILT_IN[target], net.ready(x).graph(), (x,)))
    memory.write(x, np.ones((1, 64, 150, 300), np.float32))
    memory.poison()
    assert np.isnan(memory.read(x)).all()
    assert memory.allocated == memory.layout.bytes
    memory.close()


def test_the_portable_profile_is_enforced_by_the_device_itself() -> None:
    device = open_device(need_adapter())
    limits = device.handle.limits
    for name, value in portable_profile().limits.items():
        assert limits[name] == value, name
    with pytest.raises(RuntimeBindError, match=r"^too much: Buffer size 268435460 is greater than the maximum"):
        _create_buffer(device, 2**28 + 4)


def _create_buffer(device: Any, size: int) -> None:
    with checked("too much"):
        device.handle.create_buffer(size=size, usage=0x80)


def test_devices_are_opened_once_for_each_adapter_and_profile() -> None:
    name = need_adapter()
    assert open_device(name) is open_device(name) is open_device(name[:6].upper())
    other = open_device(name, "adapter")
    assert other is not open_device(name)
    assert other.profile.buffer >= portable_profile().buffer


def test_adapters_are_chosen_by_name_and_software_comes_last() -> None:
    name = need_adapter()
    found = adapters()
    assert any(adapter.name == name for adapter in found)
    chosen = next(adapter for adapter in found if adapter.name == name)
    assert busy_workgroups(name) == (1024 if chosen.kind == "DiscreteGPU" else 32)
    assert busy_workgroups("Voodoo") == 32
    ranks = [adapter.kind == "CPU" for adapter in found]
    assert ranks == sorted(ranks)
    with pytest.raises(AdapterError, match=rf"there is no GPU adapter 'Voodoo'; there are .*{re.escape(name)}"):
        open_device("Voodoo")
    with pytest.raises(AdapterError, match="no GPU adapter 'Voodoo'"):
        edgemem.GpuExecutor(pyramid(), adapter="Voodoo")


def test_an_adapter_with_less_than_the_profile_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    name = need_adapter()
    huge = GpuProfile("portable", {**portable_profile().limits, "max-buffer-size": 2**50})
    monkeypatch.setattr(device_module, "profile_named", lambda *_: huge)
    monkeypatch.setattr(device_module, "_devices", {})
    with pytest.raises(AdapterError, match=r"has less than the profile 'portable' asks for: max-buffer-size is"):
        open_device(name)


def test_without_wgpu_the_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "wgpu", None)
    with pytest.raises(MissingDependencyError, match=r"running models on GPUs needs wgpu: pip install 'wgpu>="):
        edgemem.GpuExecutor(pyramid())


def test_errors_of_the_device_are_one_line() -> None:
    device = open_device(need_adapter())
    with pytest.raises(RuntimeBindError) as caught, checked("the shader"):
        device.handle.create_shader_module(code="fn main( {")
    assert str(caught.value).startswith("the shader: Shader '' parsing error")
    assert "\n" not in str(caught.value)


def test_a_lost_device_is_one_line_and_the_next_session_opens_another(monkeypatch: pytest.MonkeyPatch) -> None:
    before = open_device(need_adapter())
    with edgemem.GpuExecutor(pyramid()) as executor:

        def lost(*_: object) -> None:
            raise RuntimeError("Could not map buffer: device lost")

        monkeypatch.setattr(GpuMemory, "read", lost)
        with pytest.raises(RuntimeBindError, match=r"(?m)^net does not run on .*: Could not map buffer: device lost$"):
            executor.run(None, {"x": np.zeros((1, 3, 32, 32), np.float32)})
    assert open_device(need_adapter()) is not before


def test_many_constants_are_in_few_buffers_and_an_equal_one_is_kept_once() -> None:
    device = open_device(need_adapter())
    constants = Constants(device.profile)
    values = [np.full(n, n, np.float32) for n in range(4, 400, 4)]
    numbers = [constants.add(v.nbytes, lambda v=v: v, "a layer") for v in values]  # type: ignore[misc]
    shared = [constants.add(32, lambda: np.ones(8, np.float32), "another", "key") for _ in range(3)]
    with pytest.raises(UnsupportedError, match=r"the constants of a huge layer have 128\.\d\d MiB"):
        constants.add(2**27 + 256, lambda: values[0], "a huge layer")
    bound = BoundConstants(device, constants)
    assert len({shared[0], *numbers}) == len(values) + 1
    assert len(set(shared)) == 1
    places = [bound.resource(n) for n in numbers]
    assert len({id(p["buffer"]) for p in places}) == 1
    assert all(p["offset"] % 256 == 0 and p["size"] == v.nbytes for p, v in zip(places, values, strict=True))
    assert bound.allocated == sum(-(-max(v.nbytes, 16) // 256) * 256 for v in values) + 256
    bound.close()


@pytest.mark.parametrize(
    ("dtype", "values"),
    [
        ("int64", [-5, 0, 2048]),
        ("int8", [-128, 127]),
        ("uint8", [0, 255]),
        ("bool", [True, False]),
        ("float16", [1.5, -2]),
        ("float32", [0.5, np.inf, np.nan]),
    ],
)
@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_values_of_every_dtype_pass_the_borders(dtype: str, values: list[Any], precision: Precision) -> None:
    tensor = Tensor("x", dtype, (len(values),))
    given = np.array(values, dtype)
    floats = to_floats(given, tensor, precision)
    assert floats.dtype == np.float32
    found = from_floats(floats, tensor, precision)
    assert found.dtype == given.dtype
    assert found.tobytes() == given.tobytes()


def test_values_that_floats_cannot_hold_are_refused_on_both_borders() -> None:
    tensor = Tensor("x", "int64", (1,))
    exact = np.array([2**24], np.int64)
    assert from_floats(to_floats(exact, tensor, "fp32"), tensor, "fp32").tolist() == [2**24]
    with pytest.raises(RuntimeBindError, match="'x' has the integer 16,777,217, and fp32 keeps integers apart up to"):
        to_floats(exact + 1, tensor, "fp32")
    with pytest.raises(RuntimeBindError, match=r"'x' has the integer 2,049, and fp16 .* 2,048; use fp32"):
        to_floats(np.array([2049]), tensor, "fp16")
    with pytest.raises(RuntimeBindError, match=r"'x' has the integer 4,096, and fp16"):
        from_floats(np.array([-4096], np.float32), tensor, "fp16")
    with pytest.raises(RuntimeBindError, match="a value of it is no number"):
        from_floats(np.array([np.nan], np.float32), tensor, "fp32")
    with pytest.raises(RuntimeBindError, match="which is no uint8"):
        from_floats(np.array([300], np.float32), replace(tensor, dtype="uint8"), "fp32")
    with pytest.raises(RuntimeBindError, match="70000, and fp16 ends at 65504"):
        to_floats(np.array([7e4], np.float32), replace(tensor, dtype="float32"), "fp16")
    with pytest.raises(UnsupportedError, match="'x' is complex64"):
        to_floats(np.zeros(1, np.complex64), replace(tensor, dtype="complex64"), "fp32")


def test_a_hundred_sessions_leave_nothing_behind() -> None:
    need_adapter()
    ready = classifier(channels=32, side=64)  # 0.5 MiB a tensor
    planset = edgemem.plan(ready.graph(), target="gpu-buffer", strategy="offsets/greedy_by_size")
    feeds = {"x": np.ones((1, 32, 64, 64), np.float32)}

    def sessions(count: int) -> int:
        for _ in range(count):
            with edgemem.GpuExecutor(ready, planset) as executor:
                executor.run(None, feeds)
        gc.collect()
        return resident_bytes() or 0

    before = sessions(20)
    assert sessions(100) - before < 10 * 2**20


def test_times_of_more_passes_than_one_set_holds() -> None:
    device = open_device(need_adapter())
    watch = Stopwatch(device, 2050)
    encoder = device.handle.create_command_encoder()
    for number in range(2050):
        encoder.begin_compute_pass(timestamp_writes=watch.around(number)).end()
    device.handle.queue.submit([encoder.finish()])
    times = watch.read()
    assert len(times) == 2050
    assert all(0 <= ms < 1000 for ms in times)
    watch.close()
    with pytest.raises(AdapterError, match="measures no times of operators"):
        Stopwatch(replace(device, has_times=False), 1)
