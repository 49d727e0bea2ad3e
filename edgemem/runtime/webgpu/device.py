"""Adapters and devices of WebGPU, through wgpu: which there are, which one is taken, and what it says when it refuses.

A process has one device for each adapter and profile: devices keep threads and compiled shaders, so that sessions
share them.
"""

from __future__ import annotations

import logging
import os
import re
import sys
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Any, Final

from edgemem.errors import AdapterError, EdgememError, MissingDependencyError, RuntimeBindError
from edgemem.runtime.webgpu.dispatch import SMALL
from edgemem.runtime.webgpu.profile import profile_named
from edgemem.system.text import join_names

if TYPE_CHECKING:
    from collections.abc import Iterator

    from edgemem.runtime.webgpu.profile import GpuProfile

__all__ = ["Adapter", "GpuDevice", "adapters", "busy_workgroups", "checked", "open_device"]

# Kinds of adapters and interfaces to them, the best first.
_KINDS: Final = ("DiscreteGPU", "IntegratedGPU", "VirtualGPU", "Unknown", "CPU")
_INTERFACES: Final = ("Vulkan", "Metal", "D3D12", "D3D11", "OpenGL", "OpenGLES")
_LARGE: Final = 1024  # workgroups of 64 that keep a large GPU busy: the best of 32 and 1024 on an NVIDIA H100
_TIMES: Final = "timestamp-query"
_HALVES: Final = "shader-f16"
_COPY_SRC: Final = 0x4  # GPUBufferUsage
_LOST: Final = "lost"  # in every error of a device that is gone
_TEXT: Final = 400  # characters of an error message of wgpu

_lock = threading.Lock()
_log = logging.getLogger("edgemem")


@dataclass(frozen=True, slots=True)
class Adapter:
    """A GPU, or a program that acts as one.

    Attributes:
        name: the device's, as its driver calls it.
        kind: `DiscreteGPU`, `IntegratedGPU`, `VirtualGPU`, `CPU` (computed in software) or `Unknown`.
        interface: `Vulkan`, `Metal`, `D3D12`, `OpenGL`, ...
        description: of the driver.
        handle: wgpu's.
    """

    name: str
    kind: str
    interface: str
    description: str
    handle: Any = field(repr=False, compare=False)

    def __str__(self) -> str:
        of = f", {self.description}" if self.description else ""
        return f"{self.name} ({self.interface}{of})"


@dataclass(frozen=True, slots=True, eq=False)
class GpuDevice:
    """An open device, with what sessions on it share.

    Attributes:
        handle: wgpu's device.
        adapter: what it was opened on.
        profile: the limits that it enforces.
        has_times: whether it measures the time of dispatches.
        has_f16: whether kernels may compute with halves.
        pipelines: compiled kernels by their text.
        mark: a small buffer to wait for the device with.
    """

    handle: Any
    adapter: Adapter
    profile: GpuProfile
    has_times: bool
    pipelines: dict[Any, Any] = field(default_factory=dict)
    mark: Any = None
    has_f16: bool = False

    def wait(self) -> None:
        """Return when all that was submitted has run."""
        # Deviation: `GPUQueue.on_submitted_work_done` of wgpu 0.32 fails. Copies wait for what was submitted before.
        self.handle.queue.read_buffer(self.mark)


_devices: dict[tuple[Adapter, str], GpuDevice] = {}


def adapters() -> tuple[Adapter, ...]:
    """All adapters, the best first: GPUs before software, Vulkan before OpenGL.

    Raises MissingDependencyError without wgpu.
    """
    wgpu = _wgpu()
    found = []
    with _drivers_logged():
        handles = wgpu.gpu.enumerate_adapters_sync()
    for handle in handles:
        info = handle.info
        name = info.get("device") or info.get("description") or info.get("vendor") or "unnamed"
        found.append(
            Adapter(
                str(name),
                str(info.get("adapter_type", "Unknown")),
                str(info.get("backend_type", "")),
                str(info.get("description", "")),
                handle,
            )
        )
    return tuple(sorted(found, key=lambda a: (_rank(_KINDS, a.kind), _rank(_INTERFACES, a.interface))))


def busy_workgroups(name: str | None = None) -> int:
    """Workgroups that keep the adapter busy which `open_device` takes, without opening a device.

    By its kind: WebGPU does not tell how many workgroups a GPU runs at once. Where there is no adapter, those of a
    small one: `open_device` says what is missing.
    """
    try:
        with _lock:
            return _LARGE if _chosen(name).kind == "DiscreteGPU" else SMALL
    except (MissingDependencyError, AdapterError):
        return SMALL


