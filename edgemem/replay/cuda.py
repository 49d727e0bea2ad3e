"""Memory of a CUDA device, through CUDA's runtime library as it is found; edgemem is built without CUDA."""

from __future__ import annotations

import ctypes
import os
from functools import cache
from itertools import product
from typing import Any, Final

from edgemem.errors import RuntimeBindError
from edgemem.replay.arena import ArenaMemory
from edgemem.replay.library import DEVICE, library

__all__ = ["DeviceMemory", "cuda_runtime"]

_RUNTIMES: Final = ("libcudart.so.13", "libcudart.so.12", "libcudart.so")


@cache
def cuda_runtime() -> Any:
    """CUDA's runtime library, made the source of the allocator's device memory. Raises RuntimeBindError without one.

    One that the process has loaded already is taken first, wherever it lies: PyTorch brings its own.
    """
    modes = (ctypes.DEFAULT_MODE | getattr(os, "RTLD_NOLOAD", 0), ctypes.DEFAULT_MODE)
    for mode, name in product(modes, _RUNTIMES):
        try:
            loaded = ctypes.CDLL(name, mode)
        except OSError:
            continue
        loaded.cudaMalloc.argtypes = [ctypes.POINTER(ctypes.c_void_p), ctypes.c_size_t]
        loaded.cudaFree.argtypes = [ctypes.c_void_p]
        library().c.em_cuda_source(
            ctypes.cast(loaded.cudaMalloc, ctypes.c_void_p), ctypes.cast(loaded.cudaFree, ctypes.c_void_p)
        )
        return loaded
    raise RuntimeBindError(f"CUDA's runtime is not there ({', '.join(_RUNTIMES)}); install CUDA, or use the CPU")


class DeviceMemory(ArenaMemory):
    """An arena of `size` bytes on the current CUDA device."""

    def __init__(self, size: int) -> None:
        _give_back()
        place = ctypes.c_void_p()
        status = cuda_runtime().cudaMalloc(ctypes.byref(place), max(size, 1))
        if status != 0 or not place.value:
            raise MemoryError(f"no device memory for an arena of {size} bytes (CUDA error {status})")
        address = place.value
        c = library().c

        def release(pointer: int) -> None:
            _held.append((pointer, address))
            _give_back()

        self.adopt(c.em_arena_wrap(address, max(size, 1), DEVICE), release, size)


# Arenas that nothing uses any more, and their memory: a block may still be in use.
_held: list[tuple[int, int]] = []


def _give_back() -> None:
    """Free the memory of released arenas in which no block is in use."""
    c = library().c
    for _ in range(len(_held)):
        try:
            pointer, address = _held.pop(0)  # no other thread, and no finalizer in here, has it as well
        except IndexError:
            return
        if c.em_arena_left(pointer) != 0:
            _held.append((pointer, address))
            continue
        c.em_arena_release(pointer)
        cuda_runtime().cudaFree(address)
