"""What a GPU must hold: the limits that a plan is checked against and that the device enforces."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from edgemem.errors import RuntimeBindError

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["PROFILES", "GpuProfile", "adapter_profile", "portable_profile", "profile_named"]

PROFILES: Final = ("portable", "adapter")

# The limits that every WebGPU implementation has (https://www.w3.org/TR/webgpu/#limits), by wgpu's names.
_PORTABLE: Final[Mapping[str, int]] = MappingProxyType(
    {
        "max-texture-dimension-1d": 8192,
        "max-texture-dimension-2d": 8192,
        "max-texture-dimension-3d": 2048,
        "max-texture-array-layers": 256,
        "max-bind-groups": 4,
        "max-bindings-per-bind-group": 1000,
        "max-sampled-textures-per-shader-stage": 16,
        "max-storage-buffers-per-shader-stage": 8,
        "max-storage-textures-per-shader-stage": 4,
        "max-uniform-buffers-per-shader-stage": 12,
        "max-uniform-buffer-binding-size": 2**16,
        "max-storage-buffer-binding-size": 2**27,
        "max-buffer-size": 2**28,
        "min-uniform-buffer-offset-alignment": 256,
        "min-storage-buffer-offset-alignment": 256,
        "max-compute-workgroup-storage-size": 2**14,
        "max-compute-invocations-per-workgroup": 256,
        "max-compute-workgroup-size-x": 256,
        "max-compute-workgroup-size-y": 256,
        "max-compute-workgroup-size-z": 64,
        "max-compute-workgroups-per-dimension": 2**16 - 1,
    }
)
_LEAST: Final = "min-"  # limits that are the better the smaller they are


@dataclass(frozen=True, slots=True)
class GpuProfile:
    """Limits of a device.

    Attributes:
        name: `portable`: those that WebGPU has everywhere; `adapter`: all that one adapter has.
        limits: by wgpu's names.
    """

    name: str
    limits: Mapping[str, int]

    @property
    def alignment(self) -> int:
        """What the offset of a tensor in a buffer is a multiple of; bytes."""
        return self.limits["min-storage-buffer-offset-alignment"]

    @property
    def uniform_alignment(self) -> int:
        """What the offset of a dispatch's parameters in a buffer is a multiple of; bytes."""
        return self.limits["min-uniform-buffer-offset-alignment"]

    @property
    def binding(self) -> int:
        """The most bytes that a shader reaches at once: a tensor, or an array of weights."""
        return self.limits["max-storage-buffer-binding-size"]

    @property
    def buffer(self) -> int:
        """The most bytes of a buffer."""
        return self.limits["max-buffer-size"]

    @property
    def layers(self) -> int:
        """The most layers of an array of textures."""
        return self.limits["max-texture-array-layers"]

    @property
    def texture_side(self) -> int:
        """The most texels of a texture's width and height."""
        return self.limits["max-texture-dimension-2d"]

    def shortcomings(self, has: Mapping[str, int]) -> list[str]:
        """The limits in which an adapter has less, in words for people."""
        worse = {
            name: has[name]
            for name, wanted in self.limits.items()
            if name in has and (has[name] > wanted if name.startswith(_LEAST) else has[name] < wanted)
        }
        return [f"{name} is {value:,}, not {self.limits[name]:,}" for name, value in worse.items()]


def portable_profile() -> GpuProfile:
    """The limits that WebGPU has everywhere: what fits in runs on any device."""
    return GpuProfile("portable", _PORTABLE)


def adapter_profile(limits: Mapping[str, int]) -> GpuProfile:
    """All that an adapter has, of the limits that this executor knows."""
    return GpuProfile("adapter", {name: limits.get(name, value) for name, value in _PORTABLE.items()})


def profile_named(name: str, limits: Mapping[str, int]) -> GpuProfile:
    """A profile by its name, for an adapter of these limits. Raises RuntimeBindError for another name."""
    if name not in PROFILES:
        raise RuntimeBindError(f"there is no profile {name!r} of GPUs; use one of {', '.join(PROFILES)}")
    return portable_profile() if name == "portable" else adapter_profile(limits)
