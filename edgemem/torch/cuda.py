"""Plans on a CUDA device, through torch.cuda.memory.CUDAPluggableAllocator.

Streams. A plan is of one stream, on which PyTorch runs a step unless the program says otherwise; requests on other
streams come from the fallback, a caching allocator with PyTorch's rules that keeps streams apart. A block that another
stream uses, which `Tensor.record_stream` says, is not given again before the device has been waited for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import torch

from edgemem.errors import RuntimeBindError
from edgemem.replay.cuda import DeviceMemory, cuda_runtime
from edgemem.replay.library import library
from edgemem.replay.loop import Loop

if TYPE_CHECKING:
    from edgemem.replay.arena import ArenaMemory

__all__ = ["Cuda", "use_cuda_allocator"]

_allocator: torch.cuda.memory.CUDAPluggableAllocator | None = None
_SYNCHRONIZE_EVERY: Final = 16  # iterations


def use_cuda_allocator() -> None:
    """Let PyTorch take all memory of CUDA devices from edgemem, for the rest of the process.

    It has to be called before the first tensor is made on a device. Without a session a caching allocator with
    PyTorch's rules serves every request. Again does nothing.

    Blocks that `Tensor.record_stream` was called for are kept after their free until a session has waited for the
    device; without a session they are kept for good.

    Raises:
        RuntimeBindError: this PyTorch has no CUDA, or a tensor was made on a device before.
    """
    global _allocator  # noqa: PLW0603 - PyTorch keeps one for the process, too
    if _allocator is not None:
        return
    if not torch.cuda.is_available():
        raise RuntimeBindError("PyTorch finds no CUDA device; train on the CPU, or install PyTorch for CUDA")
    cuda_runtime()
    found = library()
    allocator = torch.cuda.memory.CUDAPluggableAllocator(found.path, "em_torch_malloc_or_throw", "em_torch_free")
    allocator.allocator().set_record_stream_fn(found.address("em_torch_record_stream"))
    try:
        torch.cuda.memory.change_current_allocator(allocator)
    except RuntimeError as e:
        raise RuntimeBindError(f"call use_cuda_allocator before the first tensor is made on a device: {e}") from None
    _allocator = allocator


class Cuda:
    """A CUDA device.

    Args:
        number: of the device; None is the current one.
    """

    def __init__(self, number: int | None) -> None:
        if _allocator is None:
            raise RuntimeBindError(
                "call edgemem.torch.use_cuda_allocator() before the first tensor is made on a device"
            )
        self.number = torch.cuda.current_device() if number is None else number
        self.name = f"cuda:{self.number}"
        self._iterations = 0

    def prepare(self) -> None:
        """Nothing: the allocator is there."""

    def install(self) -> None:
        """Nothing: PyTorch asks edgemem since `use_cuda_allocator`."""

    def uninstall(self) -> None:
        """Nothing: PyTorch goes on asking edgemem."""

    def arena(self, size: int) -> ArenaMemory:
        """An arena of memory of the device, after what the fallback keeps for later has been given back."""
        with torch.cuda.device(self.number):
            torch.cuda.synchronize()
            Loop(self.number).empty_cache()
            return DeviceMemory(size)

    def settle(self, loop: Loop) -> None:
        """Wait for the device every few iterations, so that blocks of several streams can be given again."""
        self._iterations += 1
        if self._iterations % _SYNCHRONIZE_EVERY == 0:
            torch.cuda.synchronize(self.number)
            loop.synchronized()
