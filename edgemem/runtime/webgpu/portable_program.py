"""Whether a model's constants fit every device that has WebGPU, found as `run` and `export` find it."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Final

from edgemem.errors import UnsupportedError
from edgemem.runtime.webgpu.gpu_program import build_program
from edgemem.runtime.webgpu.graph_lowering import lower_graph, needed_tensors
from edgemem.runtime.webgpu.places import planned_places
from edgemem.runtime.webgpu.profile import portable_profile

if TYPE_CHECKING:
    from edgemem.runtime.webgpu.gpu_model import GpuModel

__all__ = ["constants_refusal"]

_LARGEST: Final = 4 * 4 * 4  # bytes that kernels keep of an element: a float, its channels in slices on both sides


def constants_refusal(prepared: GpuModel) -> str:
    """Why a shader does not reach the constants of a model whose operators all have kernels; "" if it does."""
    profile, tensors = portable_profile(), prepared.graph.tensors
    largest = max((prod(t.shape) for t in tensors if t.kind == "constant"), default=0)
    if largest * _LARGEST <= profile.binding:
        return ""  # nothing can be too large
    try:
        lowered, context = lower_graph(prepared)
        layout = planned_places(prepared.proved, prepared.graph, needed_tensors(prepared.graph, lowered, context))
        build_program(layout, prepared.graph, prepared.target, lowered, context, profile)
    except UnsupportedError as e:
        return str(e)
    return ""
