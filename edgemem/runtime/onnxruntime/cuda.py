"""Replay on a CUDA device: ONNX Runtime's CUDA provider allocates through functions whose addresses are its options.

The thread that runs the session makes the requests, and the kernels run in one stream in the same order, so a plan that
is right for the order of requests is right for the kernels. Two runs at once have two arenas, as on the host.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from edgemem.errors import RuntimeBindError
from edgemem.replay.library import library

__all__ = ["CUDA", "Providers", "planned_providers", "with_allocator", "without_device"]

_Named: TypeAlias = str | tuple[str, dict[Any, Any]]
CUDA: Final = "CUDAExecutionProvider"
_CPU: Final = "CPUExecutionProvider"


class Providers(NamedTuple):
    """The providers of a session and their options, as ONNX Runtime has them.

    `is_device` says whether the memory of CUDA's device is planned; else the host's is.
    """

    named: Sequence[_Named] | None
    options: Sequence[dict[Any, Any]] | None
    is_device: bool


def planned_providers(
    onnxruntime: Any, options: Any, named: Sequence[_Named] | None, own: Sequence[dict[Any, Any]] | None
) -> Providers:
    """The providers to make a session with; by default the CPU's alone.

    Of one that is not there ONNX Runtime warns, and goes on without it. Raises as `with_allocator`.
    """
    if named is None and not (hasattr(options, "has_providers") and options.has_providers()):
        named = [_CPU]
    given = Providers(named, own, is_device=False)
    if not isinstance(named, Sequence):
        return given
    if not any(p == CUDA or (isinstance(p, tuple) and p[:1] == (CUDA,)) for p in named):
        return given
    if CUDA not in onnxruntime.get_available_providers():
        return given
    from edgemem.replay.cuda import cuda_runtime  # for these sessions alone

    try:
        cuda_runtime()
    except RuntimeBindError as error:
        warnings.warn(f"host memory alone is planned: {error}", RuntimeWarning, stacklevel=3)
        return given
    return Providers(with_allocator(named, own), None, is_device=True)


def without_device(present: Sequence[str]) -> Providers:
    """The providers to make a session with again where ONNX Runtime went on without CUDA, on those that are present."""
    warnings.warn(
        f"ONNX Runtime has no CUDA device here and goes on with {', '.join(present)}", RuntimeWarning, stacklevel=3
    )
    return Providers(list(present), None, is_device=False)


def with_allocator(
    providers: Sequence[_Named], provider_options: Sequence[dict[Any, Any]] | None
) -> list[tuple[str, dict[Any, Any]]]:
    """The providers with their options; those of CUDA name edgemem's allocator.

    Raises RuntimeBindError if CUDA's runtime cannot be loaded, or the user gave CUDA an allocator or stream already.
    """
    options = [dict(o) for o in provider_options] if provider_options else [{} for _ in providers]
    named = [
        (p, own) if isinstance(p, str) else (p[0], {**own, **p[1]}) for p, own in zip(providers, options, strict=True)
    ]
    from edgemem.replay.cuda import cuda_runtime  # as above

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
