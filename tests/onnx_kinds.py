"""Small ONNX models of the kinds that exporters, quantisers and ONNX Runtime itself write, built without PyTorch.

Their chains of Shape, Gather, Concat, Expand and Where are those of exports from torch. Sizes are small, but longer
than any rank where data are one-dimensional.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from onnx import ModelProto, TensorProto, helper, numpy_helper

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray
    from onnx import GraphProto

__all__ = ["KINDS", "Maker", "feeds_for"]

FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL


@dataclass(slots=True)
class Maker:
    """Writes a graph node by node; every method gives the name of the value it makes."""

    opset: int = 17
    prefix: str = ""
    nodes: list[Any] = field(default_factory=list)
    constants: list[Any] = field(default_factory=list)
    inputs: list[Any] = field(default_factory=list)
    count: int = 0

    def input(self, name: str, dims: Sequence[int | str], elem: int = FLOAT) -> str:
        self.inputs.append(helper.make_tensor_value_info(name, elem, list(dims)))
        return name

    def weight(self, *dims: int, scale: float = 0.1) -> str:
        chance = np.random.default_rng(self.count)
        return self.constant((chance.standard_normal(dims) * scale).astype(np.float32))

    def constant(self, value: NDArray[Any]) -> str:
        self.count += 1
        name = f"{self.prefix}c{self.count}"
        self.constants.append(numpy_helper.from_array(value, name))
        return name

    def ints(self, *values: int) -> str:
        return self.constant(np.array(values, dtype=np.int64))

    def integer(self, value: int) -> str:
        return self.constant(np.array(value, dtype=np.int64))

    def number(self, value: float) -> str:
        return self.constant(np.array(value, dtype=np.float32))

    def __call__(self, op_type: str, *inputs: str, domain: str = "", **attributes: Any) -> str:
        return self.many(op_type, *inputs, count=1, domain=domain, **attributes)[0]

    def many(self, op_type: str, *inputs: str, count: int, domain: str = "", **attributes: Any) -> list[str]:
        self.count += 1
        names = [f"{self.prefix}{op_type}_{self.count}_{k}" for k in range(count)]
        self.nodes.append(helper.make_node(op_type, list(inputs), names, domain=domain, **attributes))
        return names

    def graph(self, *outputs: str, elems: Sequence[int] = ()) -> GraphProto:
        kinds = [*elems, *[FLOAT] * (len(outputs) - len(elems))]
        infos = [helper.make_tensor_value_info(n, e, None) for n, e in zip(outputs, kinds, strict=True)]
        return helper.make_graph(self.nodes, "g", self.inputs, infos, self.constants)

    def model(self, *outputs: str, elems: Sequence[int] = (), domains: Mapping[str, int] | None = None) -> ModelProto:
        imports = [
            helper.make_opsetid("", self.opset),
            *(helper.make_opsetid(d, v) for d, v in (domains or {}).items()),
        ]
        return helper.make_model(self.graph(*outputs, elems=elems), opset_imports=imports, ir_version=8)

    def dim(self, value: str, axis: int) -> str:
        """The length of a value, as torch asks for it."""
        return self("Gather", self("Shape", value), self.integer(axis), axis=0)

    def dims(self, *lengths: str | int) -> str:
        parts = [self.ints(n) if isinstance(n, int) else self("Unsqueeze", n, self.ints(0)) for n in lengths]
        return self("Concat", *parts, axis=0)

    def linear(self, x: str, inner: int, outer: int) -> str:
        return self("Add", self("MatMul", x, self.weight(inner, outer)), self.weight(outer))

    def conv(self, x: str, inner: int, outer: int, size: int = 3, **attributes: Any) -> str:
        pads = [size // 2] * 4
        group = attributes.pop("group", 1)
        weight = self.weight(outer, inner // group, size, size)
        return self("Conv", x, weight, self.weight(outer), pads=pads, group=group, **attributes)


def audio() -> ModelProto:
    """Convolutions over 16,000 samples, reshaped and tiled as one dimension."""
    m = Maker()
    x = m.input("x", [1600])
    row = m("Reshape", x, m.ints(1, -1))
    framed = m("Unsqueeze", x, m.ints(0, 1))
    tiled = m("Tile", x, m.ints(2))
    spread = m("Expand", x, m.ints(3, 1600))
    y = m("Conv", framed, m.weight(8, 1, 10), strides=[5])
    y = m("Conv", m("Relu", y), m.weight(8, 8, 3), strides=[2], group=1)
    flat = m("Reshape", y, m.ints(-1))
    back = m("Reshape", flat, m.dims(1, 8, -1))
    return m.model(row, tiled, spread, m("ReduceMean", back, axes=[2]))


def bert(batch: int | str = 1, length: int | str = 70) -> ModelProto:
    """A block of BERT: a mask made by ConstantOfShape, Where and Expand; positions by Range."""
    m = Maker()
    ids, mask = m.input("ids", [batch, length], INT64), m.input("mask", [batch, length], INT64)
    n, b = m.dim(ids, 1), m.dim(ids, 0)
    positions = m("Range", m.integer(0), n, m.integer(1))
    shape = m.dims(b, n)
    fill = m("ConstantOfShape", m("Shape", shape), value=numpy_helper.from_array(np.array([1], dtype=np.int64)))
    wanted = m("Where", m("Equal", shape, m("Mul", fill, m.integer(-1))), fill, shape)
    rows = m("Expand", m("Unsqueeze", positions, m.ints(0)), wanted)
    x = m("Add", m("Gather", m.weight(100, 32), ids), m("Gather", m.weight(512, 32), rows))
    x = m("LayerNormalization", x, m.weight(32), m.weight(32), axis=-1)
    wide = m("Expand", m("Unsqueeze", mask, m.ints(1, 2)), m.dims(b, 1, n, n))
    hidden = m("Cast", wide, to=FLOAT)
    bias = m("Mul", m("Sub", m.number(1), hidden), m.number(-1e4))

    def heads(value: str) -> str:
        return m("Transpose", m("Reshape", value, m.dims(b, n, 4, 8)), perm=[0, 2, 1, 3])

    q, k, v = (heads(m.linear(x, 32, 32)) for _ in range(3))
    scores = m("Div", m("MatMul", q, m("Transpose", k, perm=[0, 1, 3, 2])), m.number(8**0.5))
    held = m("MatMul", m("Softmax", m("Add", scores, bias), axis=-1), v)
    joined = m("Reshape", m("Transpose", held, perm=[0, 2, 1, 3]), m.dims(b, n, 32))
    x = m("LayerNormalization", m("Add", x, m.linear(joined, 32, 32)), m.weight(32), m.weight(32), axis=-1)
    y = m.linear(x, 32, 64)
    gelu = m("Mul", m("Mul", y, m("Add", m("Erf", m("Div", y, m.number(2**0.5))), m.number(1))), m.number(0.5))
    return m.model(m("Add", x, m.linear(gelu, 64, 32)))


def llama(batch: int | str = 1, length: int | str = 66) -> ModelProto:
    """A block of Llama: rotary positions, a causal mask by Trilu, keys and values repeated for groups of heads."""
    m = Maker()
    ids = m.input("ids", [batch, length], INT64)
    n, b = m.dim(ids, 1), m.dim(ids, 0)
    x = m("Gather", m.weight(100, 32), ids)

    def norm(value: str) -> str:
        mean = m("ReduceMean", m("Pow", value, m.number(2)), axes=[-1], keepdims=1)
        return m("Mul", m("Mul", value, m("Div", m.number(1), m("Sqrt", m("Add", mean, m.number(1e-6))))), m.weight(32))

    row = m("Unsqueeze", m("Cast", m("Range", m.integer(0), n, m.integer(1)), to=FLOAT), m.ints(0, 1))
    angle = m("Transpose", m("MatMul", m("Reshape", m.weight(4), m.ints(1, 4, 1)), row), perm=[0, 2, 1])
    twice = m("Concat", angle, angle, axis=-1)
    cosine, sine = (m("Unsqueeze", m(f, twice), m.ints(1)) for f in ("Cos", "Sin"))

    def turned(value: str) -> str:
        first = m("Slice", value, m.ints(0), m.ints(4), m.ints(3))
        last = m("Slice", value, m.ints(4), m.ints(2**63 - 1), m.ints(3))
        half = m("Concat", m("Neg", last), first, axis=-1)
        return m("Add", m("Mul", value, cosine), m("Mul", half, sine))

    def heads(value: str, count: int) -> str:
        return m("Transpose", m("Reshape", m.linear(value, 32, count * 8), m.dims(b, n, count, 8)), perm=[0, 2, 1, 3])

    def repeated(value: str) -> str:
        wide = m("Expand", m("Unsqueeze", value, m.ints(2)), m.dims(b, 2, 2, n, 8))
        return m("Reshape", wide, m.dims(b, 4, n, 8))

    y = norm(x)
    q, k, v = turned(heads(y, 4)), repeated(turned(heads(y, 2))), repeated(heads(y, 2))
    low = numpy_helper.from_array(np.array([-1e9], dtype=np.float32))
    mask = m("Trilu", m("ConstantOfShape", m.dims(n, n), value=low), m.integer(1), upper=1)
    scores = m("Mul", m("MatMul", q, m("Transpose", k, perm=[0, 1, 3, 2])), m.number(8**-0.5))
    held = m("MatMul", m("Softmax", m("Add", scores, mask), axis=-1), v)
    x = m("Add", x, m.linear(m("Reshape", m("Transpose", held, perm=[0, 2, 1, 3]), m.dims(b, n, 32)), 32, 32))
    y = norm(x)
    gate = m.linear(y, 32, 48)
    x = m("Add", x, m.linear(m("Mul", m("Mul", gate, m("Sigmoid", gate)), m.linear(y, 32, 48)), 48, 32))
    return m.model(m("MatMul", norm(x), m.weight(32, 100)))


def convolutions() -> ModelProto:
    """Convolutions with 24 channels, depthwise ones, pools, squeeze-and-excitation and a transposed classifier."""
    m = Maker()
    y = m("Relu", m.conv(m.input("x", [1, 3, 32, 32]), 3, 24, strides=[2, 2]))
    y = m("MaxPool", y, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    side = m("Relu", m.conv(y, 24, 24, group=24))
    gate = m("HardSigmoid", m.conv(m("Relu", m.conv(m("GlobalAveragePool", side), 24, 8, 1)), 8, 24, 1))
    y = m("Concat", y, m("Add", m.conv(m("Mul", side, gate), 24, 24, 1), y), axis=1)
    y = m("AveragePool", m.conv(y, 48, 40, 1), kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1)
    y = m("Resize", y, "", m.constant(np.array([1, 1, 2, 2], dtype=np.float32)), mode="nearest")
    y = m("Flatten", m("GlobalAveragePool", m("Clip", y, m.number(0), m.number(6))))
    return m.model(m("Gemm", y, m.weight(10, 40), m.weight(10), transB=1))


def resizes() -> ModelProto:
    """Resize by scales and by sizes that follow from the input's shape, and by sizes of chosen axes."""
    m = Maker(opset=18)
    x = m.input("x", [1, 3, 9, 12])
    up = m("Resize", x, "", m.constant(np.array([1, 1, 1.5, 2], dtype=np.float32)), mode="linear")
    shape = m("Shape", x)
    area = m("Cast", m("Slice", shape, m.ints(2), m.ints(4)), to=FLOAT)
    wanted = m("Cast", m("Floor", m("Mul", area, m.number(2.5))), to=INT64)
    sized = m("Resize", x, "", "", m("Concat", m("Slice", shape, m.ints(0), m.ints(2)), wanted, axis=0), mode="nearest")
    ones = m("Div", m("Cast", shape, to=FLOAT), m("Cast", shape, to=FLOAT))
    scales = m("Mul", ones, m.constant(np.array([1, 1, 3, 3], dtype=np.float32)))
    scaled = m("Resize", x, "", scales, mode="nearest")
    axes = m("Resize", x, "", "", m.ints(20, 30), mode="cubic", axes=[2, 3])
    return m.model(up, sized, scaled, axes)