def open_device(name: str | None = None, profile: str = "portable") -> GpuDevice:
    """A device on the best adapter, or on the best one whose name has these letters (of any case).

    The process has one such device; it is opened at the first call.

    Raises:
        MissingDependencyError: wgpu is not installed.
        AdapterError: there is no adapter, or none of that name; or it has less than the profile asks for.
        RuntimeBindError: there is no such profile.
    """
    with _lock:
        adapter = _chosen(name)
        known = _devices.get((adapter, profile))
        if known is not None:
            return known
        handle = adapter.handle
        wanted = profile_named(profile, handle.limits)
        missing = wanted.shortcomings(handle.limits)
        if missing:
            raise AdapterError(f"{adapter} has less than the profile {profile!r} asks for: {join_names(missing)}")
        features = [name for name in (_TIMES, _HALVES) if name in handle.features]
        refusals: tuple[type[Exception], ...] = (ValueError, *_errors())
        try:
            with _drivers_logged():
                opened = handle.request_device_sync(required_features=features, required_limits=dict(wanted.limits))
            mark = opened.create_buffer(size=4, usage=_COPY_SRC)
        except refusals as e:
            raise AdapterError(f"{adapter} gives no device: {_gist(str(e))}") from None
        # Deviation: software that has halves computes with floats: lavapipe took 1.1 to 1.7 times as long with halves.
        has_f16 = _HALVES in features and adapter.kind != "CPU"
        device = GpuDevice(opened, adapter, wanted, _TIMES in features, mark=mark, has_f16=has_f16)
        _devices[adapter, profile] = device
        return device


@contextmanager
def checked(what: str) -> Iterator[None]:
    """Errors of wgpu in the block as RuntimeBindError of one line: what could not be done, and why.

    After the loss of a device, `open_device` opens another.
    """
    try:
        yield
    except EdgememError:
        raise
    except _errors() as e:
        if _LOST in str(e).casefold():
            with _lock:
                _devices.clear()  # so that the next session opens another
        raise RuntimeBindError(f"{what}: {_gist(str(e))}") from None


def _chosen(name: str | None) -> Adapter:
    found = adapters()
    if not found:
        raise AdapterError("there is no GPU adapter; install a driver of Vulkan, Metal or Direct3D 12")
    if name is None:
        return found[0]
    wanted = name.casefold()
    for adapter in found:
        info = adapter.handle.info
        texts = (adapter.name, adapter.description, str(info.get("vendor", "")), adapter.interface)
        if any(wanted in text.casefold() for text in texts):
            return adapter
    raise AdapterError(f"there is no GPU adapter {name!r}; there are {join_names(map(str, found))}")


@contextmanager
def _drivers_logged() -> Iterator[None]:
    """What drivers print to the standard error as they are loaded goes to the log of edgemem (level DEBUG).

    They say there what they do without, such as a display; what goes wrong is an error of wgpu.
    """
    sys.stderr.flush()
    try:
        screen = os.dup(2)
    except OSError:  # it is closed
        yield
        return
    try:
        with TemporaryFile() as log:
            os.dup2(log.fileno(), 2)
            try:
                yield
            finally:
                os.dup2(screen, 2)
                log.seek(0)
                for line in log.read().decode(errors="replace").splitlines():
                    _log.debug("driver: %s", line)
    finally:
        os.close(screen)


def _rank(order: tuple[str, ...], name: str) -> int:
    return order.index(name) if name in order else len(order)


def _errors() -> tuple[type[Exception], ...]:
    return (RuntimeError, _wgpu().GPUError)  # RuntimeError: a lost device, or a buffer that cannot be mapped


def _gist(text: str) -> str:
    """An error message of wgpu in one line, without the names of its functions."""
    lines = [line.strip() for line in text.splitlines()]
    lines = [line for line in lines if line and line not in ("Validation Error", "Caused by:")]
    said = [line for line in lines if not line.startswith("In wgpu")] or lines
    return re.sub(r"\s+", " ", "; ".join(said))[:_TEXT]


def _wgpu() -> Any:
    try:
        import wgpu  # an optional dependency, and slow to load
    except ImportError:
        raise MissingDependencyError("wgpu", purpose="running models on GPUs") from None
    return wgpu
