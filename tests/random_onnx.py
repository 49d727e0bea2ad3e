"""Random ONNX models with the shapes that passes meet: branches, views, attention, quantisation, several ends."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from onnx import TensorProto, helper

from tests.onnx_kinds import Maker

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray
    from onnx import ModelProto

__all__ = ["random_feeds", "random_model"]

_MOST = 6000  # elements of a value
_OPSET = 17


@dataclass
class _Drawing:
    """A model while it is drawn: the values that later operators may read, with their shapes."""

    rng: np.random.Generator
    maker: Maker = field(default_factory=lambda: Maker(opset=_OPSET))
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)

    def draw(self, low: int, high: int) -> int:
        """An integer, both ends included."""
        return int(self.rng.integers(low, high + 1))

    def any_of(self, *values: Any) -> Any:
        return values[self.draw(0, len(values) - 1)]

    def known(self, name: str, *shape: int) -> str:
        """A value that later operators may read."""
        self.shapes[name] = shape
        return name

    def values(self, rank: int, like: tuple[int, ...] | None = None) -> list[str]:
        """Values of a rank, those of one shape, or () for none; the last ones alone, so that graphs are deep."""
        return [n for n, s in self.shapes.items() if len(s) == rank and (like is None or s == like)][-5:]

    def weight(self, *shape: int) -> str:
        self.maker.count += 1
        values = self.rng.standard_normal(shape) / max(prod(shape[1:]), 1) ** 0.5
        return self.maker.constant(values.astype(np.float32))


def _window(d: _Drawing, shape: tuple[int, ...]) -> tuple[dict[str, Any], tuple[int, int]] | None:
    kernel = [d.draw(1, 3), d.draw(1, 3)]
    stride = [min(d.any_of(1, 1, 2), k) for k in kernel]
    pads = [d.draw(0, k - 1) for k in (*kernel, *kernel)]
    made = [(shape[2 + k] + pads[k] + pads[2 + k] - kernel[k]) // stride[k] + 1 for k in range(2)]
    return ({"kernel_shape": kernel, "strides": stride, "pads": pads}, (made[0], made[1])) if min(made) > 1 else None


def _conv(d: _Drawing, x: str) -> None:
    n, channels, *_ = shape = d.shapes[x]
    if (found := _window(d, shape)) is None:
        return
    about, size = found
    deep = d.any_of(True, False)
    filters = channels if deep else d.any_of(2, 4, 8, 16)
    inputs = [x, d.weight(filters, 1 if deep else channels, *about["kernel_shape"])]
    inputs += [d.weight(filters)] if d.any_of(True, False) else []
    y = d.maker("Conv", *inputs, group=channels if deep else 1, **about)
    kind = d.any_of("", "Relu", "Sigmoid", "BatchNormalization", "Clip")
    if kind == "BatchNormalization":
        spread = d.maker.constant(np.full(filters, 1.5, np.float32))
        y = d.maker(kind, y, d.weight(filters), d.weight(filters), d.weight(filters), spread)
    elif kind:
        y = d.maker(kind, y, *([d.maker.number(0), d.maker.number(6)] if kind == "Clip" else []))
    d.known(y, n, filters, *size)


def _pool(d: _Drawing, x: str) -> None:
    shape = d.shapes[x]
    if (found := _window(d, shape)) is not None:
        d.known(d.maker(d.any_of("MaxPool", "AveragePool"), x, **found[0]), *shape[:2], *found[1])


def _unary(d: _Drawing, x: str) -> None:
    d.known(d.maker(d.any_of("Relu", "Tanh", "HardSwish", "LeakyRelu", "Abs", "Identity"), x), *d.shapes[x])


def _binary(d: _Drawing, x: str) -> None:
    shape = d.shapes[x]
    other = d.any_of(*d.values(len(shape), shape), d.weight(shape[1] if len(shape) == 4 else 1, 1, 1))
    if len(shape) == 3 and other not in d.shapes:
        other = d.weight(shape[-1])
    d.known(d.maker(d.any_of("Add", "Mul", "Sub", "Max"), x, other), *shape)


def _concat(d: _Drawing, x: str) -> None:
    shape = d.shapes[x]
    fitting = [v for v in d.values(4) if (d.shapes[v][0], *d.shapes[v][2:]) == (shape[0], *shape[2:])]
    parts = [x, *(d.any_of(*fitting) for _ in range(d.draw(1, 2)))]
    made = shape[0], sum(d.shapes[p][1] for p in parts), *shape[2:]
    if prod(made) < _MOST:
        d.known(d.maker("Concat", *parts, axis=1), *made)


def _split(d: _Drawing, x: str) -> None:
    n, channels, *size = d.shapes[x]
    if channels % 2 == 0:
        for half in d.maker.many("Split", x, count=2, axis=1):
            d.known(half, n, channels // 2, *size)


def _rows(d: _Drawing, x: str) -> None:
    n, channels, height, width = d.shapes[x]
    if height > 3:
        begin = d.draw(0, height // 2)
        part = d.maker("Slice", x, d.maker.ints(begin), d.maker.ints(height), d.maker.ints(2))
        d.known(part, n, channels, height - begin, width)


def _resize(d: _Drawing, x: str) -> None:
    n, channels, height, width = d.shapes[x]
    if 4 * n * channels * height * width < _MOST:
        scales = d.maker.constant(np.array([1, 1, 2, 2], np.float32))
        made = d.maker("Resize", x, "", scales, mode=d.any_of("nearest", "linear"))
        d.known(made, n, channels, 2 * height, 2 * width)


def _gate(d: _Drawing, x: str) -> None:
    """Squeeze and excitation: every part of a stage needs all of its input."""
    n, channels, height, width = d.shapes[x]
    mean = d.maker("GlobalAveragePool", x)
    gate = d.maker("Sigmoid", d.maker("Conv", mean, d.weight(channels, channels, 1, 1)))
    d.known(d.maker("Mul", x, gate), n, channels, height, width)


def _views(d: _Drawing, x: str) -> None:
    n, channels, height, width = d.shapes[x]
    flat = d.maker("Reshape", x, d.maker.ints(n, channels, height * width))
    if d.any_of(True, False):
        d.known(flat, n, channels, height * width)
    turned = d.maker("Transpose", flat, perm=[0, 2, 1])
    d.known(turned, n, height * width, channels)


def _quantised(d: _Drawing, x: str) -> None:
    """A convolution between QuantizeLinear and DequantizeLinear, as quantisers write it."""
    n, channels, *_ = shape = d.shapes[x]
    if (found := _window(d, shape)) is None:
        return
    about, size = found
    m, filters = d.maker, d.any_of(2, 4, 8)
    step, zero = m.number(0.05), m.constant(np.array(d.any_of(0, 3), np.int8))
    whole = d.rng.integers(-127, 128, (filters, channels, *about["kernel_shape"])).astype(np.int8)
    scales = m.constant((d.rng.uniform(0.5, 2, filters) * 1e-3).astype(np.float32))
    zeros = m.constant(np.zeros(filters, np.int8))
    given = m("DequantizeLinear", m("QuantizeLinear", x, step, zero), step, zero)
    weights = m("DequantizeLinear", m.constant(whole), scales, zeros, axis=0)
    y = m("Relu", m("Conv", given, weights, **about))
    d.known(m("DequantizeLinear", m("QuantizeLinear", y, step, zero), step, zero), n, filters, *size)


def _dense(d: _Drawing, x: str) -> None:
    n, length, channels = d.shapes[x]
    outer = d.any_of(4, 8, channels)
    d.known(d.maker("Add", d.maker("MatMul", x, d.weight(channels, outer)), d.weight(outer)), n, length, outer)


def _norm(d: _Drawing, x: str) -> None:
    shape = d.shapes[x]
    if d.any_of(True, False):
        d.known(d.maker("LayerNormalization", x, d.weight(shape[-1]), d.weight(shape[-1]), axis=-1), *shape)
    else:
        d.known(d.maker("Softmax", x, axis=-1), *shape)


def _attention(d: _Drawing, x: str) -> None:
    n, length, channels = d.shapes[x]
    if length * length * n > _MOST or channels % 2:
        return
    m, inner = d.maker, channels // 2

    def heads(value: str) -> str:
        return m("Transpose", m("Reshape", value, m.ints(n, length, 2, inner)), perm=[0, 2, 1, 3])

    q, k, v = (heads(m("MatMul", x, d.weight(channels, channels))) for _ in range(3))
    scores = m("Mul", m("MatMul", q, m("Transpose", k, perm=[0, 1, 3, 2])), m.number(inner**-0.5))
    held = m("Transpose", m("MatMul", m("Softmax", scores, axis=-1), v), perm=[0, 2, 1, 3])
    d.known(m("Add", x, m("Reshape", held, m.ints(n, length, channels))), n, length, channels)


_IMAGE: tuple[Callable[[_Drawing, str], None], ...] = (
    *(_conv, _conv, _conv, _conv, _pool, _unary, _binary, _concat, _concat, _split, _rows, _resize, _gate, _views),
    *(_quantised, _binary),
)
_TOKENS = (_dense, _dense, _unary, _norm, _attention, _binary)


def random_model(seed: int) -> ModelProto:
    """A model of 3 to about 60 operators with one or two inputs; every end, and some that are read, are outputs."""
    d = _Drawing(np.random.default_rng(seed))
    inputs = d.draw(1, 2)
    size = d.any_of(1, 1, 1, 2), d.any_of(2, 3, 4), d.draw(6, 20), d.draw(5, 16)
    for k in range(inputs):
        d.known(d.maker.input(f"x{k}", size), *size)
    if d.draw(0, 3) == 0:  # tokens beside the image
        table, count = d.weight(20, 8), d.draw(4, 12)
        words = d.maker.input("ids", [1, count], TensorProto.INT64)
        d.known(d.maker("Gather", table, words), 1, count, 8)
    for _ in range(d.draw(3, 12)):
        rank = 3 if d.values(3) and d.draw(0, 2) == 0 else 4
        x = d.any_of(*d.values(rank))
        (d.any_of(*_IMAGE) if rank == 4 else d.any_of(*_TOKENS))(d, x)
    if not d.maker.nodes:
        _unary(d, "x0")
    read = {name for node in d.maker.nodes for name in node.input}
    made = [name for node in d.maker.nodes for name in node.output]
    outputs = [name for name in made if name not in read]
    inner = [name for name in d.shapes if name in read and name in made]
    outputs += [d.any_of(*inner)] if inner and d.draw(0, 2) == 0 else []
    used = [i for i in d.maker.inputs if i.name in read]
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, d.shapes.get(n)) for n in outputs]
    constants = [c for c in d.maker.constants if c.name in read]
    graph = helper.make_graph(d.maker.nodes, f"random {seed}", used, ends, constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", _OPSET)], ir_version=8)


def random_feeds(model: ModelProto, seed: int) -> dict[str, NDArray[Any]]:
    """Inputs of a run."""
    rng = np.random.default_rng((1, seed))
    feeds: dict[str, NDArray[Any]] = {}
    for value in model.graph.input:
        shape = [d.dim_value for d in value.type.tensor_type.shape.dim]
        is_float = value.type.tensor_type.elem_type == TensorProto.FLOAT
        feeds[value.name] = rng.standard_normal(shape).astype(np.float32) if is_float else rng.integers(0, 20, shape)
    return feeds
