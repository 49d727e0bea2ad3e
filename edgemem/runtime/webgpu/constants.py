"""Weights, constants and parameters of kernels: many arrays in few read-only buffers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from edgemem.errors import UnsupportedError
from edgemem.report.sizes import size_text
from edgemem.runtime.webgpu.device import checked

if TYPE_CHECKING:
    from collections.abc import Hashable

    from numpy.typing import NDArray

    from edgemem.runtime.webgpu.device import GpuDevice

__all__ = ["Constants", "Parameters"]

_STORAGE: Final = 0x80
_UNIFORM: Final = 0x40
_AT_ONCE: Final = 8 * 2**20  # bytes that wait here before they are put into a buffer
_LEAST: Final = 16  # bytes of a binding


class Constants:
    """Arrays of float32 that kernels only read.

    Attributes:
        allocated: bytes of the buffers, as the device reports them.
    """

    def __init__(self, device: GpuDevice) -> None:
        self._device = device
        self._alignment = device.profile.alignment
        self._most = device.profile.buffer
        self._waiting: list[tuple[int, NDArray[np.float32]]] = []
        self._waiting_bytes = 0
        self._buffers: list[Any] = []
        self._ranges: list[tuple[int, int, int]] = []  # buffer, offset, bytes
        self._known: dict[Hashable, int] = {}
        self.allocated = 0

    def add(self, values: NDArray[np.float32], what: str, key: Hashable = None) -> int:
        """Keep an array, and return the number by which `resource` knows it.

        Args:
            values: of any shape.
            what: whose it is, for errors.
            key: an array with an equal key is kept once. None: it is no other's.

        Raises UnsupportedError for an array that is larger than a shader can reach.
        """
        if key is not None and key in self._known:
            return self._known[key]
        flat = np.ascontiguousarray(values, np.float32).reshape(-1)
        size = max(flat.nbytes, _LEAST)
        profile = self._device.profile
        if size > min(profile.binding, profile.buffer):
            more = "" if profile.name == "adapter" else "; run with the adapter's own limits (--profile adapter)"
            raise UnsupportedError(
                f"the constants of {what} have {size_text(size)}, and a shader of the profile {profile.name!r} "
                f"reaches {size_text(min(profile.binding, profile.buffer))}{more}"
            )
        padded = -(-size // self._alignment) * self._alignment
        if self._waiting_bytes + padded > min(_AT_ONCE, self._most):
            self.flush()
        number = len(self._ranges)
        self._ranges.append((len(self._buffers), self._waiting_bytes, size))
        self._waiting.append((self._waiting_bytes, flat))
        self._waiting_bytes += padded
        if key is not None:
            self._known[key] = number
        return number

    def flush(self) -> None:
        """Put what waits into a buffer. `resource` may be called afterwards."""
        if not self._waiting:
            return
        with checked(f"cannot allocate {size_text(self._waiting_bytes)} for constants"):
            buffer = self._device.handle.create_buffer(
                size=self._waiting_bytes, usage=_STORAGE, mapped_at_creation=True
            )
            for begin, values in self._waiting:
                buffer.write_mapped(values, begin)
            buffer.unmap()
            self._device.wait()  # what the values were copied from is given back before more is taken
        self.allocated += int(buffer.size)
        self._buffers.append(buffer)
        self._waiting, self._waiting_bytes = [], 0

    def resource(self, number: int) -> dict[str, Any]:
        """What a bind group takes for an array."""
        buffer, offset, size = self._ranges[number]
        return {"buffer": self._buffers[buffer], "offset": offset, "size": size}

    def close(self) -> None:
        """Give the memory back."""
        for buffer in self._buffers:
            buffer.destroy()
        self._buffers, self._waiting = [], []


class Parameters:
    """The uniform blocks of all dispatches, in one buffer.

    Attributes:
        allocated: bytes of the buffer, as the device reports them.
    """

    def __init__(self, device: GpuDevice, blocks: list[bytes]) -> None:
        alignment = device.profile.uniform_alignment
        self._ranges: list[tuple[int, int]] = []
        end = 0
        for block in blocks:
            self._ranges.append((end, len(block)))
            end += -(-len(block) // alignment) * alignment
        data = bytearray(max(end, _LEAST))
        for (begin, size), block in zip(self._ranges, blocks, strict=True):
            data[begin : begin + size] = block
        with checked(f"cannot allocate {size_text(len(data))} for parameters"):
            self._buffer = device.handle.create_buffer_with_data(data=data, usage=_UNIFORM)
        self.allocated = int(self._buffer.size)

    def resource(self, number: int) -> dict[str, Any]:
        """What a bind group takes for a dispatch's block."""
        offset, size = self._ranges[number]
        return {"buffer": self._buffer, "offset": offset, "size": size}

    def close(self) -> None:
        """Give the memory back."""
        self._buffer.destroy()
