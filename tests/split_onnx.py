"""Random ONNX graphs of operators that can be computed in parts along some axis."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper

if TYPE_CHECKING:
    from collections.abc import Callable

    from onnx import ModelProto, NodeProto

__all__ = ["KINDS", "drawn_model"]

_FLOAT = TensorProto.FLOAT
_MOST = 4096  # elements of a value


@dataclass(slots=True)
class _Net:
    """A model while it is made; `rng` decides everything."""

    rng: np.random.Generator
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    nodes: list[NodeProto] = field(default_factory=list)
    constants: list[Any] = field(default_factory=list)

    def constant(self, values: Any) -> str:
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(values), name))
        return name

    def weights(self, *shape: int) -> str:
        return self.constant((self.rng.standard_normal(shape) / 2).astype(np.float32))

    def add(self, kind: str, inputs: list[str], *shapes: tuple[int, ...], **attributes: Any) -> str:
        names = [f"t{len(self.nodes)}" + "abc"[: n + 1][-1] for n in range(len(shapes))]
        domain, _, kind = kind.rpartition("::")
        label = f"{kind}{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, names, name=label, domain=domain, **attributes))
        self.shapes.update(zip(names, shapes, strict=True))
        return names[0]

    def number(self, low: int, high: int) -> int:
        return int(self.rng.integers(low, high + 1))

    def turn(self, *choices: Any) -> Any:
        return choices[self.number(0, len(choices) - 1)]


def _broadcast_shape(net: _Net, shape: tuple[int, ...]) -> tuple[int, ...]:
    """A shape that broadcasts to another one."""
    kept = shape[net.number(0, len(shape) - 1) :]
    return tuple(net.turn(1, d, d) for d in kept)


def _binary(net: _Net, x: str) -> str:
    shape = net.shapes[x]
    same = [n for n, s in net.shapes.items() if s == shape]
    other = net.turn(net.weights(*_broadcast_shape(net, shape)), net.turn(*same))
    kind = net.turn("Add", "Mul", "Sub", "Max", "PRelu")
    is_turned = kind != "PRelu" and net.turn(0, 1)  # the slope of PRelu comes second
    return net.add(kind, [other, x] if is_turned else [x, other], shape)


def _unary(net: _Net, x: str) -> str:
    return net.add(net.turn("Relu", "Sigmoid", "Tanh", "Erf", "com.microsoft::Gelu"), [x], net.shapes[x])


def _biased(net: _Net, x: str) -> str:
    shape = net.shapes[x]
    kind = net.turn("com.microsoft::BiasGelu", "com.microsoft::FastGelu")
    return net.add(kind, [x, net.weights(shape[-1])], shape)


def _convolution(net: _Net, x: str) -> str:
    shape = net.shapes[x]
    if len(shape) not in (3, 4):
        return ""
    channels, size, kernel = shape[1], shape[2:], net.turn(1, 3)
    group = net.turn(1, channels, *(g for g in (2, 3) if channels % g == 0))
    filters = group * net.number(1, 5)
    bias = [net.weights(filters)] if net.turn(0, 1) else []
    inputs = [x, net.weights(filters, channels // group, *[kernel] * len(size)), *bias]
    made = (shape[0], filters, *size)
    fused = len(shape) == 4 and net.turn(0, 1)
    more = {"activation": "Relu"} if fused else {}
    kind = "com.microsoft::FusedConv" if fused else "Conv"
    return net.add(kind, inputs, made, group=group, pads=[kernel // 2] * 2 * len(size), **more)


def _transposed_convolution(net: _Net, x: str) -> str:
    shape = net.shapes[x]
    if len(shape) != 4:
        return ""
    group = net.turn(1, shape[1])
    filters = net.number(1, 4)
    inputs = [x, net.weights(shape[1], filters, 2, 2), *([net.weights(filters * group)] if net.turn(0, 1) else [])]
    made = (shape[0], filters * group, 2 * shape[2], 2 * shape[3])
    return net.add("ConvTranspose", inputs, made, kernel_shape=[2, 2], strides=[2, 2], group=group)


def _dense(net: _Net, x: str) -> str:
    shape, units = net.shapes[x], net.number(1, 9)
    if len(shape) == 2 and net.turn(0, 1):
        turned, is_scalar = net.number(0, 1), net.turn(0, 1)
        weights = net.weights(*((units, shape[1]) if turned else (shape[1], units)))
        bias = net.weights(*(() if is_scalar else _broadcast_shape(net, (shape[0], units))))
        return net.add("Gemm", [x, weights, bias], (shape[0], units), transB=turned)
    return net.add("MatMul", [x, net.weights(shape[-1], units)], (*shape[:-1], units)) if len(shape) > 1 else ""


def _self_product(net: _Net, x: str) -> str:
    shape = net.shapes[x]
    if len(shape) < 2:
        return ""
    if net.turn(0, 1):
        kind, rows = "com.microsoft::FusedMatMul", shape[-2]
        if net.turn(0, 1):
            return net.add(kind, [x, x], (*shape[:-2], rows, rows), transB=1, alpha=0.25)
        if len(shape) > 2 and net.turn(0, 1):
            made = (*shape[1:-1], shape[0], shape[0])
            return net.add(kind, [x, x], made, transB=1, transBatchA=1, transBatchB=1, alpha=0.25)
        return net.add(kind, [x, x], (*shape[:-2], shape[-1], shape[-1]), transA=1, alpha=0.25)
    other = (*(net.turn(1, d) for d in shape[:-2]), shape[-1], net.number(1, 6))
    other = other[net.number(0, len(other) - 2) :]
    return net.add("MatMul", [x, net.weights(*other)], (*shape[:-1], other[-1]))


def _softmax(net: _Net, x: str) -> str:
    shape = net.shapes[x]
    return net.add("Softmax", [x], shape, axis=net.turn(-1, net.number(0, len(shape) - 1)))


def _normalization(net: _Net, x: str) -> str:
    shape = net.shapes[x]
    if len(shape) == 3 and net.turn(0, 1):
        kind = "com.microsoft::SkipLayerNormalization"
        return net.add(kind, [x, net.weights(*shape), net.weights(shape[-1]), net.weights(shape[-1])], shape)
    axis = net.number(1, len(shape)) - len(shape) - (1 if net.turn(0, 1) else 0)
    axis = max(axis, -len(shape))
    tail = shape[axis:] if axis < 0 else shape
    return net.add("LayerNormalization", [x, net.weights(*tail), net.weights(*tail)], shape, axis=axis or -len(shape))


def _batch_normalization(net: _Net, x: str) -> str:
    shape = net.shapes[x]
    if len(shape) < 2:
        return ""
    values = [net.weights(shape[1]) for _ in range(3)]
    return net.add("BatchNormalization", [x, *values, net.constant(net.rng.random(shape[1], np.float32) + 0.5)], shape)


def _instance_normalization(net: _Net, x: str) -> str:
    shape = net.shapes[x]
    weights = [net.weights(shape[1]) for _ in range(2)] if len(shape) > 2 else []
    return net.add("InstanceNormalization", [x, *weights], shape) if weights else ""


def _transpose(net: _Net, x: str) -> str:
    shape = net.shapes[x]
    order = [int(k) for k in net.rng.permutation(len(shape))]
    return net.add("Transpose", [x], tuple(shape[k] for k in order), perm=order)


def _reshape(net: _Net, x: str) -> str:
    shape = list(net.shapes[x])
    at = net.number(0, len(shape) - 1)
    factors = [f for f in (2, 3, 4) if shape[at] % f == 0]
    if factors and len(shape) < 5 and net.turn(0, 1):
        factor = net.turn(*factors)
        shape[at : at + 1] = [factor, shape[at] // factor] if net.turn(0, 1) else [shape[at] // factor, factor]
    elif at + 1 < len(shape):
        shape[at : at + 2] = [shape[at] * shape[at + 1]]
    elif net.turn(0, 1):
        axis = net.number(0, len(shape))
        made = (*shape[:axis], 1, *shape[axis:])
        return net.add("Unsqueeze", [x, net.constant(np.array([axis], np.int64))], made) if len(shape) < 5 else ""
    else:
        axis = net.number(1, len(shape))
        return net.add("Flatten", [x], (prod(shape[:axis]), prod(shape[axis:])), axis=axis)
    return net.add("Reshape", [x, net.constant(np.array(shape, np.int64))], tuple(shape))


def _pool(net: _Net, x: str) -> str:
    shape = net.shapes[x]
    if len(shape) != 4 or min(shape[2:]) < 2:
        return ""
    if net.turn(0, 0, 1):
        return net.add(net.turn("GlobalAveragePool", "GlobalMaxPool"), [x], (*shape[:2], 1, 1))
    made = (*shape[:2], shape[2] - 1, shape[3] - 1)
    return net.add(net.turn("MaxPool", "AveragePool"), [x], made, kernel_shape=[2, 2])


def _reduction(net: _Net, x: str) -> str:
    shape = net.shapes[x]
    if len(shape) < 2:
        return ""
    axes = sorted({net.number(0, len(shape) - 1) for _ in range(net.number(1, len(shape) - 1))})
    kept = net.number(0, 1)
    made = tuple(1 if k in axes else d for k, d in enumerate(shape) if kept or k not in axes)
    if net.turn(0, 1):
        return net.add("ReduceSum", [x, net.constant(np.array(axes, np.int64))], made, keepdims=kept)
    return net.add(net.turn("ReduceMean", "ReduceMax"), [x], made, keepdims=kept, axes=axes)


def _concatenation(net: _Net, x: str) -> str:
    shape = net.shapes[x]
    axis = net.number(0, len(shape) - 1)
    other = tuple(net.number(1, 3) if k == axis else d for k, d in enumerate(shape))
    made = tuple(d + o if k == axis else d for k, (d, o) in enumerate(zip(shape, other, strict=True)))
    return net.add("Concat", [x, net.weights(*other)], made, axis=axis)


def _split(net: _Net, x: str) -> str:
    shape = net.shapes[x]
    axis = net.number(0, len(shape) - 1)
    if shape[axis] % 2:
        return ""
    made = tuple(d // 2 if k == axis else d for k, d in enumerate(shape))
    net.add("Split", [x], made, made, axis=axis)
    return next(reversed(net.shapes))


def _slice(net: _Net, x: str) -> str:
    shape = net.shapes[x]
    axis = net.number(0, len(shape) - 1)
    if shape[axis] < 2:
        return ""
    made = tuple(d - 1 if k == axis else d for k, d in enumerate(shape))
    numbers = [net.constant(np.array([n], np.int64)) for n in (1, 1 << 40, axis)]
    return net.add("Slice", [x, *numbers], made)


def _pad(net: _Net, x: str) -> str:
    shape = net.shapes[x]
    axis = net.number(0, len(shape) - 1)
    pads = np.zeros((2, len(shape)), np.int64)
    pads[0, axis], pads[1, axis] = 1, 2
    made = tuple(d + 3 if k == axis else d for k, d in enumerate(shape))
    return net.add("Pad", [x, net.constant(pads.reshape(-1)), net.constant(np.float32(0.5))], made)


def _gather(net: _Net, x: str) -> str:
    shape = net.shapes[x]
    axis = net.number(0, len(shape) - 1)
    indices = net.rng.integers(0, shape[axis], net.turn((), (3,), (2, 2)), np.int64)
    made = (*shape[:axis], *indices.shape, *shape[axis + 1 :])
    return net.add("Gather", [x, net.constant(indices)], made, axis=axis) if 0 < len(made) < 6 else ""


def _resize(net: _Net, x: str) -> str:
    shape = net.shapes[x]
    if len(shape) != 4 or prod(shape) > _MOST // 4:
        return ""
    scales = net.constant(np.array([1, 1, 2, 2], np.float32))
    mode = {"mode": net.turn("nearest", "linear"), "coordinate_transformation_mode": "asymmetric"}
    return net.add("Resize", [x, "", scales], (*shape[:2], 2 * shape[2], 2 * shape[3]), nearest_mode="floor", **mode)


def _scaled(net: _Net, x: str) -> str:
    """Only what nothing rounded before: a last bit could round to another number."""
    shape = net.shapes[x]
    if x != "x":
        return ""
    axis = net.number(0, len(shape) - 1)
    count = net.turn((), (shape[axis],))
    scale = net.constant((net.rng.random(count) / 8 + 0.02).astype(np.float32))
    zero = net.constant(net.rng.integers(-5, 5, count).astype(np.int8))
    made = net.add("QuantizeLinear", [x, scale, zero], shape, axis=axis)
    net.shapes.pop(made)  # it is no float32
    return net.add("DequantizeLinear", [made, scale, zero], shape, axis=axis)


KINDS: dict[str, Callable[[_Net, str], str]] = {
    function.__name__.strip("_"): function
    for function in (
        *(_binary, _unary, _biased, _convolution, _transposed_convolution, _dense, _self_product, _softmax, _pad),
        *(_normalization, _batch_normalization, _instance_normalization, _transpose, _reshape, _pool, _reduction),
        *(_concatenation, _split, _slice, _gather, _resize, _scaled),
    )
}


def drawn_model(seed: int, kinds: tuple[str, ...], operators: int) -> ModelProto | None:
    """A model of a chain with side branches; None where the kinds do not fit. Every end is an output."""
    net = _Net(np.random.default_rng(seed))
    rank = net.turn(2, 3, 4, 4)
    net.shapes["x"] = tuple([net.turn(1, 2, 4), net.turn(4, 6, 8), net.turn(3, 4, 6), net.turn(3, 5, 4)][-rank:])
    value, given = "x", net.shapes["x"]
    for _ in range(operators):
        if net.nodes and net.turn(0, 0, 0, 0, 1):
            value = net.turn(*net.shapes)
        made = KINDS[net.turn(*kinds)](net, value)
        if made and prod(net.shapes[made]) > _MOST:
            return None
        value = made or value
    if not net.nodes:
        return None
    read = {name for node in net.nodes for name in node.input}
    ends = [name for name in net.shapes if name not in read and name != "x"]
    outputs = [helper.make_tensor_value_info(name, _FLOAT, net.shapes[name]) for name in ends]
    x = helper.make_tensor_value_info("x", _FLOAT, given)
    graph = helper.make_graph(net.nodes, "drawn", [x], outputs, net.constants)
    sets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=sets, ir_version=8)
