"""A small sentence encoder: token numbers of any batch and length to one vector a sentence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["VOCABULARY", "encoder"]

VOCABULARY = 2000


def encoder(path: Path, *, layers: int = 2, heads: int = 4, width: int = 96) -> Path:
    """Write the model: `ids` [batch, sequence] int64 to `embedding` [batch, width], the mean over a sentence's tokens.

    Each layer is attention and a feed-forward pair, with layer normalisation before both.
    """
    rng = np.random.default_rng(0)
    nodes: list[Any] = []
    weights: list[Any] = []

    def weight(name: str, *shape: int) -> str:
        values = (rng.standard_normal(shape) / np.sqrt(shape[0])).astype(np.float32)
        weights.append(numpy_helper.from_array(values, name))
        return name

    def constant(name: str, values: Any) -> str:
        weights.append(numpy_helper.from_array(np.asarray(values), name))
        return name

    def node(kind: str, inputs: list[str], output: str, **attributes: Any) -> str:
        nodes.append(helper.make_node(kind, inputs, [output], **attributes))
        return output

    def normalised(x: str, name: str) -> str:
        scale = constant(f"{name}scale", np.ones(width, np.float32))
        return node("LayerNormalization", [x, scale], name, axis=-1)

    split, joined = constant("split", [0, 0, heads, width // heads]), constant("joined", [0, 0, width])
    factor = constant("factor", np.float32((width // heads) ** -0.5))
    x = node("Gather", [weight("tokens", VOCABULARY, width), "ids"], "embedded")
    for k in range(layers):
        flat = normalised(x, f"norm1{k}")
        q, key, v = (
            node(
                "Transpose",
                [
                    node(
                        "Reshape",
                        [node("MatMul", [flat, weight(f"w{p}{k}", width, width)], f"{p}{k}"), split],
                        f"{p}s{k}",
                    )
                ],
                f"{p}t{k}",
                perm=[0, 2, 3, 1] if p == "k" else [0, 2, 1, 3],
            )
            for p in ("q", "k", "v")
        )
        scores = node("Mul", [node("MatMul", [q, key], f"dot{k}"), factor], f"scores{k}")
        mixed = node("MatMul", [node("Softmax", [scores], f"shares{k}", axis=-1), v], f"mixed{k}")
        back = node("Reshape", [node("Transpose", [mixed], f"back{k}", perm=[0, 2, 1, 3]), joined], f"flat{k}")
        x = node("Add", [x, node("MatMul", [back, weight(f"wo{k}", width, width)], f"out{k}")], f"attended{k}")
        wide = node("MatMul", [normalised(x, f"norm2{k}"), weight(f"w1{k}", width, 4 * width)], f"wide{k}")
        narrow = node("MatMul", [node("Relu", [wide], f"relu{k}"), weight(f"w2{k}", 4 * width, width)], f"narrow{k}")
        x = node("Add", [x, narrow], f"layer{k}")
    node("ReduceMean", [x], "embedding", axes=[1], keepdims=0)
    inputs = [helper.make_tensor_value_info("ids", TensorProto.INT64, ["batch", "sequence"])]
    outputs = [helper.make_tensor_value_info("embedding", TensorProto.FLOAT, ["batch", width])]
    graph = helper.make_graph(nodes, "encoder", inputs, outputs, weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    return path
