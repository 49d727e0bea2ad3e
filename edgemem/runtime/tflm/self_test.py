"""The self-test of firmware: inputs that firmware makes again without storing them, and a digest of the outputs.

The C of `edgemem.report.firmware` does the same.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from edgemem.runtime.tflm.execution import execute

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from edgemem.model.graph import Graph

__all__ = ["kind_of", "self_test_inputs", "self_test_run"]

_SEEDS: Final = (1, 2, 3, 4)
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


def self_test_inputs(graph: Graph, seed: int = _SEEDS[0]) -> tuple[NDArray[Any], ...]:
    """The values of all inputs of a graph, in order."""
    state, made = seed, []
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


def self_test_run(model: bytes, graph: Graph) -> tuple[int, int, bool]:
    """The seed of the inputs with the rarest outputs of a few, their digest, and whether all outputs are the same.

    The digest is FNV-1a in 64 bits of the bytes of all outputs of a run in TensorFlow Lite Micro. Raises as `execute`.
    """
    first, *others = (self_test_inputs(graph, seed) for seed in _SEEDS)
    ran = execute(model, first, outputs=len(graph.outputs), then=others, apart=True)
    digests = [_digest(outputs) for outputs in ran.each]
    digest = min(digests, key=digests.count)
    return _SEEDS[digests.index(digest)], digest, digests.count(digest) == len(digests)


def _digest(outputs: Sequence[NDArray[Any]]) -> int:
    digest = _START
    for output in outputs:
        for byte in output.tobytes():
            digest = ((digest ^ byte) * _PRIME) & _MASK
    return digest
