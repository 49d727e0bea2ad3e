"""The kernel profiles: names of the libraries of kernels whose loops edgemem knows (`edgemem.model.overlap`)."""

from __future__ import annotations

from typing import Final

__all__ = ["PROFILES"]

# `none` is for all other kernels: outputs and inputs are disjoint.
PROFILES: Final = ("none", "tflm-reference", "cmsis-nn-dsp", "cmsis-nn-mve", "esp-nn")