def layer_normalization_14() -> ModelProto:
    """ONNX Runtime takes LayerNormalization in ONNX's domain before opset 17, where ONNX has none."""
    m = Maker(opset=14)
    y = m("LayerNormalization", m.input("x", [2, 5, 16]), m.weight(16), m.weight(16), axis=-1)
    return m.model(m("Relu", m.linear(y, 16, 8)))


def ssdlite() -> ModelProto:
    """A detector as torch exports it: scores above a limit by NonZero, the best by TopK, NonMaxSuppression, Gather."""
    m = Maker()
    features = m("Relu", m.conv(m.input("x", [1, 3, 16, 16]), 3, 8, strides=[2, 2]))
    count = m.integer(100)
    boxes = m("Reshape", m("Transpose", m.conv(features, 8, 16), perm=[0, 2, 3, 1]), m.ints(-1, 4))
    scores = m("Softmax", m("Reshape", m("Transpose", m.conv(features, 8, 12), perm=[0, 2, 3, 1]), m.ints(-1, 3)))
    kept_boxes, kept_scores = [], []
    for label in (1, 2):
        one = m("Gather", scores, m.integer(label), axis=1)
        found = m("Transpose", m("NonZero", m("Greater", one, m.number(0.01))), perm=[1, 0])
        above = m("GatherND", one, found)
        near = m("GatherND", boxes, found)
        least = m("ReduceMin", m("Concat", m("Shape", above), m("Unsqueeze", count, m.ints(0)), axis=0), keepdims=1)
        best, places = m.many("TopK", above, least, count=2, axis=0)
        kept_scores.append(best)
        kept_boxes.append(m("Gather", near, places, axis=0))
    all_boxes, all_scores = m("Concat", *kept_boxes, axis=0), m("Concat", *kept_scores, axis=0)
    rows, columns = (m("Unsqueeze", v, m.ints(*a)) for v, a in ((all_boxes, (0,)), (all_scores, (0, 1))))
    chosen = m("NonMaxSuppression", rows, columns, m.integer(50), m.number(0.5), m.number(0.0))
    which = m("Squeeze", m("Gather", chosen, m.ints(2), axis=1), m.ints(1))
    return m.model(m("Gather", all_boxes, which), m("Gather", all_scores, which))


