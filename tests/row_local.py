"""Random ONNX graphs of operators that work row by row, to be tiled."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto

    from edgemem.model.graph import Graph

__all__ = ["Drawn", "row_local_models"]

FLOAT = TensorProto.FLOAT


@dataclass(slots=True)
class Drawn:
    """A model while it is drawn: nodes, constants, and the shapes of its values."""

    shapes: dict[str, tuple[int, int, int, int]]
    nodes: list[NodeProto] = field(default_factory=list)
    constants: list[Any] = field(default_factory=list)
    seed: int = 0

    def constant(self, *shape: int, values: np.ndarray[Any, Any] | None = None) -> str:
        """A new initializer; random without values."""
        name = f"c{len(self.constants)}"
        rng = np.random.default_rng(self.seed + len(self.constants))
        made = rng.standard_normal(shape).astype(np.float32) * 0.3 if values is None else values
        self.constants.append(numpy_helper.from_array(made, name))
        return name

    def add(self, kind: str, inputs: list[str], shape: tuple[int, int, int, int], **attributes: Any) -> str:
        name = f"t{len(self.nodes)}"
        domain = attributes.pop("domain", "")
        self.nodes.append(helper.make_node(kind, inputs, [name], name=f"{kind}{name}", domain=domain, **attributes))
        self.shapes[name] = shape
        return name

    def model(self, outputs: list[str]) -> ModelProto:
        x = helper.make_tensor_value_info("x", FLOAT, self.shapes["x"])
        ends = [helper.make_tensor_value_info(name, FLOAT, self.shapes[name]) for name in outputs]
        graph = helper.make_graph(self.nodes, "drawn", [x], ends, self.constants)
        sets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
        return helper.make_model(graph, opset_imports=sets, ir_version=8)


@st.composite
def row_local_models(draw: st.DrawFn) -> ModelProto:
    """A directed acyclic graph of 2 to 8 operators on images of up to 20 x 16 pixels; every end is an output."""
    size = (
        draw(st.integers(1, 2)),
        draw(st.sampled_from((2, 3, 4))),
        draw(st.integers(8, 20)),
        draw(st.integers(6, 16)),
    )
    drawn = Drawn({"x": size}, seed=draw(st.integers(0, 99)))
    for _ in range(draw(st.integers(2, 8))):
        source = draw(st.sampled_from(sorted(drawn.shapes)))
        _OPERATORS[draw(st.sampled_from(sorted(_OPERATORS)))](draw, drawn, source)
    if not drawn.nodes:
        _unary(draw, drawn, "x")
    read = {name for node in drawn.nodes for name in node.input}
    ends = [name for name in drawn.shapes if name not in read and name != "x"]
    inner = [name for name in drawn.shapes if name in read and name != "x"]
    return drawn.model(ends + (draw(st.lists(st.sampled_from(inner), max_size=1)) if inner else []))


def _window(draw: st.DrawFn, shape: tuple[int, ...], *, most: int = 3) -> tuple[dict[str, Any], tuple[int, int]] | None:
    """Attributes of a sliding window and the size of the result; None where it does not fit."""
    kernel = [draw(st.integers(1, most)) for _ in range(2)]
    stride = [min(draw(st.sampled_from((1, 1, 2))), k) for k in kernel]
    automatic = draw(st.sampled_from(("NOTSET", "NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID")))
    if automatic.startswith("SAME"):
        made = [-(-shape[2 + k] // stride[k]) for k in range(2)]
        return {"kernel_shape": kernel, "strides": stride, "auto_pad": automatic}, (made[0], made[1])
    pads = [0] * 4 if automatic == "VALID" else [draw(st.integers(0, k - 1)) for k in (*kernel, *kernel)]
    made = [(shape[2 + k] + pads[k] + pads[2 + k] - kernel[k]) // stride[k] + 1 for k in range(2)]
    if min(made) < 2:
        return None
    given = {"auto_pad": automatic} if automatic == "VALID" else {"pads": pads}
    return {"kernel_shape": kernel, "strides": stride, **given}, (made[0], made[1])


def _convolution(draw: st.DrawFn, drawn: Drawn, source: str) -> None:
    batch, channels, *_ = shape = drawn.shapes[source]
    window = _window(draw, shape)
    if window is None:
        return
    attributes, size = window
    group = channels if draw(st.booleans()) else 1
    filters = channels if group > 1 else draw(st.integers(1, 4))
    weights = drawn.constant(filters, channels // group, *attributes["kernel_shape"])
    inputs = [source, weights, *([drawn.constant(filters)] if draw(st.booleans()) else [])]
    fused = {"domain": "com.microsoft", "activation": "Relu"} if draw(st.booleans()) else {}
    kind = "FusedConv" if fused else "Conv"
    drawn.add(kind, inputs, (batch, filters, *size), group=group, **attributes, **fused)


def _pool(draw: st.DrawFn, drawn: Drawn, source: str) -> None:
    shape = drawn.shapes[source]
    window = _window(draw, shape)
    if window is not None:
        kind = draw(st.sampled_from(("MaxPool", "AveragePool")))
        counts = {"count_include_pad": draw(st.integers(0, 1))} if kind == "AveragePool" else {}
        drawn.add(kind, [source], (*shape[:2], *window[1]), **window[0], **counts)


def _unary(draw: st.DrawFn, drawn: Drawn, source: str) -> None:
    drawn.add(
        draw(st.sampled_from(("Relu", "Sigmoid", "Tanh", "HardSwish", "LeakyRelu"))), [source], drawn.shapes[source]
    )


def _binary(draw: st.DrawFn, drawn: Drawn, source: str) -> None:
    shape = drawn.shapes[source]
    same = sorted(name for name, other in drawn.shapes.items() if other == shape)
    other = draw(st.sampled_from([*same, drawn.constant(1, shape[1], 1, 1)]))
    drawn.add(draw(st.sampled_from(("Add", "Mul", "Sub"))), [source, other], shape)


def _concat(draw: st.DrawFn, drawn: Drawn, source: str) -> None:
    shape = drawn.shapes[source]
    fitting = sorted(n for n, o in drawn.shapes.items() if (o[0], *o[2:]) == (shape[0], *shape[2:]) and o[1] <= 8)
    if fitting and shape[1] <= 8:
        other = draw(st.sampled_from(fitting))
        drawn.add("Concat", [source, other], (shape[0], shape[1] + drawn.shapes[other][1], *shape[2:]), axis=1)


def _normalization(draw: st.DrawFn, drawn: Drawn, source: str) -> None:  # noqa: ARG001 - as the others
    shape = drawn.shapes[source]
    values = [drawn.constant(shape[1]) for _ in range(3)]
    variance = drawn.constant(values=np.full(shape[1], 1.5, np.float32))
    drawn.add("BatchNormalization", [source, *values, variance], shape)


def _resize(draw: st.DrawFn, drawn: Drawn, source: str) -> None:
    batch, channels, height, width = drawn.shapes[source]
    if height > 16 or width > 16:
        return
    mode = draw(st.sampled_from(("nearest", "linear")))
    where = draw(st.sampled_from(("half_pixel", "asymmetric")))
    rounding = "floor" if where == "asymmetric" else "round_prefer_floor"
    made = (batch, channels, 2 * height, 2 * width)
    if draw(st.booleans()):
        inputs = [source, "", drawn.constant(values=np.array([1, 1, 2, 2], np.float32))]
    else:
        inputs = [source, "", "", drawn.constant(values=np.array(made, np.int64))]
    drawn.add("Resize", inputs, made, mode=mode, coordinate_transformation_mode=where, nearest_mode=rounding)


def _transposed(draw: st.DrawFn, drawn: Drawn, source: str) -> None:
    batch, channels, height, width = drawn.shapes[source]
    if height <= 16 and width <= 16:
        filters = draw(st.integers(1, 3))
        weights = drawn.constant(channels, filters, 2, 2)
        made = (batch, filters, 2 * height, 2 * width)
        drawn.add("ConvTranspose", [source, weights], made, kernel_shape=[2, 2], strides=[2, 2])


def _pad(draw: st.DrawFn, drawn: Drawn, source: str) -> None:
    batch, channels, height, width = drawn.shapes[source]
    top, left, bottom, right = (draw(st.integers(0, 2)) for _ in range(4))
    pads = drawn.constant(values=np.array([0, 0, top, left, 0, 0, bottom, right], np.int64))
    value = drawn.constant(values=np.array(0.5, np.float32))
    made = (batch, channels, height + top + bottom, width + left + right)
    drawn.add("Pad", [source, pads, value], made)


_OPERATORS = {
    "binary": _binary,
    "concat": _concat,
    "convolution": _convolution,
    "convolution again": _convolution,
    "normalization": _normalization,
    "pad": _pad,
    "pool": _pool,
    "resize": _resize,
    "transposed": _transposed,
    "unary": _unary,
}


def stretch_of(graph: Graph, first: int, last: int) -> tuple[int, int]:
    """Operators that there are, in order."""
    count = len(graph.ops)
    low, high = sorted((first % count, last % count))
    return low, high
