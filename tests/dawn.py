"""Dawn, the WebGPU of Chromium, behind the calls of wgpu that edgemem makes: a second validator, and a strict one.

Its devices have the limits that WebGPU has everywhere. Each call has an error scope, and an error of validation or of
memory is raised. Unlike wgpu, Dawn refuses writable bindings of one dispatch that overlap.
"""

from __future__ import annotations

import ctypes
import os
import warnings
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pytest

from edgemem.runtime.webgpu import device as devices
from edgemem.runtime.webgpu.device import Adapter, GpuDevice
from edgemem.runtime.webgpu.profile import profile_named

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["DawnDevice", "DawnError", "dawn_device", "dawn_handle", "on_dawn"]

_FORMATS: Final = {"rgba16float": 8, "rgba32float": 16}  # bytes of a texel
_ROW: Final = 256
_COPY_SRC, _COPY_DST, _MAP_READ = 0x4, 0x8, 0x1


class DawnError(RuntimeError):
    """What Dawn refuses, in its words."""


def _w() -> Any:
    return _module("webgpu")


def _u() -> Any:
    return _module("utils")


def _module(name: str) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.14: of its structures that only set `_pack_`
        return import_module(f"pydawn.{name}")


class _Owned:
    """A buffer or texture, with what wgpu's objects tell of themselves."""

    def __init__(self, device: DawnDevice, handle: Any, size: Any, form: str = "") -> None:
        self.device, self.handle, self.size, self.form = device, handle, size, form

    def create_view(self, *, dimension: str = "2d", base_array_layer: int = 0, array_layer_count: int = 1) -> Any:
        w = _w()
        described = w.WGPUTextureViewDescriptor()
        described.format = getattr(w, f"WGPUTextureFormat_{self.form.upper().replace('FLOAT', 'Float')}")
        described.dimension = _view_dimension(dimension)
        described.mipLevelCount = 1
        described.baseArrayLayer, described.arrayLayerCount = base_array_layer, array_layer_count
        described.aspect = w.WGPUTextureAspect_All
        with self.device.checked("view"):
            return w.wgpuTextureCreateView(self.handle, ctypes.byref(described))

    def write_mapped(self, data: Any, offset: int = 0) -> None:
        self.device.queue.write_buffer(self, offset, data)

    def unmap(self) -> None:
        """What was written is there already."""

    def destroy(self) -> None:
        w = _w()
        (w.wgpuTextureDestroy if self.form else w.wgpuBufferDestroy)(self.handle)


def _view_dimension(name: str) -> int:
    return int(
        getattr(_w(), {"2d": "WGPUTextureViewDimension_2D", "2d-array": "WGPUTextureViewDimension_2DArray"}[name])
    )


class _Pass:
    def __init__(self, encoder: Any) -> None:
        self._pass = _u().begin_compute_pass(encoder)

    def set_pipeline(self, pipeline: Any) -> None:
        _u().set_pipeline(self._pass, pipeline)

    def set_bind_group(self, index: int, group: Any) -> None:
        _w().wgpuComputePassEncoderSetBindGroup(self._pass, index, group, 0, None)

    def dispatch_workgroups(self, x: int, y: int = 1, z: int = 1) -> None:
        _u().dispatch_workgroups(self._pass, x, y, z)

    def end(self) -> None:
        _u().end_compute_pass(self._pass)


class _Encoder:
    def __init__(self, device: DawnDevice) -> None:
        self._device = device
        self._encoder = _u().create_command_encoder(device.handle)

    def begin_compute_pass(self) -> _Pass:
        return _Pass(self._encoder)

    def copy_buffer_to_buffer(self, source: _Owned, at: int, to: _Owned, offset: int, size: int) -> None:
        _w().wgpuCommandEncoderCopyBufferToBuffer(self._encoder, source.handle, at, to.handle, offset, size)

    def copy_buffer_to_texture(self, source: dict[str, Any], to: dict[str, Any], size: Sequence[int]) -> None:
        _w().wgpuCommandEncoderCopyBufferToTexture(
            self._encoder, ctypes.byref(_of_buffer(source)), ctypes.byref(_of_texture(to)), ctypes.byref(_extent(size))
        )

    def copy_texture_to_buffer(self, source: dict[str, Any], to: dict[str, Any], size: Sequence[int]) -> None:
        _w().wgpuCommandEncoderCopyTextureToBuffer(
            self._encoder, ctypes.byref(_of_texture(source)), ctypes.byref(_of_buffer(to)), ctypes.byref(_extent(size))
        )

    def finish(self) -> Any:
        with self._device.checked("commands"):
            return _u().command_encoder_finish(self._encoder)


