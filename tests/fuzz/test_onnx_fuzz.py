"""Damaged ONNX files: an error of edgemem's own, or success, and nothing else.

Bytes are cut off and flipped; beyond that, whole models are changed into ones that no exporter writes: other
operators, absurd axes and sizes, inputs taken away. onnx's C++ code crashes on some of those if they reach it.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import onnx
import pytest
from onnx import ModelProto, parser

from edgemem.errors import EdgememError, ModelError
from edgemem.formats import Bindings
from edgemem.plans import LowerBounds, PlanSet
from edgemem.records.lifetime import lifetimes
from edgemem.records.problem import Problem
from edgemem.targets import BUILT_IN
from edgemem_converters.onnx.model import OnnxConverter

if TYPE_CHECKING:
    from pathlib import Path

PLANSET = PlanSet(Problem([]), 0, LowerBounds(0, 0), (), ())
MODELS = [
    parser.parse_model(text)
    for text in (
        """<ir_version: 8, opset_import: ["" : 17]>
        g (bool c, float[N, 4] x) => (float[A, B] y) <float[1, 4] w = {1, 2, 3, 4}> {
          a = Mul (x, w)  n = Shape (x)  r = Reshape (x, n)  i = NonZero (r)
          y = If (c) <then_branch = t () => (float[C] o) { o = Add (x, w) },
                      else_branch = e () => (float[D] o) { o = Exp (x) }>
        }""",
        """<ir_version: 8, opset_import: ["" : 17, "mine" : 1]>
        g (float[N, 3] x, int64[2] s) => (float[A, B] last, float[C, D, E] all) <float[3] w = {1, 2, 3}> {
          trips = Constant <value_int = 6> ()  yes = Constant <value = bool {1}> ()  z = mine.f (x)
          last, all = Loop (trips, yes, z) <
            body = b (int64 i, bool go, float[P, Q] v) => (bool k, float[R, S] u, float[T, U] o)
            { k = Identity (go)  u = Exp (v)  o = Softmax <axis = 1> (v) }>
          p, q = Split <axis = 1> (x, s)  l = LayerNormalization <axis = 1> (x, w)
        }
        <domain: "mine", opset_import: ["" : 17]> f (v) => (w) { h = Add (v, v)  w = Transpose <perm = [0, 1]> (h) }""",
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[4] h, float[N, 3, 4] x, seq(float[2]) q) => (float[A] last, float[B, C] all, float[2] e) {
          last, all = Scan <num_scan_inputs = 1, scan_input_axes = [1], scan_output_axes = [1],
            body = b (float[4] s, float[2, 4] v) => (float[4] t, float[2, 4] o)
            { t = Identity (s)  o = Mul (v, s) }> (h, x)
          m = SequenceMap (q) <body = d (float[2] f) => (float[2] j) { j = Relu (f) }>
          zero = Constant <value_int = 0> ()  e = SequenceAt (m, zero)
          two = Constant <value_ints = [2]> ()  c = ConstantOfShape (two)  d = Dropout (x)
        }""",
    )
]
DIMS = [{"N": 2, "i.1": 8}, {"N": 2, "p.1": 1, "q.1": 2}, {"N": 2}]
EXTREMES = (0, 1, -1, 2, 3, -2, 65, 2**31 - 1, 2**31, 2**62, 2**63 - 1, -(2**63))
OPERATORS = sorted(s.name for s in onnx.defs.get_all_schemas() if s.domain == "")


def use(path: Path, number: int) -> str:
    """All that is done with a file that is or was model `number`; what came of it."""
    try:
        model = OnnxConverter.open(path, Bindings(DIMS[number]))
        model.plan()
        assert model.with_plan(b"plan", PLANSET).plan() == b"plan"
        graph = model.graph()
        lifetimes(graph, BUILT_IN["generic"])
        model.with_order(tuple(range(len(graph.ops))))
    except EdgememError as e:
        return type(e).__name__
    return "read"


@pytest.mark.parametrize("number", range(len(MODELS)))
def test_files_that_end_early(tmp_path: Path, number: int) -> None:
    path = tmp_path / "model.onnx"
    data = MODELS[number].SerializeToString()
    path.write_bytes(data)
    assert use(path, number) == "read"
    for end in range(0, len(data), 3):
        path.write_bytes(data[:end])
        use(path, number)


