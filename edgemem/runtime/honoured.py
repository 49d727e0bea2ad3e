"""What of a plan's claims each executor of graphs honours, for those that run a plan and those that say who runs it.

TensorFlow Lite Micro's row stands beside the offsets that it obeys, in `edgemem.formats.offline_allocation`.
"""

from __future__ import annotations

from typing import Final

from edgemem.formats.claims import Honoured

__all__ = ["LITERT_BUILTIN", "NODE_BY_NODE", "ON_GPU"]

# Kernels of ONNX Runtime, one after the other, on a CPU or with CUDA.
NODE_BY_NODE: Final = Honoured("--target onnxruntime", frozenset({"none", "elementwise", "tflm"}))
LITERT_BUILTIN: Final = Honoured(
    "--target litert",
    frozenset({"none", "elementwise", "tflm", "litert"}),
    scratch=frozenset({"litert"}),
    alignment=64,  # of everything in LiteRT's arena
    needs_target=True,
)
ON_GPU: Final = Honoured(
    "--target gpu-buffer",
    frozenset({"none", "gpu", "gpu-views"}),
    storage="phwc4",
    needs_target=True,
    objects=True,
)
