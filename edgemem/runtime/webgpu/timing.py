"""The time of each operator on the GPU, by timestamps that the device writes before and after it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

from edgemem.errors import AdapterError
from edgemem.runtime.webgpu.device import checked

if TYPE_CHECKING:
    from edgemem.runtime.webgpu.device import GpuDevice

__all__ = ["OpTime", "Stopwatch"]

_MOST: Final = 4096  # timestamps of a set, by the WebGPU standard
_RESOLVE: Final = 0x200
_COPY_SRC: Final = 0x4
_BYTES: Final = 8  # of a timestamp


@dataclass(frozen=True, slots=True)
class OpTime:
    """How long an operator ran.

    Attributes:
        number: of the operator, in the order of the plan.
        name, type: the operator's.
        where: `gpu` or `cpu`.
        ms: milliseconds; on the CPU with the copies from and to the GPU.
    """

    number: int
    name: str
    type: str
    where: Literal["gpu", "cpu"]
    ms: float


class Stopwatch:
    """Timestamps around the passes of one run. Raises AdapterError if the device has none."""

    def __init__(self, device: GpuDevice, passes: int) -> None:
        if not device.has_times:
            raise AdapterError(f"{device.adapter} measures no times of operators; run without timings")
        self._device = device.handle
        self._period = _period(device.handle)
        self._sets: list[tuple[Any, Any, int]] = []
        with checked("cannot measure times"):
            left = 2 * passes
            while left > 0:
                count = min(left, _MOST)
                queries = device.handle.create_query_set(type="timestamp", count=count)
                buffer = device.handle.create_buffer(size=count * _BYTES, usage=_RESOLVE | _COPY_SRC)
                self._sets.append((queries, buffer, count))
                left -= count

    def around(self, number: int) -> dict[str, Any]:
        """The `timestamp_writes` of a pass."""
        at = 2 * number
        return {
            "query_set": self._sets[at // _MOST][0],
            "beginning_of_pass_write_index": at % _MOST,
            "end_of_pass_write_index": at % _MOST + 1,
        }

    def read(self) -> list[float]:
        """Milliseconds of each pass, after the last one was submitted."""
        encoder = self._device.create_command_encoder()
        for queries, buffer, count in self._sets:
            encoder.resolve_query_set(queries, 0, count, buffer, 0)
        self._device.queue.submit([encoder.finish()])
        stamps = [np.frombuffer(self._device.queue.read_buffer(buffer), np.uint64) for _, buffer, _ in self._sets]
        pairs = np.concatenate(stamps).reshape(-1, 2).astype(np.int64) if stamps else np.zeros((0, 2), np.int64)
        return [float(d) * self._period / 1e6 for d in (pairs[:, 1] - pairs[:, 0])]

    def close(self) -> None:
        """Give the memory back."""
        for queries, buffer, _ in self._sets:
            queries.destroy()
            buffer.destroy()
        self._sets = []


def _period(device: Any) -> float:
    """Nanoseconds of a tick. The standard has nanoseconds; wgpu-native has the ticks of the driver."""
    try:
        from wgpu.backends.wgpu_native import lib

        return float(lib.wgpuQueueGetTimestampPeriod(device.queue._internal)) or 1.0  # noqa: SLF001
    except (ImportError, AttributeError):
        return 1.0
