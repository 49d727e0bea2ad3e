"""Replay on a CUDA device: ONNX Runtime's CUDA provider allocates through functions whose addresses are its options.

The thread that runs the session makes the requests, and the kernels run in one stream in the same order, so a plan that
is right for the order of requests is right for the kernels. Two runs at once have two arenas, as on the host.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from edgemem.errors import RuntimeBindError
from edgemem.replay.arena import ArenaMemory
from edgemem.replay.library import DEVICE, library

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["CUDA", "DeviceMemory", "with_allocator"]

CUDA: Final = "CUDAExecutionProvider"
_RUNTIMES: Final = ("libcudart.so.13", "libcudart.so.12", "libcudart.so")


def with_allocator(
    providers: Sequence[str | tuple[str, dict[Any, Any]]], provider_options: Sequence[dict[Any, Any]] | None
) -> list[tuple[str, dict[Any, Any]]]:
    """The providers with their options; those of CUDA name edgemem's allocator.

    Raises RuntimeBindError if CUDA's runtime cannot be loaded, or the user gave CUDA an allocator or stream already.
    """
    options = [dict(o) for o in provider_options] if provider_options else [{} for _ in providers]
    named = [
        (p, own) if isinstance(p, str) else (p[0], {**own, **p[1]}) for p, own in zip(providers, options, strict=True)
    ]
    runtime()
    found = library()
    for name, own in named:
        if name != CUDA:
            continue
        taken = sorted(k for k in own if k.startswith("gpu_external_") or k == "user_compute_stream")
        if taken:
            raise RuntimeBindError(
                f"{CUDA} was given {', '.join(taken)}, which excludes edgemem's allocator; leave it out"
            )
        own["gpu_external_alloc"] = str(found.address("em_cuda_alloc"))
        own["gpu_external_free"] = str(found.address("em_cuda_free"))
        own["gpu_external_empty_cache"] = str(found.address("em_cuda_empty_cache"))
    return named


@cache
def runtime() -> Any:
    """CUDA's runtime library, made the source of the allocator's device memory. Raises RuntimeBindError without one."""
    for name in _RUNTIMES:
        try:
            loaded = ctypes.CDLL(name)
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
        place = ctypes.c_void_p()
        status = runtime().cudaMalloc(ctypes.byref(place), max(size, 1))
        if status != 0 or not place.value:
            raise MemoryError(f"no device memory for an arena of {size} bytes (CUDA error {status})")
        address = place.value
        c = library().c

        def release(pointer: int) -> None:
            unused = c.em_arena_left(pointer) == 0
            c.em_arena_release(pointer)
            if unused:  # else a block in it is still in use, and the memory stays until the process ends
                runtime().cudaFree(address)

        self.adopt(c.em_arena_wrap(address, max(size, 1), DEVICE), release, size)
