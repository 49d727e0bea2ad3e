"""Random .tflite models, int8 and float32: trees of convolutions, branches, heads, views and compressed constants."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from ai_edge_litert import schema_py_generated as schema

from tests.row_models import UNARY, UNARY_INT8, RowNet

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["random_model"]

_MOST = 2500  # elements of a value


def random_model(seed: int) -> bytes:
    """A model of 3 to 14 layers with one or two inputs; every end, and some results that are read, are outputs."""
    rng = np.random.default_rng(seed)
    net = RowNet(bool(rng.random() < 0.5), rng)

    def draw(low: int, high: int) -> int:
        return int(rng.integers(low, high + 1))

    values = [net.input(draw(4, 16), draw(3, 8), draw(1, 6)) for _ in range(draw(1, 2))]
    given = len(values)
    for _ in range(draw(3, 14)):
        values.append(_appended(net, values, rng))
    read = {int(i) for operator in net.operators for i in operator.inputs}
    outputs = [v for v in values[given:] if v not in read or draw(0, 7) == 0]
    return net.content([_head(net, v, rng) if v not in read and draw(0, 1) else v for v in outputs])


def _appended(net: RowNet, values: Sequence[int], rng: np.random.Generator) -> int:
    def draw(low: int, high: int) -> int:
        return int(rng.integers(low, high + 1))

    x = values[-1 - draw(0, min(3, len(values) - 1))]
    height, width, channels = net.shape(x)
    peers = [v for v in values if net.shape(v)[:2] == (height, width)]
    equal = [v for v in peers if net.shape(v)[2] == channels]
    few = 4 * height * width * channels < _MOST
    kinds = ("conv", "conv", "conv", "depthwise", "depthwise", "pool", "pad", "unary", "binary", "binary", "channels")
    kind = str(rng.choice((*kinds, "concatenation", "concatenation", *(("resize",) if few else ()))))
    kernel = draw(1, min(4, height)), draw(1, min(3, width))
    stride = draw(1, 2 if height > 5 else 1), draw(1, 2 if width > 4 else 1)
    if kind in ("conv", "depthwise"):
        made = draw(1, 2 if few else 1) if kind == "depthwise" else draw(1, 12 if few else 4)
        return net.conv(x, made, kernel, stride, (1, 1), same=bool(draw(0, 1)), depthwise=kind == "depthwise")
    if kind == "pool":
        return net.pool(x, kernel, stride, largest=bool(draw(0, 1)), same=False)
    if kind == "pad":
        return net.pad(x, [draw(0, 2) for _ in range(4)])
    if kind == "binary":
        other = net.decompressed(x) if not net.int8 and draw(0, 3) == 0 else equal[draw(0, len(equal) - 1)]
        return net.binary(str(rng.choice(("ADD", "MUL", "SUB"))), x, other)
    if kind == "channels":
        return net.with_channels(str(rng.choice(("ADD", "MUL", "PRELU"))), x)
    if kind == "concatenation" and few:
        return net.concatenate(x, *(peers[draw(0, len(peers) - 1)] for _ in range(draw(1, 2))))
    if kind == "resize":
        return net.resize(x, 2, str(rng.choice(("nearest", "corner", "half pixel"))))
    return net.unary(str(rng.choice(UNARY_INT8 if net.int8 else UNARY)), x)


def _head(net: RowNet, x: int, rng: np.random.Generator) -> int:
    """A view of a value, and mostly a dense layer that reads all of it."""
    height, width, channels = net.shape(x)
    size = height * width * channels
    shape = net.constant(np.array([1, 1, 1, size], np.int32))
    flat = net._add("RESHAPE", [x, shape], net.activation(1, 1, size), schema.ReshapeOptionsT([1, 1, 1, size]))
    if rng.random() < 0.3:
        return flat
    classes = int(rng.integers(1, 9))
    if net.int8:
        weights = net.constant(rng.integers(-127, 128, (classes, size)).astype(np.int8), ([0.01], 0))
        bias = net.constant(rng.integers(-300, 300, classes).astype(np.int32), ([0.0005], 0))
    else:
        weights = net.constant((rng.standard_normal((classes, size)) / np.sqrt(size)).astype(np.float32))
        bias = net.constant(rng.standard_normal(classes).astype(np.float32))
    options = schema.FullyConnectedOptionsT()
    options.keepNumDims = True
    return net._add("FULLY_CONNECTED", [flat, weights, bias], net.activation(1, 1, classes), options)
