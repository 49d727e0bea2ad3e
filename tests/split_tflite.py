"""Random .tflite models of operators that can be computed in parts along some axis, float32 or int8."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from ai_edge_litert import schema_py_generated as schema

from tests.row_models import RowNet

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["SplitNet", "drawn_file"]

_MOST = 4096  # elements of a value


class SplitNet(RowNet):
    """A network whose values have any number of dimensions; `rng` decides everything."""

    def dims(self, tensor: int) -> tuple[int, ...]:
        return tuple(int(d) for d in self.tensors[tensor].shape)

    def value(self, *shape: int) -> int:
        made = self.activation(1, 1, 1)
        self.tensors[made].shape = np.array(shape, np.int32)
        return made

    def entry(self, *shape: int) -> int:
        self.inputs.append(self.value(*shape))
        return self.inputs[-1]

    def number(self, low: int, high: int) -> int:
        return int(self.rng.integers(low, high + 1))

    def turn(self, *choices: Any) -> Any:
        return choices[self.number(0, len(choices) - 1)]

    def op(self, name: str, inputs: list[int], shape: tuple[int, ...], options: Any = None) -> int:
        return self._add(name, inputs, self.value(*shape), options)

    def integers(self, *values: int) -> int:
        return self.constant(np.array(values, np.int32))

    def weights(self, shape: tuple[int, ...], channels: int | None = None) -> int:
        """With a scale for each item of the axis `channels`, which int8 kernels of convolutions want."""
        if not self.int8:
            return self.constant((self.rng.standard_normal(shape) / 2).astype(np.float32))
        steps = (self.rng.random(1 if channels is None else shape[channels]) / 50 + 0.01).tolist()
        return self.constant(self.rng.integers(-127, 128, shape).astype(np.int8), (steps, channels or 0))


def _convolution(net: SplitNet, x: int) -> int:
    shape = net.dims(x)
    if len(shape) != 4 or shape[0] != 1:
        return -1
    kernel = net.number(1, min(3, *shape[1:3]))
    return net.conv(x, net.number(2, 14), (kernel, kernel), (1, 1), (1, 1), same=net.turn(False, True), depthwise=False)


def _depthwise(net: SplitNet, x: int) -> int:
    shape = net.dims(x)
    if len(shape) != 4 or shape[0] != 1:
        return -1
    kernel = net.number(1, min(3, *shape[1:3]))
    return net.conv(x, net.number(1, 3), (kernel, kernel), (1, 1), (1, 1), same=net.turn(False, True), depthwise=True)


def _dense(net: SplitNet, x: int) -> int:
    shape, units = net.dims(x), net.number(2, 14)
    if len(shape) < 2:
        return -1
    weights = net.weights((units, shape[-1]), net.turn(0, None))
    bias = []
    if net.turn(0, 1):
        if net.int8:
            held = net.tensors[weights].quantization.scale
            steps = [float(s) * 0.05 for s in (held if len(held) > 1 else [held[0]])]
            bias = [net.constant(net.rng.integers(-300, 300, units).astype(np.int32), (steps, 0))]
        else:
            bias = [net.weights((units,))]
    kept = bool(net.number(0, 1))
    made = (*shape[:-1], units) if kept else (prod(shape[:-1]), units)
    return net.op("FULLY_CONNECTED", [x, weights, *bias], made, schema.FullyConnectedOptionsT(keepNumDims=kept))


def _product(net: SplitNet, x: int) -> int:
    shape = net.dims(x)
    if len(shape) not in (3, 4):
        return -1
    turned = bool(net.number(0, 1))
    options = schema.BatchMatMulOptionsT(adjX=not turned, adjY=turned)
    side = shape[-2] if turned else shape[-1]
    return net.op("BATCH_MATMUL", [x, x], (*shape[:-2], side, side), options)


def _softmax(net: SplitNet, x: int) -> int:
    if net.int8:
        return -1  # its result has a scale of its own
    return net.op("SOFTMAX", [x], net.dims(x), schema.SoftmaxOptionsT(1.0))


def _binary(net: SplitNet, x: int) -> int:
    shape = net.dims(x)
    name = net.turn("ADD", "MUL", "SUB")
    options = {"ADD": schema.AddOptionsT, "MUL": schema.MulOptionsT, "SUB": schema.SubOptionsT}[name]()
    other = tuple(net.turn(1, d, d) for d in shape[net.number(0, len(shape) - 1) :])
    if len(shape) > 4:
        return -1
    return net.op(name, [x, net.turn(x, net.weights(other))], shape, options)


def _unary(net: SplitNet, x: int) -> int:
    names = ("RELU", "RELU6", "LEAKY_RELU", "HARD_SWISH", *(() if net.int8 else ("ABS", "LOGISTIC", "TANH")))
    name = net.turn(*names)
    return net.op(name, [x], net.dims(x), schema.LeakyReluOptionsT(0.3) if name == "LEAKY_RELU" else None)


def _transpose(net: SplitNet, x: int) -> int:
    shape = net.dims(x)
    order = [int(k) for k in net.rng.permutation(len(shape))]
    made = tuple(shape[k] for k in order)
    return net.op("TRANSPOSE", [x, net.integers(*order)], made, schema.TransposeOptionsT())


def _reshape(net: SplitNet, x: int) -> int:
    shape = list(net.dims(x))
    at = net.number(0, len(shape) - 1)
    factors = [f for f in (2, 3, 4) if shape[at] % f == 0]
    if factors and len(shape) < 4 and net.turn(0, 1):
        factor = net.turn(*factors)
        shape[at : at + 1] = [factor, shape[at] // factor] if net.turn(0, 1) else [shape[at] // factor, factor]
    elif at + 1 < len(shape) and len(shape) > 2:
        shape[at : at + 2] = [shape[at] * shape[at + 1]]
    else:
        return -1
    inputs = [x, net.integers(*shape)] if net.turn(0, 1, 1) else [x]
    return net.op("RESHAPE", inputs, tuple(shape), schema.ReshapeOptionsT(newShape=shape))


def _mean(net: SplitNet, x: int) -> int:
    shape = net.dims(x)
    if len(shape) < 3:
        return -1
    axes = [1, 2] if len(shape) == 4 and net.turn(0, 1) else [net.number(0, len(shape) - 1)]
    kept = bool(net.number(0, 1))
    made = tuple(1 if k in axes else d for k, d in enumerate(shape) if kept or k not in axes)
    return net.op("MEAN", [x, net.integers(*axes)], made, schema.ReducerOptionsT(keepDims=kept))


def _pool(net: SplitNet, x: int) -> int:
    shape = net.dims(x)
    if len(shape) != 4 or shape[0] != 1:
        return -1
    kernel = net.number(1, min(shape[1:3]))
    return net.pool(x, (kernel, kernel), (1, 1), largest=net.turn(False, True), same=False)


def _concatenation(net: SplitNet, x: int) -> int:
    shape = net.dims(x)
    axis = net.number(0, len(shape) - 1)
    made = tuple(2 * d if k == axis else d for k, d in enumerate(shape))
    return net.op("CONCATENATION", [x, x], made, schema.ConcatenationOptionsT(axis))


def _pad(net: SplitNet, x: int) -> int:
    shape = net.dims(x)
    if len(shape) != 4 or shape[0] != 1:
        return -1
    return net.pad(x, [net.number(0, 2) for _ in range(4)])


def _resize(net: SplitNet, x: int) -> int:
    shape = net.dims(x)
    if len(shape) != 4 or shape[0] != 1 or prod(shape) > _MOST // 4:
        return -1
    return net.resize(x, 2, net.turn("nearest", "corner", "half pixel"))


def _slice(net: SplitNet, x: int) -> int:
    shape = net.dims(x)
    axis = net.number(0, len(shape) - 1)
    if shape[axis] < 2:
        return -1
    made = tuple(d - 1 if k == axis else d for k, d in enumerate(shape))
    begin = net.integers(*(int(k == axis) for k in range(len(shape))))
    return net.op("SLICE", [x, begin, net.integers(*made)], made, schema.SliceOptionsT())


_KINDS: dict[str, Callable[[SplitNet, int], int]] = {
    function.__name__.strip("_"): function
    for function in (
        *(_convolution, _depthwise, _dense, _product, _softmax, _binary, _unary, _transpose, _reshape, _mean, _pool),
        *(_concatenation, _pad, _resize, _slice),
    )
}


def drawn_file(seed: int, kinds: tuple[str, ...], operators: int) -> bytes | None:
    """A model of a chain with side branches; None where the kinds do not fit. Every end is an output."""
    rng = np.random.default_rng(seed)
    net = SplitNet(bool(rng.integers(0, 2)), rng)
    rank = net.turn(2, 3, 4, 4, 4)
    values = [net.entry(*[1, net.turn(4, 5, 8), net.turn(4, 6), net.turn(3, 8, 12)][-rank:])]
    x = values[0]
    for _ in range(operators):
        made = _KINDS[net.turn(*kinds)](net, x)
        if made >= 0 and prod(net.dims(made)) > _MOST:
            return None
        if made >= 0:
            values.append(made)
        x = net.turn(*values, values[-1], values[-1], values[-1])
    read = {int(i) for operator in net.operators for i in operator.inputs}
    outputs = [v for v in values[1:] if v not in read]
    return net.content(outputs) if outputs else None
