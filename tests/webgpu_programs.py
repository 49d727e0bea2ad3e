"""Small graphs with their tensor operations, made by hand, for tests of the GPU executor that need no converter."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from edgemem.errors import UnsupportedError
from edgemem.model.affine import reshape
from edgemem.model.graph import Graph, Op, Tensor
from edgemem.model.tensor_ops import ArgMax, Binary, Concat, Function, Pool, Reduce, Softmax, TensorProgram, Unary

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from edgemem.model.graph import Layout
    from edgemem.model.tensor_ops import TensorOp

__all__ = ["Net", "Ready", "classifier", "constant_output", "identity", "indices", "pyramid"]


@dataclass(frozen=True)
class Ready:
    """A program as the executor takes a model, with the single operators that the CPU may run."""

    made: TensorProgram
    operators: dict[int, bytes] = field(default_factory=dict)
    name: str = "net"

    def graph(self) -> Graph:
        return self.made.graph

    def program(self) -> TensorProgram:
        return self.made

    def operator_model(self, number: int) -> bytes:
        if number not in self.operators:
            raise UnsupportedError(f"operator {number} has bodies")
        return self.operators[number]


class Net:
    """A graph that grows operator by operator; each call returns the tensor that is written."""

    def __init__(self, layout: Layout = "nchw") -> None:
        self.layout: Layout = layout
        self.tensors: list[Tensor] = []
        self.ops: list[Op] = []
        self.steps: list[tuple[TensorOp, ...] | str] = []
        self.inputs: list[int] = []
        self.constants: dict[int, NDArray[np.float32]] = {}

    def tensor(self, name: str, *shape: int, dtype: str = "float32", kind: Any = "activation") -> int:
        self.tensors.append(Tensor(name, dtype, shape, kind))
        return len(self.tensors) - 1

    def input(self, name: str, *shape: int, dtype: str = "float32") -> int:
        self.inputs.append(self.tensor(name, *shape, dtype=dtype))
        return self.inputs[-1]

    def constant(self, name: str, values: NDArray[np.float32], dtype: str = "float32") -> int:
        number = self.tensor(name, *values.shape, dtype=dtype, kind="constant")
        self.constants[number] = values
        return number

    def op(self, kind: str, inputs: Sequence[int], output: int, *steps: TensorOp, reason: str = "") -> int:
        name = f"{kind.lower()}_{len(self.ops)}"
        self.ops.append(Op(name, kind, tuple(inputs), (output,)))
        self.steps.append(reason or tuple(steps))
        return output

    def unary(self, kind: str, function: str, source: int) -> int:
        result = self.tensor(f"t{len(self.tensors)}", *self.tensors[source].shape)
        return self.op(kind, (source,), result, Unary(function=Function(function), input=source, output=result))

    def binary(self, kind: str, name: str, a: int, b: int) -> int:
        result = self.tensor(f"t{len(self.tensors)}", *self.tensors[a].shape)
        return self.op(kind, (a, b), result, Binary(name=name, a=a, b=b, output=result))

    def flatten(self, source: int, *shape: int) -> int:
        result = self.tensor(f"t{len(self.tensors)}", *shape)
        return self.op("Reshape", (source,), result, reshape(source, result, self.tensors[source].shape, shape))

    def ready(self, *outputs: int, **more: Any) -> Ready:
        graph = Graph("net", tuple(self.tensors), tuple(self.ops), tuple(self.inputs), outputs, self.layout)
        return Ready(TensorProgram(graph, tuple(self.steps), self.constants), **more)


def classifier(layout: Layout = "nchw", channels: int = 6, side: int = 8) -> Ready:
    """Results in place, a shortcut, a pool, a concatenation, views, a mean and a softmax; two outputs."""
    net = Net(layout)

    def dims(c: int, s: int) -> tuple[int, ...]:
        return (1, c, s, s) if layout == "nchw" else (1, s, s, c)

    x = net.input("x", *dims(channels, side))
    a = net.unary("Sigmoid", "sigmoid", x)
    b = net.unary("Relu", "relu", net.unary("Tanh", "tanh", x))
    c = net.binary("Add", "add", net.binary("Mul", "mul", a, b), a)
    half = side // 2
    pooled = net.tensor("pooled", *dims(channels, half))
    net.op("MaxPool", (c,), pooled, Pool(kind="max", input=c, output=pooled, kernel=(2, 2), stride=(2, 2)))
    square = net.unary("Mul", "square", pooled)
    joined = net.tensor("joined", *dims(2 * channels, half))
    axis = 1 if layout == "nchw" else 3
    net.op("Concat", (pooled, square), joined, Concat(inputs=(pooled, square), output=joined, axis=axis))
    mean = net.tensor("mean", *dims(2 * channels, 1))
    axes = (2, 3) if layout == "nchw" else (1, 2)
    net.op("GlobalAveragePool", (joined,), mean, Reduce(kind="mean", input=joined, output=mean, axes=axes))
    flat = net.flatten(mean, 1, 2 * channels)
    scaled = net.unary("Exp", "exp", flat)
    result = net.tensor("probabilities", 1, 2 * channels)
    net.op("Softmax", (scaled,), result, Softmax(input=scaled, output=result, axis=1))
    return net.ready(result, joined)


def pyramid(side: int = 32, channels: int = 3) -> Ready:
    """Pools one after another: each tensor is smaller than the one before it."""
    net = Net()
    last = net.input("x", 1, channels, side, side)
    while side > 2:
        side //= 2
        made = net.tensor(f"level{side}", 1, channels, side, side)
        net.op(
            "AveragePool",
            (last,),
            made,
            Pool(kind="average", input=last, output=made, kernel=(2, 2), stride=(2, 2)),
        )
        last = net.unary("Tanh", "tanh", made)
    return net.ready(last)


def indices(classes: int = 10, dtype: str = "int64") -> Ready:
    """The class with the largest value, as integers."""
    net = Net()
    x = net.input("x", 4, classes)
    best = net.tensor("best", 4, dtype=dtype)
    net.op("ArgMax", (x,), best, ArgMax(input=x, output=best, axis=1))
    return net.ready(best)


def identity() -> Ready:
    """An input that is an output, too, beside one that is computed."""
    net = Net()
    x = net.input("x", 2, 3)
    return net.ready(x, net.unary("Relu", "relu", x))


def constant_output() -> Ready:
    """An output of a known value beside one that is computed from it."""
    net = Net()
    x = net.input("x", 2, 3)
    known = net.constant("known", np.arange(3, dtype=np.float32), "int64")
    return net.ready(known, net.binary("Add", "add", x, known))
