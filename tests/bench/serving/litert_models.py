"""Networks of a given size for LiteRT: inverted residual blocks, as on phones, with weights in float32 or float16."""

from __future__ import annotations

from typing import Literal, TypeAlias

import numpy as np

from tests.tflite_models import ADD_OPTIONS, M, O, S, T, build

__all__ = ["Weights", "mobile_network"]

Weights: TypeAlias = Literal["float32", "float16"]

_CONV = (1, (0, 1, 1, 3))  # same padding, strides 1, RELU6
_LINEAR = (1, (0, 1, 1, 0))
_DEPTHWISE = (2, (0, 1, 1, 1, 3))


def mobile_network(size: int, weights: Weights, side: int = 56, channels: int = 64) -> bytes:
    """A .tflite file of about `size` bytes: blocks of expansion, depthwise convolution and projection.

    Args:
        size: of the file in bytes.
        weights: the type of the stored weights; float16 ones are decompressed as the model is prepared.
        side: height and width of all activations.
        channels: of the blocks' inputs and outputs.
    """
    random = np.random.default_rng(0)
    tensors = [T("x", shape=(1, side, side, channels))]
    ops: list[O] = []
    stored = 0

    def constant(*shape: int) -> int:
        nonlocal stored
        value = random.uniform(-0.1, 0.1, shape).astype(weights)
        stored += value.nbytes
        name = f"w{len(tensors)}"
        tensors.append(T(name, weights, shape, data=value.tobytes()))
        if weights == "float32":
            return len(tensors) - 1
        tensors.append(T(f"{name}.float32", shape=shape))
        ops.append(O("DEQUANTIZE", (len(tensors) - 2,), (len(tensors) - 1,)))
        return len(tensors) - 1

    def layer(kind: str, source: int, options: tuple[int, tuple[int, ...]], *kernel: int, made: int) -> int:
        inputs = (source, constant(*kernel), constant(made))
        tensors.append(T(f"t{len(tensors)}", shape=(1, side, side, made)))
        ops.append(O(kind, inputs, (len(tensors) - 1,), options))
        return len(tensors) - 1

    last, wide = 0, 6 * channels
    while stored < size:
        wider = layer("CONV_2D", last, _CONV, wide, 1, 1, channels, made=wide)
        filtered = layer("DEPTHWISE_CONV_2D", wider, _DEPTHWISE, 1, 3, 3, wide, made=wide)
        narrow = layer("CONV_2D", filtered, _LINEAR, channels, 1, 1, wide, made=channels)
        tensors.append(T(f"t{len(tensors)}", shape=(1, side, side, channels)))
        ops.append(O("ADD", (last, narrow), (len(tensors) - 1,), ADD_OPTIONS))
        last = len(tensors) - 1
    return build(M([S(tensors, ops, (0,), (last,))]))
