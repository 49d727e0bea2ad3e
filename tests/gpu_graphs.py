"""Random ONNX networks of what convolutional models have, for executors to run: branches, joins, splits, resizes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

__all__ = ["network", "write_network"]

Shape = tuple[int, ...]
_OPSET: Final = 18


class _Net:
    """A graph that grows; every tensor is about as large as the input."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        self.shapes: dict[str, Shape] = {}
        self.read: set[str] = set()

    def pick(self, choices: Sequence[Any]) -> Any:
        return choices[int(self.rng.integers(len(choices)))]

    def between(self, low: int, high: int) -> int:
        return int(self.rng.integers(low, high + 1))

    def constant(self, values: Any, dtype: Any = np.float32) -> str:
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(values, dtype), name))
        return name

    def normal(self, *shape: int, scale: float = 1.0) -> str:
        return self.constant(self.rng.normal(scale=scale, size=shape))

    def node(self, kind: str, inputs: Sequence[str], *shapes: Shape, **attributes: Any) -> str:
        outputs = [f"t{len(self.shapes) + k}" for k in range(len(shapes))]
        self.nodes.append(helper.make_node(kind, inputs, outputs, name=f"{kind}_{len(self.nodes)}", **attributes))
        self.shapes.update(zip(outputs, shapes, strict=True))
        self.read.update(inputs)
        return outputs[0]

    def images(self) -> list[str]:
        """Tensors of four dimensions, the newest more often."""
        known = [n for n, s in self.shapes.items() if len(s) == 4]
        return known[-4:] + known

    def any_image(self) -> tuple[str, Shape]:
        name = self.pick(self.images())
        return name, self.shapes[name]