def faster_rcnn() -> ModelProto:
    """Proposals by TopK and NonMaxSuppression, RoiAlign on what is left, an If on whether there is any, and a Loop."""
    m = Maker()
    features = m("Relu", m.conv(m.input("x", [1, 3, 16, 16]), 3, 8, strides=[2, 2]))
    boxes = m("Abs", m("Reshape", m("Transpose", m.conv(features, 8, 16), perm=[0, 2, 3, 1]), m.ints(-1, 4)))
    scores = m("Sigmoid", m("Reshape", m("Transpose", m.conv(features, 8, 4), perm=[0, 2, 3, 1]), m.ints(-1)))
    best, places = m.many("TopK", scores, m.ints(70), count=2, axis=0)
    near = m("Gather", boxes, places, axis=0)
    chosen = m("NonMaxSuppression", m("Unsqueeze", near, m.ints(0)), m("Unsqueeze", best, m.ints(0, 1)), m.integer(20))
    kept = m("Gather", near, m("Squeeze", m("Gather", chosen, m.ints(2), axis=1), m.ints(1)), axis=0)
    batch = m("ConstantOfShape", m("Unsqueeze", m.dim(kept, 0), m.ints(0)))
    zeros = m("Cast", batch, to=INT64)
    pooled = m("RoiAlign", features, kept, zeros, output_height=3, output_width=3, sampling_ratio=2)
    flat = m.linear(m("Flatten", pooled), 72, 10)
    some = m("Greater", m("Size", kept), m.integer(0))
    then, other = Maker(prefix="then_"), Maker(prefix="else_")
    chosen_rows = m(
        "If", some, then_branch=then.graph(then("Relu", flat)), else_branch=other.graph(other.weight(1, 10))
    )
    body = Maker(prefix="body_")
    body.input("turn", [], INT64)
    keep = body.input("go", [], BOOL)
    grown = body("Concat", body.input("rows", ["n", 10]), body.weight(1, 10), axis=0)
    loop = body.graph(body("Identity", keep), grown, body("ReduceSum", grown, keepdims=0), elems=[BOOL])
    rows, sums = m.many("Loop", m.integer(3), "", chosen_rows, count=2, body=loop)
    return m.model(rows, sums, m("Softmax", scores, axis=0))


KINDS: Mapping[str, Callable[[], ModelProto]] = {
    f.__name__: f for f in (audio, bert, llama, convolutions, resizes, layer_normalization_14, ssdlite, faster_rcnn)
}


def feeds_for(model: ModelProto, dims: Mapping[str, int] | None = None) -> dict[str, NDArray[Any]]:
    """Random inputs; integers are ids below 100."""
    chance = np.random.default_rng(1)
    feeds: dict[str, NDArray[Any]] = {}
    for value in model.graph.input:
        made = value.type.tensor_type
        shape = [(dims or {})[d.dim_param] if d.dim_param else d.dim_value for d in made.shape.dim]
        if made.elem_type == INT64:
            feeds[value.name] = chance.integers(0, 2 if value.name == "mask" else 100, shape)
        else:
            feeds[value.name] = chance.standard_normal(shape).astype(np.float32)
    return feeds
