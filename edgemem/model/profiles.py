"""The kernel profiles: claims about the loops of one version of one library of kernels (`edgemem.model.overlap`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["KERNELS", "PROFILES", "VERSIONS", "kernel_versions"]

# Profile -> the library with the commit at which its sources were read.
VERSIONS: Final[Mapping[str, str]] = {
    "tflm-reference": "tflite-micro 90b983c2b3f1",
    "cmsis-nn-dsp": "CMSIS-NN 99f736a63036 or 4ab83cc3cc98 in tflite-micro 90b983c2b3f1",
    "cmsis-nn-mve": "CMSIS-NN 99f736a63036 or 4ab83cc3cc98 in tflite-micro 90b983c2b3f1",
    **dict.fromkeys(
        ("esp-nn", "esp-nn-esp32s3", "esp-nn-esp32p4"), "esp-nn d45b843ca5f8 in esp-tflite-micro 99f49e1498b0"
    ),
}

# `none` is for all other kernels: outputs and inputs are disjoint.
PROFILES: Final = ("none", *VERSIONS)

KERNELS: Final = "kernels"  # the key of a plan's versions that has the version of its kernel profile


def kernel_versions(profile: str) -> dict[str, str]:
    """What a plan for a kernel profile keeps among its versions; nothing for `none`."""
    return {KERNELS: VERSIONS[profile]} if profile in VERSIONS else {}