def _conv(net: _Net) -> None:
    x, (batch, channels, height, width) = net.any_image()
    kernel = net.pick(((1, 1), (1, 1), (3, 3), (3, 3), (5, 5), (1, 3), (3, 1)))
    dilation, stride = net.pick((1, 1, 1, 2)), net.pick((1, 1, 1, 2))
    if net.rng.random() < 0.3:
        groups, out = channels, channels * net.pick((1, 1, 2))
    else:
        groups, out = 1, net.pick((3, 4, 6, 8, 12, 16))
    pads = [(k - 1) * dilation // 2 for k in kernel]
    spans = [n + 2 * p - (k - 1) * dilation for n, p, k in zip((height, width), pads, kernel, strict=True)]
    sizes = [(span - 1) // stride + 1 for span in spans]
    if min(sizes) < 1:
        return
    fan = kernel[0] * kernel[1] * channels // groups
    inputs = [x, net.normal(out, channels // groups, *kernel, scale=fan**-0.5)]
    if net.rng.random() < 0.7:
        inputs.append(net.normal(out, scale=0.3))
    net.node(
        "Conv",
        inputs,
        (batch, out, *sizes),
        kernel_shape=kernel,
        dilations=[dilation] * 2,
        strides=[stride] * 2,
        pads=[*pads, *pads],
        group=groups,
    )


def _transposed(net: _Net) -> None:
    x, (batch, channels, height, width) = net.any_image()
    if height * width > 400:
        return
    kernel, out = net.pick((2, 3, 4)), net.pick((3, 4, 6))
    weights = net.normal(channels, out, kernel, kernel, scale=(channels * kernel) ** -0.5)
    sizes = [(n - 1) * 2 + kernel for n in (height, width)]
    net.node("ConvTranspose", [x, weights], (batch, out, *sizes), kernel_shape=[kernel] * 2, strides=[2, 2])


def _activation(net: _Net) -> None:
    x, shape = net.any_image()
    kind = net.pick(("Relu", "Sigmoid", "HardSwish", "LeakyRelu", "Tanh", "Clip", "PRelu", "Elu", "BatchNormalization"))
    if kind == "Clip":
        net.node(kind, [x, net.constant(-1.0), net.constant(2.0)], shape)
    elif kind == "PRelu":
        net.node(kind, [x, net.normal(shape[1], 1, 1)], shape)
    elif kind == "BatchNormalization":
        ones = net.constant(np.ones(shape[1]))
        net.node(kind, [x, net.normal(shape[1]), net.normal(shape[1]), net.normal(shape[1]), ones], shape)
    else:
        net.node(kind, [x], shape)


def _join(net: _Net) -> None:
    x, shape = net.any_image()
    kind = net.pick(("Add", "Mul", "Sub", "Max", "Add"))
    same = [n for n in net.images() if net.shapes[n] == shape]
    each = [n for n in net.images() if net.shapes[n] == (shape[0], shape[1], 1, 1)]
    other = net.pick([*same, *each * 2, net.normal(shape[1], 1, 1), net.constant(0.5)])
    net.node(kind, [x, other] if net.rng.random() < 0.7 else [other, x], shape)


def _concat(net: _Net) -> None:
    _, shape = net.any_image()
    axis = net.pick((1, 1, 1, 2, 3))
    fits = [n for n in net.images() if all(net.shapes[n][d] == shape[d] for d in range(4) if d != axis)]
    parts = [net.pick(fits) for _ in range(net.between(2, 7))]
    total = sum(net.shapes[n][axis] for n in parts)
    if total <= 40:
        net.node("Concat", parts, (*shape[:axis], total, *shape[axis + 1 :]), axis=axis)


def _split(net: _Net) -> None:
    x, shape = net.any_image()
    axis = net.pick((1, 1, 2, 3))
    if shape[axis] < 2:
        return
    first = net.between(1, shape[axis] - 1)
    parts = [first, shape[axis] - first]
    sizes = [(*shape[:axis], n, *shape[axis + 1 :]) for n in parts]
    net.node("Split", [x, net.constant(parts, np.int64)], *sizes, axis=axis)


def _slice(net: _Net) -> None:
    x, shape = net.any_image()
    axis, step = net.pick((1, 2, 3)), net.pick((1, 1, 2))
    begin = net.between(0, shape[axis] - 1)
    end = net.between(begin + 1, shape[axis])
    size = -(-(end - begin) // step)
    inputs = [x, *(net.constant([v], np.int64) for v in (begin, end, axis, step))]
    net.node("Slice", inputs, (*shape[:axis], size, *shape[axis + 1 :]))


def _pad(net: _Net) -> None:
    x, shape = net.any_image()
    mode = net.pick(("constant", "reflect", "edge"))
    first = 1 if mode == "constant" else 2  # the first axis that is padded
    pads = [0 if d % 4 < first else net.between(0, min(2, n - 1)) for d, n in enumerate(shape * 2)]
    sizes = tuple(n + a + b for n, a, b in zip(shape, pads[:4], pads[4:], strict=True))
    net.node("Pad", [x, net.constant(pads, np.int64)], sizes, mode=mode)


def _resize(net: _Net) -> None:
    x, (batch, channels, height, width) = net.any_image()
    if height * width > 400:
        return
    sizes = height * 2, width * 2
    attributes = net.pick(
        (
            {"mode": "linear", "coordinate_transformation_mode": "half_pixel"},
            {"mode": "linear", "coordinate_transformation_mode": "align_corners"},
            {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"},
        )
    )
    scales = net.constant([1, 1, 2, 2])
    net.node("Resize", [x, "", scales], (batch, channels, *sizes), **attributes)


def _pool(net: _Net) -> None:
    x, (batch, channels, height, width) = net.any_image()
    kind = net.pick(("MaxPool", "AveragePool", "GlobalAveragePool", "ReduceMean", "MaxPool"))
    if kind == "GlobalAveragePool":
        net.node(kind, [x], (batch, channels, 1, 1))
    elif kind == "ReduceMean":
        net.node(kind, [x, net.constant([2, 3], np.int64)], (batch, channels, 1, 1), keepdims=1)
    elif min(height, width) >= 2:
        kernel, stride = net.pick((2, 3)), net.pick((1, 2))
        pad = kernel // 2
        sizes = [(n + 2 * pad - kernel) // stride + 1 for n in (height, width)]
        net.node(kind, [x], (batch, channels, *sizes), kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=[pad] * 4)


def _shuffle(net: _Net) -> None:
    """Channels in another order: a reshape to five dimensions, a transposition, and back."""
    x, (batch, channels, height, width) = net.any_image()
    groups = next((g for g in (2, 3) if channels % g == 0), 0)
    if not groups:
        return
    five = (batch, groups, channels // groups, height, width)
    split = net.node("Reshape", [x, net.constant(five, np.int64)], five)
    turned = net.node("Transpose", [split], (five[0], five[2], five[1], *five[3:]), perm=[0, 2, 1, 3, 4])
    four = (batch, channels, height, width)
    net.node("Reshape", [turned, net.constant(four, np.int64)], four)


def _normalized(net: _Net) -> None:
    x, shape = net.any_image()
    if net.rng.random() < 0.5 and shape[2] * shape[3] >= 4:
        net.node("InstanceNormalization", [x, net.normal(shape[1]), net.normal(shape[1])], shape, epsilon=0.1)
    else:
        net.node("Softmax", [x], shape, axis=net.pick((1, 3)))


def _rows(net: _Net) -> None:
    """A head: flattened, and a product."""
    x, shape = net.any_image()
    of_row = int(np.prod(shape[1:]))
    if of_row > 2000:
        return
    flat = net.node("Flatten", [x], (shape[0], of_row))
    weights = net.normal(of_row, 10, scale=of_row**-0.5)
    made = net.node("Gemm", [flat, weights, net.normal(10)], (shape[0], 10))
    net.node("Softmax", [made], (shape[0], 10), axis=1)


_STEPS: Final[tuple[Callable[[_Net], None], ...]] = (
    *(_conv,) * 5,
    *(_activation,) * 4,
    *(_join,) * 4,
    *(_concat,) * 3,
    *(_pool,) * 2,
    *(_split, _slice, _pad, _resize, _transposed, _shuffle, _normalized, _rows),
)


def network(seed: int, steps: int = 25) -> onnx.ModelProto:
    """The random network of this number."""
    net = _Net(seed)
    batch = net.pick((1, 1, 1, 2))
    shape = (batch, net.pick((1, 3, 4, 6)), net.between(5, 14), net.between(5, 14))
    net.shapes["x"] = shape
    for _ in range(steps):
        net.pick(_STEPS)(net)
    made = [n for n in net.shapes if n != "x"]
    ends = [n for n in made if n not in net.read]
    outputs = list(dict.fromkeys([*ends, *(net.pick(made) for _ in range(2))]))
    graph = helper.make_graph(
        net.nodes,
        f"random_{seed}",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, net.shapes[n]) for n in outputs],
        net.weights,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", _OPSET)], ir_version=9)
    onnx.checker.check_model(model, full_check=True)
    return model


def write_network(seed: int, folder: Path, steps: int = 25) -> Path:
    """The random network of this number in a file."""
    path = folder / f"random_{seed}.onnx"
    onnx.save(network(seed, steps), path)
    return path