def _extent(size: Sequence[int]) -> Any:
    made = _w().WGPUExtent3D()
    made.width, made.height, made.depthOrArrayLayers = (*size, 1, 1)[:3]
    return made


def _of_texture(place: dict[str, Any]) -> Any:
    w = _w()
    made = w.WGPUImageCopyTexture()
    made.texture, made.aspect = place["texture"].handle, w.WGPUTextureAspect_All
    made.origin.x, made.origin.y, made.origin.z = (*place.get("origin", (0, 0, 0)), 0, 0)[:3]
    return made


def _layout(place: dict[str, Any]) -> Any:
    made = _w().WGPUTextureDataLayout()
    made.offset, made.bytesPerRow = place.get("offset", 0), place["bytes_per_row"]
    made.rowsPerImage = place.get("rows_per_image", 0xFFFFFFFF)
    return made


def _of_buffer(place: dict[str, Any]) -> Any:
    made = _w().WGPUImageCopyBuffer()
    made.layout, made.buffer = _layout(place), place["buffer"].handle
    return made


class _Queue:
    def __init__(self, device: DawnDevice) -> None:
        self._device = device
        self._queue = _w().wgpuDeviceGetQueue(device.handle)

    def submit(self, commands: Sequence[Any]) -> None:
        with self._device.checked("submit"):
            _u().submit(self._device.handle, list(commands))

    def write_buffer(self, buffer: _Owned, offset: int, data: Any) -> None:
        held = np.frombuffer(np.ascontiguousarray(data).tobytes(), np.uint8).copy()
        with self._device.checked("write"):
            _w().wgpuQueueWriteBuffer(self._queue, buffer.handle, offset, held.ctypes.data, held.size)

    def write_texture(self, to: dict[str, Any], data: Any, layout: dict[str, Any], size: Sequence[int]) -> None:
        held = np.frombuffer(np.ascontiguousarray(data).tobytes(), np.uint8).copy()
        with self._device.checked("write"):
            _w().wgpuQueueWriteTexture(
                self._queue,
                ctypes.byref(_of_texture(to)),
                held.ctypes.data,
                held.size,
                ctypes.byref(_layout(layout)),
                ctypes.byref(_extent(size)),
            )

    def read_buffer(self, buffer: _Owned, offset: int = 0, size: int | None = None) -> memoryview:
        count = buffer.size - offset if size is None else size
        to = self._device.create_buffer(size=-(-count // 4) * 4, usage=_COPY_DST | _MAP_READ)
        encoder = self._device.create_command_encoder()
        encoder.copy_buffer_to_buffer(buffer, offset, to, 0, to.size)
        self.submit([encoder.finish()])
        return memoryview(self._mapped(to)[:count])

    def read_texture(self, source: dict[str, Any], layout: dict[str, Any], size: Sequence[int]) -> memoryview:
        width, height, depth = (*size, 1, 1)[:3]
        row = width * _FORMATS[source["texture"].form]
        wide = -(-row // _ROW) * _ROW
        to = self._device.create_buffer(size=wide * height * depth, usage=_COPY_DST | _MAP_READ)
        encoder = self._device.create_command_encoder()
        encoder.copy_texture_to_buffer(source, {"buffer": to, "bytes_per_row": wide, "rows_per_image": height}, size)
        self.submit([encoder.finish()])
        rows = np.frombuffer(self._mapped(to), np.uint8).reshape(height * depth, wide)[:, :row]
        assert layout["bytes_per_row"] == row
        return memoryview(np.ascontiguousarray(rows).tobytes())

    def _mapped(self, buffer: _Owned) -> bytes:
        u, w = _u(), _w()
        u.sync(self._device.handle)
        u.map_buffer(buffer.handle, buffer.size)
        place = ctypes.cast(w.wgpuBufferGetConstMappedRange(buffer.handle, 0, buffer.size), ctypes.c_void_p).value
        assert place is not None
        data = ctypes.string_at(place, buffer.size)
        w.wgpuBufferUnmap(buffer.handle)
        buffer.destroy()
        return data


class DawnDevice:
    """A device of Dawn on the first adapter of Vulkan, with the calls of a `wgpu.GPUDevice`."""

    def __init__(self) -> None:
        os.environ["BACKEND_TYPE"] = "Vulkan"
        u, w = _u(), _w()
        self._adapter = u.request_adapter_sync(w.WGPUPowerPreference_LowPower)
        self.handle = self._opened()
        self.queue = _Queue(self)

    @property
    def name(self) -> str:
        """The adapter's."""
        u, w = _u(), _w()
        info = w.WGPUAdapterInfo()
        w.wgpuAdapterGetInfo(self._adapter, ctypes.byref(info))
        return str(u.from_wgpu_str(info.device))

    def _opened(self) -> Any:
        """A device without any limits or features asked for: what is portable."""
        u, w = _u(), _w()
        found: dict[str, Any] = {}

        def done(status: int, device: Any, message: Any, _: Any) -> None:
            found.update(status=status, device=device, message=u.from_wgpu_str(message))

        info = w.WGPURequestDeviceCallbackInfo()
        info.mode, info.callback = w.WGPUCallbackMode_WaitAnyOnly, w.WGPURequestDeviceCallback(done)
        u.wait(w.wgpuAdapterRequestDeviceF(self._adapter, ctypes.byref(w.WGPUDeviceDescriptor()), info))
        if found["status"] != w.WGPURequestDeviceStatus_Success:
            raise DawnError(found["message"])
        return found["device"]

    @contextmanager
    def checked(self, what: str) -> Iterator[None]:
        """Errors of the block are raised."""
        u, w = _u(), _w()
        w.wgpuDevicePushErrorScope(self.handle, w.WGPUErrorFilter_Validation)
        w.wgpuDevicePushErrorScope(self.handle, w.WGPUErrorFilter_OutOfMemory)
        try:
            yield
        finally:
            errors = [u.pop_error(self.handle), u.pop_error(self.handle)]
        if any(errors):
            raise DawnError(f"{what}: {' '.join(filter(None, errors))}")

    def create_buffer(self, *, size: int, usage: int, mapped_at_creation: bool = False, **_: Any) -> _Owned:
        usage |= _COPY_DST if mapped_at_creation else 0  # it is written instead of mapped
        with self.checked("buffer"):
            return _Owned(self, _u().create_buffer(self.handle, size, usage), size)

    def create_buffer_with_data(self, *, data: Any, usage: int, **_: Any) -> _Owned:
        held = np.frombuffer(np.ascontiguousarray(data).tobytes(), np.uint8)
        made = self.create_buffer(size=-(-held.size // 4) * 4, usage=usage | _COPY_DST)
        self.queue.write_buffer(made, 0, np.pad(held, (0, made.size - held.size)))
        return made

    def create_texture(self, *, size: Sequence[int], format: str, usage: int, **_: Any) -> _Owned:  # noqa: A002
        w = _w()
        described = w.WGPUTextureDescriptor()
        described.usage, described.dimension = usage, w.WGPUTextureDimension_2D
        described.format = getattr(w, f"WGPUTextureFormat_{format.upper().replace('FLOAT', 'Float')}")
        described.size = _extent(size)
        described.mipLevelCount = described.sampleCount = 1
        with self.checked("texture"):
            return _Owned(self, w.wgpuDeviceCreateTexture(self.handle, ctypes.byref(described)), tuple(size), format)

    def create_shader_module(self, *, code: str, **_: Any) -> Any:
        try:
            return _u().create_shader_module(self.handle, code)
        except RuntimeError as e:
            raise DawnError(str(e)) from None

    def create_bind_group_layout(self, *, entries: Sequence[dict[str, Any]], **_: Any) -> Any:
        w = _w()
        buffers = {"uniform": "Uniform", "storage": "Storage", "read-only-storage": "ReadOnlyStorage"}
        made = (w.WGPUBindGroupLayoutEntry * len(entries))()
        for to, entry in zip(made, entries, strict=True):
            to.binding, to.visibility = entry["binding"], int(entry["visibility"])
            if "buffer" in entry:
                to.buffer.type = getattr(w, f"WGPUBufferBindingType_{buffers[entry['buffer']['type']]}")
            elif "texture" in entry:
                assert entry["texture"]["sample_type"] == "unfilterable-float"
                to.texture.sampleType = w.WGPUTextureSampleType_UnfilterableFloat
                to.texture.viewDimension = _view_dimension(entry["texture"].get("view_dimension", "2d"))
            else:
                of = entry["storage_texture"]
                assert of["access"] == "write-only"
                to.storageTexture.access = w.WGPUStorageTextureAccess_WriteOnly
                form = of["format"].upper().replace("FLOAT", "Float")
                to.storageTexture.format = getattr(w, f"WGPUTextureFormat_{form}")
                to.storageTexture.viewDimension = _view_dimension(of.get("view_dimension", "2d"))
        described = w.WGPUBindGroupLayoutDescriptor()
        described.entryCount, described.entries = len(entries), made
        with self.checked("bind group layout"):
            return w.wgpuDeviceCreateBindGroupLayout(self.handle, ctypes.byref(described))

    def create_pipeline_layout(self, *, bind_group_layouts: Sequence[Any], **_: Any) -> Any:
        with self.checked("pipeline layout"):
            return _u().create_pipeline_layout(self.handle, list(bind_group_layouts))

    def create_compute_pipeline(self, *, layout: Any, compute: dict[str, Any], **_: Any) -> Any:
        try:
            return _u().create_compute_pipeline(self.handle, layout, compute)
        except RuntimeError as e:
            raise DawnError(str(e)) from None

    def create_bind_group(self, *, layout: Any, entries: Sequence[dict[str, Any]], **_: Any) -> Any:
        w = _w()
        made = (w.WGPUBindGroupEntry * len(entries))()
        for to, entry in zip(made, entries, strict=True):
            to.binding, resource = entry["binding"], entry["resource"]
            if isinstance(resource, dict):
                to.buffer, to.offset = resource["buffer"].handle, resource.get("offset", 0)
                to.size = resource.get("size", resource["buffer"].size - to.offset)
            else:
                to.textureView = resource
        described = w.WGPUBindGroupDescriptor()
        described.layout, described.entryCount, described.entries = layout, len(entries), made
        with self.checked("bind group"):
            return w.wgpuDeviceCreateBindGroup(self.handle, ctypes.byref(described))

    def create_command_encoder(self, **_: Any) -> _Encoder:
        return _Encoder(self)


@cache
def dawn_handle() -> DawnDevice:
    """The device of this process. Skips the test where there is no Dawn or no adapter."""
    pytest.importorskip("pydawn")
    try:
        return DawnDevice()
    except RuntimeError as e:
        pytest.skip(f"no WebGPU adapter for Dawn: {e}")


@cache
def dawn_device() -> GpuDevice:
    """The same as the executor's device, in its portable profile."""
    handle = dawn_handle()
    mark = handle.create_buffer(size=4, usage=_COPY_SRC | _COPY_DST)
    adapter = Adapter(f"Dawn, {handle.name}", "CPU", "Vulkan", "", handle)
    profile = profile_named("portable", {})
    more: dict[str, Any] = {"mark": mark} if "mark" in GpuDevice.__dataclass_fields__ else {}
    return GpuDevice(handle, adapter, profile, has_times=False, **more)


def on_dawn(monkeypatch: pytest.MonkeyPatch, *modules: str) -> GpuDevice:
    """Have these modules, and the executor's device, open Dawn."""
    found = dawn_device()
    monkeypatch.setattr(devices, "open_device", lambda *_: found)
    for name in modules:
        monkeypatch.setattr(import_module(name), "open_device", lambda *_: found)
    return found
