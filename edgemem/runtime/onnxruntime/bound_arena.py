"""The arena in which nodes are bound: memory of the process, or one allocation of a device."""

from __future__ import annotations

import re
from dataclasses import dataclass
from mmap import mmap
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np

from edgemem.errors import RuntimeBindError
from edgemem.runtime.onnxruntime.baked_file import onnxruntime, runtime_errors
from edgemem.runtime.onnxruntime.cuda import CUDA
from edgemem.runtime.onnxruntime.dlpack import bytes_at

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["BoundArena", "HostArena", "OrtArena", "OrtDevice", "make_arena"]

_CPU: Final = "CPUExecutionProvider"
# One algorithm for one convolution, whatever else the device does: runs can be compared. Nothing beside is reserved.
_CUDA_OPTIONS: Final = {"cudnn_conv_algo_search": "HEURISTIC", "arena_extend_strategy": "kSameAsRequested"}
_NAMED: Final = re.compile(r"(cpu)|(cuda)(?::([0-9]{1,3}))?")


@dataclass(frozen=True, slots=True)
class OrtDevice:
    """Where nodes run.

    Attributes:
        kind: as ONNX Runtime names it, `cpu` or `cuda`.
        number: of several of a kind.
    """

    kind: str = "cpu"
    number: int = 0

    @classmethod
    def parse(cls, text: str) -> OrtDevice:
        """`cpu`, `cuda` or `cuda:1`. Raises RuntimeBindError for another name, or a device that is not here."""
        match = _NAMED.fullmatch(text)
        if match is None:
            raise RuntimeBindError(f"no device {text!r}; there are cpu, cuda and cuda:NUMBER")
        device = cls(match[1] or match[2], int(match[3] or 0))
        present = onnxruntime().get_available_providers()
        if device.kind == "cuda" and CUDA not in present:
            raise RuntimeBindError(
                f"ONNX Runtime has no {CUDA} here, only {', '.join(present)}; install onnxruntime-gpu and CUDA, or use "
                "the CPU"
            )
        return device

    def __str__(self) -> str:
        return f"{self.kind}:{self.number}" if self.number else self.kind

    @property
    def providers(self) -> list[Any]:
        """ONNX Runtime's execution providers in the order of preference."""
        if self.kind == "cpu":
            return [_CPU]
        return [(CUDA, {"device_id": str(self.number), **_CUDA_OPTIONS}), _CPU]


class BoundArena(Protocol):
    """Memory of a fixed size, in which tensors are bound by address.

    Attributes:
        device: where it lies.
        address: of its first byte on the device.
    """

    device: OrtDevice
    address: int

    def fill(self, byte: int) -> None:
        """Set every byte."""

    def write(self, offset: int, value: NDArray[Any]) -> None:
        """Put an array into the bytes from `offset` on."""

    def read(self, offset: int, size: int) -> NDArray[np.uint8]:
        """Bytes from `offset` on: a view of the arena where the processor reaches it, else a copy."""


class HostArena:
    """An arena in memory of the process."""

    def __init__(self, size: int) -> None:
        self.device = OrtDevice()
        # Fresh pages of the system from the start of a page: pages that are not used take no memory.
        self._memory = np.frombuffer(mmap(-1, max(size, 1)), np.uint8)[:size]
        self.address = int(self._memory.ctypes.data)

    def fill(self, byte: int) -> None:
        self._memory.fill(byte)

    def write(self, offset: int, value: NDArray[Any]) -> None:
        place = self._memory[offset : offset + value.nbytes].view(value.dtype).reshape(value.shape)
        np.copyto(place, value)

    def read(self, offset: int, size: int) -> NDArray[np.uint8]:
        return self._memory[offset : offset + size]


class OrtArena:
    """An arena in one tensor of ONNX Runtime's on a device, which it copies to and from.

    Raises RuntimeBindError if the device has not that much memory.
    """

    def __init__(self, size: int, device: OrtDevice) -> None:
        self.device = device
        self._size = size
        try:
            self._whole = onnxruntime().OrtValue.ortvalue_from_shape_and_type(
                [max(size, 1)], np.uint8, device.kind, device.number
            )
        except runtime_errors() as e:
            raise RuntimeBindError(f"no arena of {size} bytes on {device}: {str(e).splitlines()[0]}") from None
        self.address = int(self._whole.data_ptr())
        self._parts: dict[tuple[int, int], Any] = {}

    def fill(self, byte: int) -> None:
        self.write(0, np.full(self._size, byte, np.uint8))

    def write(self, offset: int, value: NDArray[Any]) -> None:
        if value.nbytes:
            self._part(offset, value.nbytes).update_inplace(np.ascontiguousarray(value).reshape(-1).view(np.uint8))

    def read(self, offset: int, size: int) -> NDArray[np.uint8]:
        return np.array(self._part(offset, size).numpy(), np.uint8) if size else np.empty(0, np.uint8)

    def _part(self, offset: int, size: int) -> Any:
        assert 0 <= offset <= offset + size <= self._size
        key = offset, size
        if key not in self._parts:
            self._parts[key] = bytes_at(self.address + offset, size, self.device.kind, self.device.number)
        return self._parts[key]


def make_arena(size: int, device: OrtDevice) -> BoundArena:
    """An arena on a device. Raises RuntimeBindError if there is no room for it."""
    return HostArena(size) if device.kind == "cpu" else OrtArena(size, device)
