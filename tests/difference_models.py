"""Small ONNX networks that differ by one known edit, for tests of `edgemem diff`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["Layers"]


@dataclass(frozen=True)
class Layers:
    """A chain of 3x3 convolutions, and an Add that joins one of them to a later one.

    Attributes:
        widths: channels of each convolution.
        skip: (from, to): the result of one convolution is added to that of a later one of equal width.
        size: height and width of the image.
        extra: numbers of convolutions that have a Relu behind them.
        float16: all values are float16.
        names: begins the name of every tensor and operator.
    """

    widths: tuple[int, ...] = (8, 8, 8, 8, 8, 8)
    skip: tuple[int, int] = (1, 2)
    size: int = 16
    extra: tuple[int, ...] = ()
    float16: bool = False
    names: str = ""
    kernel: dict[int, int] = field(default_factory=dict)

    def save(self, path: Path) -> Path:
        """Write it as an ONNX model."""
        dtype = TensorProto.FLOAT16 if self.float16 else TensorProto.FLOAT
        rng = np.random.default_rng(1)
        nodes, weights = [], []
        value, channels, results = "image", 3, []
        for k, width in enumerate(self.widths):
            name, edge = f"{self.names}conv{k}", self.kernel.get(k, 3)
            data = rng.standard_normal((width, channels, edge, edge)).astype(np.float16 if self.float16 else np.float32)
            weights.append(numpy_helper.from_array(data, f"{name}.w"))
            pads = [edge // 2] * 4
            nodes.append(helper.make_node("Conv", [value, f"{name}.w"], [name], name=name, pads=pads))
            value, channels = name, width
            if k in self.extra:
                nodes.append(helper.make_node("Relu", [value], [f"{name}.relu"], name=f"{name}.relu"))
                value = f"{name}.relu"
            results.append(value)
            if k == self.skip[1]:
                joined = f"{self.names}add"
                nodes.append(helper.make_node("Add", [value, results[self.skip[0]]], [joined], name=joined))
                value = joined
        shape = (1, 3, self.size, self.size)
        graph = helper.make_graph(
            nodes,
            "layers",
            [helper.make_tensor_value_info("image", dtype, shape)],
            [helper.make_tensor_value_info(value, dtype, (1, channels, self.size, self.size))],
            weights,
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
        onnx.save(onnx.shape_inference.infer_shapes(model), path)
        return path
