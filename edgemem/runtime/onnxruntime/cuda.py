"""Replay on a CUDA device: ONNX Runtime's CUDA provider allocates through functions whose addresses are its options.

The thread that runs the session makes the requests, and the kernels run in one stream in the same order, so a plan that
is right for the order of requests is right for the kernels. Two runs at once have two arenas, as on the host.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from edgemem.errors import RuntimeBindError
from edgemem.replay.cuda import cuda_runtime
from edgemem.replay.library import library

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["CUDA", "with_allocator"]

CUDA: Final = "CUDAExecutionProvider"


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
    cuda_runtime()
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
