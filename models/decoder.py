"""Small decoders with random weights, in the forms in which exporters write caches.

python models/decoder.py -o decoder.onnx [--form gqa]
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

__all__ = ["Form", "Sizes", "decoder"]

Form = Literal["concat", "concat_bsnh", "gqa", "attention"]


@dataclass(frozen=True)
class Sizes:
    """How large a decoder is."""

    layers: int = 2
    heads: int = 4
    groups: int = 2
    width: int = 8
    vocabulary: int = 40
    positions: int = 512


@dataclass
class _Builder:
    """Nodes and weights, made one after the other."""

    nodes: list[onnx.NodeProto] = field(default_factory=list)
    weights: list[onnx.TensorProto] = field(default_factory=list)
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(7))

    def op(self, kind: str, *inputs: str, name: str = "", outputs: int = 1, domain: str = "", **attributes: Any) -> str:
        names = [name or f"v{len(self.nodes)}", *(f"v{len(self.nodes)}_{k}" for k in range(1, outputs))]
        self.nodes.append(helper.make_node(kind, list(inputs), names, domain=domain, **attributes))
        return names[0]

    def constant(self, value: Any, dtype: Any = np.int64) -> str:
        name = f"c{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(value, dtype), name))
        return name

    def weight(self, *shape: int) -> str:
        return self.constant(self.rng.standard_normal(shape) * 0.5, np.float32)

    def size(self, value: str, axis: int) -> str:
        return self.op("Gather", self.op("Shape", value), self.constant(axis))


def decoder(
    form: Form = "concat", sizes: Sizes | None = None, *, mask: bool | Literal["pairs"] = True, positions: bool = False
) -> onnx.ModelProto:
    """A decoder as an ONNX model.

    Args:
        form: `concat` appends along the last axis but one of [batch, heads, t, width] caches, as transformers does;
            `concat_bsnh` along axis 1 of [batch, t, heads, width]; `gqa` has com.microsoft::GroupQueryAttention, and
            `attention` ONNX's own Attention with past and present.
        sizes: of the model.
        mask: whether there is an input `attention_mask` [batch, total]; with `pairs` it is [batch, 1, sequence, total],
            and is added to the scores (not with `gqa`).
        positions: whether there is an input `position_ids` [batch, sequence]; without it positions are rows.
    """
    s = sizes or Sizes()
    b = _Builder()
    wide = s.heads * s.width
    dim = "past"
    ids = helper.make_tensor_value_info("input_ids", TensorProto.INT64, ["batch", "sequence"])
    masked = helper.make_tensor_value_info("attention_mask", TensorProto.INT64, ["batch", "total"])
    if mask == "pairs":
        masked = helper.make_tensor_value_info("attention_mask", TensorProto.FLOAT, ["batch", 1, "sequence", "total"])
    inputs = [ids, masked] if mask else [ids]
    if positions:
        inputs.append(helper.make_tensor_value_info("position_ids", TensorProto.INT64, ["batch", "sequence"]))
    outputs: list[onnx.ValueInfoProto] = []
    count = b.size("input_ids", 1)
    rows = 1 if form == "concat_bsnh" else 2
    if form == "gqa":
        total = b.size("attention_mask", 1)
        past = b.op("Sub", total, count)
    else:
        past = b.size("past_key_values.0.key", rows)
        total = b.op("Add", past, count)
    numbers = b.op("Range", past, total, b.constant(1))
    x = b.op("Gather", b.weight(s.vocabulary, wide), "input_ids")
    x = b.op("Add", x, b.op("Gather", b.weight(s.positions, wide), "position_ids" if positions else numbers))
    bias = "attention_mask" if mask == "pairs" else ""
    if form != "gqa" and not bias:
        columns = b.op("Range", b.constant(0), total, b.constant(1))
        seen = b.op("LessOrEqual", columns, b.op("Unsqueeze", numbers, b.constant([1])))
        if mask:
            kept = b.op("Cast", "attention_mask", to=TensorProto.BOOL)
            seen = b.op("And", b.op("Unsqueeze", kept, b.constant([1, 2])), seen)
        bias = b.op("Where", seen, b.constant(0, np.float32), b.constant(-1e9, np.float32))
    for layer in range(s.layers):
        names = [f"past_key_values.{layer}.{kind}" for kind in ("key", "value")]
        nexts = [f"present.{layer}.{kind}" for kind in ("key", "value")]
        for value, listed, symbol in [(n, inputs, dim) for n in names] + [(n, outputs, "total") for n in nexts]:
            shape: list[str | int] = (
                ["batch", s.groups, symbol, s.width] if rows == 2 else ["batch", symbol, s.groups, s.width]
            )
            listed.append(helper.make_tensor_value_info(value, TensorProto.FLOAT, shape))
        flat = [b.op("MatMul", x, b.weight(wide, n * s.width)) for n in (s.heads, s.groups, s.groups)]
        if form == "gqa":
            made = _gqa(b, flat, names, nexts, s)
        elif form == "attention":
            made = _attention(b, flat, names, nexts, bias, s)
        else:
            made = _by_hand(b, flat, names, nexts, bias, s, rows)
        x = b.op("Add", x, b.op("MatMul", made, b.weight(wide, wide)))
    b.op("MatMul", x, b.weight(wide, s.vocabulary), name="logits")
    logits = helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", "sequence", s.vocabulary])
    graph = helper.make_graph(b.nodes, "decoder", inputs, [logits, *outputs], b.weights)
    version = 23 if form == "attention" else 17
    sets = [helper.make_opsetid("", version), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=sets, ir_version=10)


def _split(b: _Builder, value: str, heads: int, width: int) -> str:
    return b.op("Reshape", value, b.constant([0, 0, heads, width]))


def _by_hand(b: _Builder, flat: list[str], names: list[str], nexts: list[str], bias: str, s: Sizes, rows: int) -> str:
    """Attention in single operators, over caches that a Concat appends to."""
    query = b.op("Transpose", _split(b, flat[0], s.heads, s.width), perm=[0, 2, 1, 3])
    pair = []
    for value, past, present in zip(flat[1:], names, nexts, strict=True):
        new = _split(b, value, s.groups, s.width)
        if rows == 2:
            new = b.op("Transpose", new, perm=[0, 2, 1, 3])
        whole = b.op("Concat", past, new, name=present, axis=-2 if rows == 2 else 1)
        if rows == 1:
            whole = b.op("Transpose", whole, perm=[0, 2, 1, 3])
        pair.append(_repeated(b, whole, s, rows))
    score = b.op("MatMul", query, b.op("Transpose", pair[0], perm=[0, 1, 3, 2]))
    score = b.op("Add", b.op("Mul", score, b.constant(s.width**-0.5, np.float32)), bias)
    made = b.op("MatMul", b.op("Softmax", score, axis=-1), pair[1])
    return b.op("Reshape", b.op("Transpose", made, perm=[0, 2, 1, 3]), b.constant([0, 0, s.heads * s.width]))


def _repeated(b: _Builder, whole: str, s: Sizes, rows: int) -> str:
    """Keys or values for each head; with `rows` 2 as transformers repeats them."""
    if rows == 1:
        return b.op("Gather", whole, b.constant([k * s.groups // s.heads for k in range(s.heads)]), axis=1)
    apart = b.op("Unsqueeze", whole, b.constant([2]))
    each = b.op("Expand", apart, b.constant([1, 1, s.heads // s.groups, 1, 1]))
    return b.op("Reshape", each, b.constant([0, s.heads, -1, s.width]))


def _gqa(b: _Builder, flat: list[str], names: list[str], nexts: list[str], s: Sizes) -> str:
    counted = b.op("ReduceSum", "attention_mask", b.constant([1]), keepdims=0)
    last = b.op("Cast", b.op("Sub", counted, b.constant(1)), to=TensorProto.INT32)
    total = b.op("Cast", b.size("attention_mask", 1), to=TensorProto.INT32)
    outputs = [f"v{len(b.nodes)}", *nexts]
    b.nodes.append(
        helper.make_node(
            "GroupQueryAttention",
            [*flat, *names, last, total],
            outputs,
            domain="com.microsoft",
            num_heads=s.heads,
            kv_num_heads=s.groups,
        )
    )
    return outputs[0]


def _attention(b: _Builder, flat: list[str], names: list[str], nexts: list[str], bias: str, s: Sizes) -> str:
    outputs = [f"v{len(b.nodes)}", *nexts]
    b.nodes.append(
        helper.make_node("Attention", [*flat, bias, *names], outputs, q_num_heads=s.heads, kv_num_heads=s.groups)
    )
    return outputs[0]


def main() -> None:
    """Write a decoder into a file."""
    parser = argparse.ArgumentParser()
    parser.add_argument("-o", "--output", required=True)
    parser.add_argument("--form", choices=get_args(Form), default="concat")
    for name, value in vars(Sizes()).items():
        parser.add_argument(f"--{name}", type=int, default=value)
    args = vars(parser.parse_args())
    output, form = args.pop("output"), args.pop("form")
    onnx.save(decoder(form, Sizes(**args)), output)


if __name__ == "__main__":
    main()
