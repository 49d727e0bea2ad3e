"""What the executor gives to a GPU, checked by Dawn, which is stricter than wgpu: kernels, bindings, planned models."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import edgemem
import tests.webgpu
from edgemem.runtime.webgpu.device import open_device
from edgemem.runtime.webgpu.executor import GpuExecutor
from tests.dawn import DawnError, dawn_handle, on_dawn
from tests.gpu_cases import KINDS, check_case
from tests.runtime.networks import feeds_of, small
from tests.webgpu import EVERY_REACH
from tests.webgpu_adapters import ADAPTERS

if TYPE_CHECKING:
    from pathlib import Path


SEEDS = len(EVERY_REACH)
PLANNED = (
    ("mobilenet_v2", "gpu-buffer"),
    ("unet", "gpu-buffer-fp16"),
    ("unet", "gpu-texture"),
    ("unet", "gpu-texture-array"),
)


@pytest.mark.full
@pytest.mark.parametrize("seed", range(SEEDS))
@pytest.mark.parametrize("kind", KINDS)
def test_kernels(kind: str, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    handle = dawn_handle()
    monkeypatch.setattr(tests.webgpu, "device", lambda: handle)
    check_case(kind, seed)


@pytest.mark.parametrize(("name", "target"), PLANNED)
def test_planned_models(name: str, target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the plan's memory, full of NaN before, Dawn's results are those without sharing, and near wgpu's."""
    path = small(name, tmp_path)
    planset = edgemem.plan(path, target=target, strategy=("offsets/greedy_by_size", "shared_objects/greedy_by_size"))
    feeds = feeds_of(path)
    floats = replace(open_device(ADAPTERS[0]), has_f16=False, pipelines={})  # Dawn is opened without shader-f16
    monkeypatch.setattr("edgemem.runtime.webgpu.executor.open_device", lambda *_: floats)
    with GpuExecutor(path, planset) as executor:
        of_wgpu = executor.run(None, feeds)
    on_dawn(monkeypatch, "edgemem.runtime.webgpu.executor")
    with GpuExecutor(path, planset, poison=True) as executor:
        assert executor.adapter.startswith("Dawn")
        shared = executor.run(None, feeds)
        assert executor.memory_report.reserved == executor.memory_report.planned
    with GpuExecutor(path, planset, poison=True, sharing=False) as executor:
        alone = executor.run(None, feeds)
    for mine, other, theirs in zip(shared, alone, of_wgpu, strict=True):
        np.testing.assert_array_equal(mine, other)
        assert theirs.std() > 1e-4
        np.testing.assert_allclose(mine, theirs, rtol=0, atol=2e-3 * theirs.std())


def two_buffers(handle: Any, offsets: tuple[int, int], kind: str) -> None:
    """One dispatch that reads from one range of a buffer and writes to another."""
    text = f"""
@group(0) @binding(0) var<storage, {"read" if kind == "read-only-storage" else "read_write"}> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> y: array<f32>;
@compute @workgroup_size(64) fn main(@builtin(global_invocation_id) g: vec3<u32>) {{ y[g.x] = x[g.x] + 1.0; }}
"""
    layout = handle.create_bind_group_layout(
        entries=[
            {"binding": 0, "visibility": 4, "buffer": {"type": kind}},
            {"binding": 1, "visibility": 4, "buffer": {"type": "storage"}},
        ]
    )
    pipeline = handle.create_compute_pipeline(
        layout=handle.create_pipeline_layout(bind_group_layouts=[layout]),
        compute={"module": handle.create_shader_module(code=text), "entry_point": "main"},
    )
    buffer = handle.create_buffer_with_data(data=np.zeros(4096, np.float32), usage=0x80 | 0x4)
    entries = [
        {"binding": k, "resource": {"buffer": buffer, "offset": at, "size": 256}} for k, at in enumerate(offsets)
    ]
    group = handle.create_bind_group(layout=layout, entries=entries)
    encoder = handle.create_command_encoder()
    encoding = encoder.begin_compute_pass()
    encoding.set_pipeline(pipeline)
    encoding.set_bind_group(0, group)
    encoding.dispatch_workgroups(1)
    encoding.end()
    handle.queue.submit([encoder.finish()])
    found = np.frombuffer(handle.queue.read_buffer(buffer), np.float32)
    assert found[offsets[1] // 4 :][:64].tolist() == [1.0] * 64


@pytest.mark.parametrize(
    ("offsets", "kind", "said"),
    [
        ((0, 128), "storage", "minimum .* alignment"),
        ((0, 0), "storage", "aliasing"),
        ((0, 256), "read-only-storage", "usage"),
        ((0, 320), "storage", "minimum .* alignment"),
    ],
)
def test_dawn_is_strict(offsets: tuple[int, int], kind: str, said: str) -> None:
    """What plans must not do is refused: else the tests above show nothing."""
    handle = dawn_handle()
    two_buffers(handle, (0, 256), "storage")
    with pytest.raises(DawnError, match=said):
        two_buffers(handle, offsets, kind)


def test_dawn_has_the_portable_limits() -> None:
    with pytest.raises(DawnError, match="8193"):
        dawn_handle().create_texture(size=(8193, 1, 1), format="rgba32float", usage=0x4)
