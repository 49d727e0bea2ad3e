"""Models whose sizes depend on the data: a detector in two stages, and a network with a NonZero at its end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["detector", "nonzero_tail"]

_FLOAT, _INT = TensorProto.FLOAT, TensorProto.INT64


class _Net:
    """Nodes and weights in the making; each method returns the name of its result."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        self.rng = np.random.default_rng(0)

    def constant(self, values: Any, dtype: Any = np.int64) -> str:
        name = f"c{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(values, dtype), name))
        return name

    def weight(self, *shape: int) -> str:
        spread = np.sqrt(np.prod(shape[1:]) if len(shape) == 4 else shape[0])
        return self.constant(self.rng.standard_normal(shape) / spread, np.float32)

    def __call__(self, kind: str, *inputs: str, name: str = "", **attributes: Any) -> str:
        output = name or f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [output], **attributes))
        return output

    def conv(self, x: str, channels: int, filters: int, stride: int = 1) -> str:
        strides, pads = [stride, stride], [1, 1, 1, 1]
        return self("Relu", self("Conv", x, self.weight(filters, channels, 3, 3), strides=strides, pads=pads))

    def save(self, path: Path, image: list[int | str], outputs: dict[str, tuple[int, list[int | str]]]) -> Path:
        ends = [helper.make_tensor_value_info(name, kind, shape) for name, (kind, shape) in outputs.items()]
        given = [helper.make_tensor_value_info("image", _FLOAT, image)]
        graph = helper.make_graph(self.nodes, path.stem, given, ends, self.weights)
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
        return path


def detector(path: Path, *, width: int = 32) -> Path:
    """Faster R-CNN's stages: features, a box and a score at every place, NMS, RoiAlign of what is left, classes, and
    those of a high score; images are of any size.
    """
    net = _Net()
    features = net.conv(net.conv(net.conv("image", 3, width, 2), width, 2 * width, 2), 2 * width, 2 * width)
    scores = net("Conv", features, net.weight(1, 2 * width, 1, 1))
    sizes = net("Conv", features, net.weight(2, 2 * width, 1, 1))
    flat = net("Sigmoid", net("Reshape", scores, net.constant([1, 1, -1])))
    half = net("Exp", net("Transpose", net("Reshape", sizes, net.constant([1, 2, -1])), perm=[0, 2, 1]))
    ones = net("ConstantOfShape", net("Shape", net("Squeeze", scores, net.constant([0, 1]))), value=_one())
    places = net("Cast", net("Transpose", net("NonZero", ones), perm=[1, 0]), to=_FLOAT)
    boxes = net("Concat", net("Sub", places, half), net("Add", places, half), axis=2)
    few, overlap, least = net.constant([60]), net.constant([0.6], np.float32), net.constant([0.55], np.float32)
    kept = net("NonMaxSuppression", boxes, flat, few, overlap, least)
    chosen = net("Gather", kept, net.constant(2), axis=1)
    proposals = net("Gather", net("Squeeze", boxes, net.constant([0])), chosen, axis=0)
    images = net("Gather", kept, net.constant(0), axis=1)
    pooled = net("RoiAlign", features, proposals, images, output_height=7, output_width=7, sampling_ratio=2)
    wide = 2 * width * 49
    vectors = net("Relu", net("MatMul", net("Reshape", pooled, net.constant([-1, wide])), net.weight(wide, 128)))
    classes = net("Softmax", net("MatMul", vectors, net.weight(128, 10)), axis=1)
    best = net("ReduceMax", classes, axes=[1], keepdims=0)
    sure = net("Squeeze", net("NonZero", net("Greater", best, net.constant(0.12, np.float32))), net.constant([0]))
    net("Gather", proposals, sure, axis=0, name="boxes")
    net("Gather", classes, sure, axis=0, name="classes")
    image: list[int | str] = [1, 3, "height", "width"]
    return net.save(path, image, {"boxes": (_FLOAT, ["found", 4]), "classes": (_FLOAT, ["found", 10])})


def nonzero_tail(path: Path, *, width: int = 32) -> Path:
    """Features of a fixed size, and a tail on those of the places whose score is positive."""
    net = _Net()
    features = net.conv(net.conv(net.conv("image", 3, width, 2), width, 2 * width), 2 * width, 2 * width)
    scores = net("Squeeze", net("Conv", features, net.weight(1, 2 * width, 1, 1)), net.constant([0, 1]))
    places = net("Transpose", net("NonZero", net("Greater", scores, net.constant(0, np.float32))), perm=[1, 0])
    last = net("Transpose", net("Squeeze", features, net.constant([0])), perm=[1, 2, 0])
    x = net("GatherND", last, places)
    for _ in range(4):
        x = net("Relu", net("MatMul", x, net.weight(2 * width, 2 * width)))
    net("MatMul", x, net.weight(2 * width, 4), name="vectors")
    net("Identity", places, name="places")
    outputs: dict[str, tuple[int, list[int | str]]] = {"vectors": (_FLOAT, ["n", 4]), "places": (_INT, ["n", 2])}
    return net.save(path, [1, 3, 128, 128], outputs)


def _one() -> onnx.TensorProto:
    return helper.make_tensor("one", _FLOAT, [1], [1.0])
