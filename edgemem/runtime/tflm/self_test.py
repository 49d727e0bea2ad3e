"""The self-test of firmware: inputs that firmware makes again without storing them, and a digest of the outputs.

The C of `edgemem.report.firmware` does the same.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from edgemem.runtime.tflm.execution import execute

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from edgemem.model.graph import Graph

__all__ = ["digest_of", "kind_of", "self_test_inputs"]

_SEED: Final = 1
_BYTES: Final = frozenset(("int8", "uint8", "int16"))
_START: Final = 0xCBF29CE484222325
_PRIME: Final = 0x100000001B3
_MASK: Final = (1 << 64) - 1


def kind_of(dtype: str) -> int:
    """How an input is filled: 0 with any bytes, 4 with float32 from -1 to 1; with 0 and 1, minus an element's bytes.

    Raises TypeError for what is neither of integers, nor of truth values, nor float32.
    """
    if dtype in _BYTES:
        return 0
    if dtype == "float32":
        return 4
    if np.dtype(dtype).kind not in "biu":
        raise TypeError(dtype)
    return -np.dtype(dtype).itemsize


def self_test_inputs(graph: Graph) -> tuple[NDArray[Any], ...]:
    """The values of all inputs of a graph, in order."""
    state, made = _SEED, []
    for tensor in (graph.tensors[i] for i in graph.inputs):
        dtype, kind, count = np.dtype(tensor.dtype), kind_of(tensor.dtype), prod(tensor.shape)
        drawn = np.empty(count * dtype.itemsize if kind == 0 else count, np.uint8)
        for k in range(len(drawn)):
            state = (state * 1664525 + 1013904223) & 0xFFFFFFFF
            drawn[k] = state >> 24
        if kind == 0:
            value = drawn.view(dtype)
        elif kind == 4:
            value = (drawn.astype(np.float32) - 128) / np.float32(128)
        else:
            value = (drawn & 1).astype(dtype)
        made.append(value.reshape(tensor.shape))
    return tuple(made)


def digest_of(model: bytes, graph: Graph, *, timeout_s: float | None = None) -> int:
    """FNV-1a in 64 bits of the bytes of all outputs, from a run in TensorFlow Lite Micro. Raises as `execute`."""
    ran = execute(model, self_test_inputs(graph), outputs=len(graph.outputs), timeout_s=timeout_s)
    digest = _START
    for output in ran.outputs:
        for byte in output.tobytes():
            digest = ((digest ^ byte) * _PRIME) & _MASK
    return digest
