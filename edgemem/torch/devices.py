"""What a session needs to know of a device: how PyTorch's requests get to edgemem, and where its arenas come from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from edgemem.errors import RuntimeBindError
from edgemem.replay.arena import ArenaMemory
from edgemem.torch.bridge import bridge
from edgemem.torch.cuda import Cuda

if TYPE_CHECKING:
    from edgemem.replay.loop import Loop

__all__ = ["Backend", "alignment_of", "backend"]


class Backend(Protocol):
    """A device that a session runs on.

    Attributes:
        name: as the user knows it.
        number: of the device in the allocator; -1 is the host.
    """

    @property
    def name(self) -> str: ...
    @property
    def number(self) -> int: ...

    def prepare(self) -> None:
        """Get everything ready that may fail, before anything is changed."""
        ...

    def install(self) -> None:
        """From now on PyTorch asks edgemem."""
        ...

    def uninstall(self) -> None:
        """PyTorch asks as before."""
        ...

    def arena(self, size: int) -> ArenaMemory:
        """An arena of `size` bytes. Raises MemoryError if there is no memory."""
        ...

    def settle(self, loop: Loop) -> None:
        """Called between iterations: make blocks usable again that the device may still use."""
        ...


class Cpu:
    """Host memory, through c10::SetCPUAllocator."""

    name = "cpu"
    number = -1

    def prepare(self) -> None:
        """Compile the bridge, or load it."""
        bridge()

    def install(self) -> None:
        """From now on PyTorch asks edgemem."""
        bridge().install()

    def uninstall(self) -> None:
        """PyTorch asks the allocator from before."""
        bridge().uninstall()

    def arena(self, size: int) -> ArenaMemory:
        """An arena of host memory."""
        return ArenaMemory(size)

    def settle(self, loop: Loop) -> None:
        """Nothing: a block that is freed is free."""


def alignment_of(device: str) -> int | None:
    """Of the blocks that PyTorch's own allocator gives on a device, in bytes; None is what all plans have.

    cuBLAS takes other kernels for matrices aligned to less than 256 bytes, with other results, and no such workspace.
    """
    return None if device == "cpu" else 512


def backend(device: str) -> Backend:
    """The device called "cpu", "cuda" or "cuda:1". Raises RuntimeBindError for another one, or if it is not ready."""
    kind, _, number = device.partition(":")
    if device == "cpu":
        return Cpu()
    if kind == "cuda" and (number.isdecimal() or device == "cuda"):
        return Cuda(int(number) if number else None)
    raise RuntimeBindError(f"there are no plans for {device!r}; the devices are cpu and cuda")
