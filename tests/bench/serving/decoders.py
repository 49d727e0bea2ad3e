"""A small language model whose KV cache grows by concatenation, with the names that exporters give."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["decoder"]


def decoder(path: Path, *, layers: int = 4, heads: int = 4, size: int = 32, vocabulary: int = 512) -> Path:
    """Write the model: `input_ids` [1, n] and `past.L.key|value` [1, heads, past, size] to `logits` and `present.L.*`.

    Each layer is attention over past and present without a mask, as in the step of one token, and a feed-forward pair.
    """
    rng = np.random.default_rng(0)
    width = heads * size
    made: dict[str, Any] = {"nodes": [], "weights": []}

    def weight(name: str, *shape: int) -> str:
        values = (rng.standard_normal(shape) / np.sqrt(shape[0])).astype(np.float32)
        made["weights"].append(numpy_helper.from_array(values, name))
        return name

    def constant(name: str, values: Any) -> str:
        made["weights"].append(numpy_helper.from_array(np.asarray(values), name))
        return name

    def node(kind: str, inputs: list[str], output: str, **attributes: Any) -> str:
        made["nodes"].append(helper.make_node(kind, inputs, [output], **attributes))
        return output

    split, joined = constant("split", [0, 0, heads, size]), constant("joined", [0, 0, width])
    scale = constant("scale", np.float32(size**-0.5))
    inputs = [helper.make_tensor_value_info("input_ids", TensorProto.INT64, [1, "sequence"])]
    outputs = [helper.make_tensor_value_info("logits", TensorProto.FLOAT, [1, "sequence", vocabulary])]
    x = node("Gather", [weight("embedding", vocabulary, width), "input_ids"], "embedded")
    for k in range(layers):
        parts = {}
        for part in ("q", "k", "v"):
            flat = node("MatMul", [x, weight(f"w{part}{k}", width, width)], f"{part}flat{k}")
            apart = node("Reshape", [flat, split], f"{part}split{k}")
            parts[part] = node("Transpose", [apart], f"{part}{k}", perm=[0, 2, 1, 3])
        for part, name in (("k", "key"), ("v", "value")):
            past, present = f"past.{k}.{name}", f"present.{k}.{name}"
            inputs.append(helper.make_tensor_value_info(past, TensorProto.FLOAT, [1, heads, "past", size]))
            outputs.append(helper.make_tensor_value_info(present, TensorProto.FLOAT, [1, heads, "total", size]))
            parts[part] = node("Concat", [past, parts[part]], present, axis=2)
        turned = node("Transpose", [parts["k"]], f"turned{k}", perm=[0, 1, 3, 2])
        scores = node("Mul", [node("MatMul", [parts["q"], turned], f"dot{k}"), scale], f"scores{k}")
        mixed = node("MatMul", [node("Softmax", [scores], f"shares{k}", axis=-1), parts["v"]], f"mixed{k}")
        flat = node("Reshape", [node("Transpose", [mixed], f"back{k}", perm=[0, 2, 1, 3]), joined], f"joined{k}")
        x = node("Add", [x, node("MatMul", [flat, weight(f"wo{k}", width, width)], f"out{k}")], f"added{k}")
        wide = node("Relu", [node("MatMul", [x, weight(f"w1{k}", width, 4 * width)], f"wide{k}")], f"relu{k}")
        x = node("Add", [x, node("MatMul", [wide, weight(f"w2{k}", 4 * width, width)], f"narrow{k}")], f"x{k}")
    node("MatMul", [x, weight("head", width, vocabulary)], "logits")
    graph = helper.make_graph(made["nodes"], "decoder", inputs, outputs, made["weights"])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path
