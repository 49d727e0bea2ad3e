"""Attention without repeated keys and values gives the same bits; where the copies are read otherwise, they stay."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

from edgemem.formats import Bindings
from edgemem_converters.onnx.model import OnnxConverter
from edgemem_converters.onnx.scopes import op_type
from edgemem_converters.onnx.shared_heads import share_heads

KEYS = """ku = Unsqueeze (k, two)  ke = Expand (ku, repeats)  kr = Reshape (ke, merged)"""
VALUES = """vu = Unsqueeze (v, two)  ve = Expand (vu, repeats)  vr = Reshape (ve, merged)"""
EAGER = f"""{KEYS}  kt = Transpose <perm = [0, 1, 3, 2]> (kr)  a = MatMul (q, kt)  b = Mul (a, scale)  c = Add (b, mask)
            p = Softmax <axis = -1> (c)  {VALUES}  y = MatMul (p, vr)"""
SDPA = f"""{KEYS}  kt = Transpose <perm = [0, 1, 3, 2]> (kr)  ks = Mul (kt, scale)  qs = Mul (scale, q)
           a = MatMul (qs, ks)  c = Add (a, mask)  p = Softmax <axis = -1> (c)  {VALUES}  y = MatMul (p, vr)"""
DIVIDED = f"""{KEYS}  kt = Transpose <perm = [0, 1, 3, 2]> (kr)  qs = Div (q, scale)  a = MatMul (qs, kt)
              b = Div (a, scale)  c = Add (b, mask)  p = Softmax <axis = -1> (c)  {VALUES}  y = MatMul (p, vr)"""
LINEAR = f"""{KEYS}  kt = Transpose <perm = [0, 1, 3, 2]> (kr)  a = MatMul (q, kt)  b = Mul (a, scale)
             {VALUES}  y = MatMul (b, vr)"""
SIZES = {"B": 2, "S": 3, "T": 5}


def model(body: str, outputs: str = "float[B,6,S,8] y", repeats: int = 3) -> onnx.ModelProto:
    """Attention of 6 heads on 2 of keys and values, if they are repeated 3 times."""
    kept = 6 // repeats
    text = f"""<ir_version: 9, opset_import: ["" : 17]>
    g (float[B,6,S,8] q, float[B,{kept},T,8] k, float[B,{kept},T,8] v, float[S,T] mask) => ({outputs})
    <int64[1] two = {{2}}, int64[5] repeats = {{1, 1, {repeats}, 1, 1}}, int64[4] merged = {{0, 6, -1, 8}},
     int64[1] one = {{1}}, int64[5] tiles = {{1, {repeats}, 1, 1, 1}}, float scale = {{0.35}}> {{ {body} }}"""
    made = onnx.parser.parse_model(text)
    onnx.checker.check_model(made)
    return made


def shared(made: onnx.ModelProto) -> tuple[onnx.ModelProto, int]:
    """A copy of the model without repeated heads, and how many were."""
    graph = OnnxConverter.from_bytes(made.SerializeToString(), Bindings(SIZES)).graph()
    changed = onnx.ModelProto.FromString(made.SerializeToString())
    return changed, share_heads(changed.graph, {t.name: t.shape for t in graph.tensors})


def run(made: onnx.ModelProto, feeds: dict[str, Any], *, optimised: bool) -> list[Any]:
    options = onnxruntime.SessionOptions()
    level = onnxruntime.GraphOptimizationLevel
    options.graph_optimization_level = level.ORT_ENABLE_ALL if optimised else level.ORT_DISABLE_ALL
    options.log_severity_level = 4
    return list(onnxruntime.InferenceSession(made.SerializeToString(), options).run(None, feeds))


@pytest.mark.parametrize("optimised", [True, False])
@pytest.mark.parametrize("body", [EAGER, SDPA, DIVIDED, LINEAR])
def test_results_are_the_same_bit_for_bit(body: str, *, optimised: bool) -> None:
    """Optimised, too: ONNX Runtime makes one operator of a product and its factors in both models, or in none."""
    before = model(body)
    after, count = shared(before)
    onnx.checker.check_model(after)
    assert count == 2
    assert not {"Expand"} & {op_type(node) for node in after.graph.node}
    known = {value.name for value in before.graph.input}
    rng = np.random.default_rng(0)
    for batch, tokens, total in ((1, 1, 1), (1, 1, 77), (2, 5, 77), (1, 33, 130), (3, 64, 64)):
        forms = {
            "q": (batch, 6, tokens, 8),
            "k": (batch, 2, total, 8),
            "v": (batch, 2, total, 8),
            "mask": (tokens, total),
        }
        feeds = {name: rng.standard_normal(form, np.float32) for name, form in forms.items() if name in known}
        old, new = run(before, feeds, optimised=optimised), run(after, feeds, optimised=optimised)
        assert np.array_equal(old[0], new[0])
        assert np.ptp(old[0]) > 0


@pytest.mark.parametrize(
    ("body", "outputs", "repeats", "count"),
    [
        (EAGER, "float[B,6,S,8] y, float[B,6,T,8] kr", 3, 1),  # the copies are a result
        (EAGER, "float[B,6,S,8] y, float[B,2,3,T,8] ve", 3, 1),
        (EAGER, "float[B,6,S,8] y, float[B,6,S,T] a", 3, 2),  # the scores are: they get back the shape that they had
        (EAGER + "  z = Shape (ke)", "float[B,6,S,8] y, int64[5] z", 3, 1),
        (EAGER.replace("perm = [0, 1, 3, 2]> (kr)", "perm = [0, 1, 3, 2]> (kq)").replace("kt =", "kq = Relu (kr) kt ="),
         "float[B,6,S,8] y", 3, 1),
        (EAGER, "float[B,6,S,8] y", 1, 0),  # nothing is repeated
    ],
)  # fmt: skip
def test_copies_that_something_else_reads_stay(body: str, outputs: str, repeats: int, count: int) -> None:
    before = model(body, outputs, repeats)
    after, changed = shared(before)
    assert changed == count
    onnx.checker.check_model(after)
    rng = np.random.default_rng(1)
    kept = 6 // repeats
    forms = {"q": (2, 6, 4, 8), "k": (2, kept, 9, 8), "v": (2, kept, 9, 8), "mask": (4, 9)}
    feeds = {name: rng.standard_normal(form, np.float32) for name, form in forms.items()}
    for old, new in zip(run(before, feeds, optimised=False), run(after, feeds, optimised=False), strict=True):
        assert np.array_equal(old, new)


def test_copies_in_another_order_stay() -> None:
    """Heads that are repeated as 0 1 0 1 0 1 instead of 0 0 0 1 1 1."""
    made = model(EAGER.replace("(k, two)", "(k, one)").replace("(ku, repeats)", "(ku, tiles)"))
    after, count = shared(made)
    assert count == 1
    assert [node.output[0] for node in after.graph.node if op_type(node) == "Expand"] == ["ke"]