@pytest.mark.parametrize("number", range(len(MODELS)))
def test_flipped_bits(tmp_path: Path, number: int) -> None:
    path = tmp_path / "model.onnx"
    data = MODELS[number].SerializeToString()
    chance = random.Random(number)
    results = set()
    for _ in range(500):
        damaged = bytearray(data)
        for _ in range(chance.choice((1, 1, 2, 8))):
            damaged[chance.randrange(len(damaged))] ^= 1 << chance.randrange(8)
        path.write_bytes(damaged)
        results.add(use(path, number))
    assert {"ModelError", "read"} <= results


def change(model: ModelProto, chance: random.Random) -> None:
    """Make one thing in the model other than it should be."""
    nodes = [*model.graph.node, *(n for f in model.functions for n in f.node)]
    nodes += [n for node in model.graph.node for a in node.attribute for n in a.g.node]
    node = chance.choice(nodes)
    types = [v.type.tensor_type for v in model.graph.input]
    kind = chance.randrange(8)
    if kind == 0:
        node.op_type = chance.choice(OPERATORS)
    elif kind == 1 and node.attribute:
        attribute = chance.choice(node.attribute)
        attribute.i = chance.choice(EXTREMES)
        if attribute.ints:
            attribute.ints[chance.randrange(len(attribute.ints))] = chance.choice(EXTREMES)
    elif kind == 2 and node.attribute:
        del node.attribute[chance.randrange(len(node.attribute))]
    elif kind == 3 and node.input:
        names = [n for other in nodes for n in other.output]
        node.input[chance.randrange(len(node.input))] = chance.choice(("", *names))
    elif kind == 4 and node.input:
        del node.input[-1]
    elif kind == 5:
        node.input.append(chance.choice(model.graph.input).name)
    elif kind == 6:
        for dim in chance.choice(types).shape.dim[:1]:
            dim.dim_value = chance.choice(EXTREMES)
    else:
        chance.choice(types).elem_type = chance.randrange(28)


@pytest.mark.parametrize("number", range(len(MODELS)))
def test_models_that_make_no_sense(tmp_path: Path, number: int) -> None:
    path = tmp_path / "model.onnx"
    chance = random.Random(number)
    results = set()
    for _ in range(400):
        model = ModelProto()
        model.CopyFrom(MODELS[number])
        for _ in range(chance.choice((1, 2, 4))):
            change(model, chance)
        path.write_bytes(model.SerializeToString())
        results.add(use(path, number))
    assert {"ModelError", "read"} <= results


@pytest.mark.parametrize(
    "node",
    [
        'y = RegexFullMatch <pattern = "a"> ( )',
        "y = EyeLike ( )",
        "e = mine.Magic (x)  y = ai.onnx.ml.DictVectorizer <int64_vocabulary = [1]> (e)",
        "y = LayerNormalization <axis = 9223372036854775807> (x, x)",
        "y = Reshape (x, s)",
        "y = ConstantOfShape (s)",
    ],
)
def test_what_crashed_inference(tmp_path: Path, node: str) -> None:
    model = parser.parse_model(
        f"""<ir_version: 10, opset_import: ["" : 20, "mine" : 1, "ai.onnx.ml" : 3]>
        g (float[4] x, int64[2147483648] s) => (float[A] y) {{ {node} }}"""
    )
    if not model.graph.node[-1].input:
        model.graph.node[-1].input.append("")
    path = tmp_path / "model.onnx"
    path.write_bytes(model.SerializeToString())
    with pytest.raises(ModelError):
        OnnxConverter.open(path, Bindings()).graph()


def test_bodies_in_bodies_without_end(tmp_path: Path) -> None:
    """Deeper than protobuf reads, and as deep as it just does."""
    results = []
    for depth in (1000, 30, 10):
        data = onnx.GraphProto(name="inner").SerializeToString()
        for _ in range(depth):
            attribute = _field(1, b"then_branch") + _field(6, data)
            data = _field(1, _field(4, b"If") + _field(5, attribute))
        path = tmp_path / "model.onnx"
        path.write_bytes(_field(7, data) + _field(8, _field(1, b"") + bytes([16, 17])))
        results.append(use(path, 0))
    assert results[0] == "ModelError"


def _field(number: int, payload: bytes) -> bytes:
    length, size = b"", len(payload)
    while size >= 0x80:
        length += bytes([size & 0x7F | 0x80])
        size >>= 7
    return bytes([number << 3 | 2]) + length + bytes([size]) + payload
