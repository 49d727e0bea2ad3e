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

from edgemem.errors import ModelError
from edgemem.formats import Bindings
from edgemem_converters.onnx.model import OnnxConverter
from tests import extent
from tests.fuzz.onnx_files import BINDINGS, MODELS, change, use

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("number", range(len(MODELS)))
def test_files_that_end_early(tmp_path: Path, number: int) -> None:
    path = tmp_path / "model.onnx"
    data = MODELS[number].SerializeToString()
    path.write_bytes(data)
    assert use(path, BINDINGS[number]) == "read"
    for end in range(0, len(data), 3):
        path.write_bytes(data[:end])
        use(path, BINDINGS[number])


@pytest.mark.full
@pytest.mark.parametrize("number", range(len(MODELS)))
def test_flipped_bits(tmp_path: Path, number: int) -> None:
    path = tmp_path / "model.onnx"
    data = MODELS[number].SerializeToString()
    chance = random.Random(number)
    results = set()
    for _ in range(500 if extent.exhaustive else 200):
        damaged = bytearray(data)
        for _ in range(chance.choice((1, 1, 2, 8))):
            damaged[chance.randrange(len(damaged))] ^= 1 << chance.randrange(8)
        path.write_bytes(damaged)
        results.add(use(path, BINDINGS[number]))
    assert {"ModelError", "read"} <= results


@pytest.mark.full
@pytest.mark.parametrize("number", range(len(MODELS)))
def test_models_that_make_no_sense(tmp_path: Path, number: int) -> None:
    path = tmp_path / "model.onnx"
    chance = random.Random(number)
    results = set()
    for _ in range(400 if extent.exhaustive else 150):
        model = ModelProto()
        model.CopyFrom(MODELS[number])
        for _ in range(chance.choice((1, 2, 4))):
            change(model, chance)
        path.write_bytes(model.SerializeToString())
        results.add(use(path, BINDINGS[number]))
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
    try:
        graph = OnnxConverter.open(path, Bindings()).graph()
    except ModelError:
        return
    (made,) = (tensor for tensor in graph.tensors if tensor.name == "y")
    assert "left to the runtime" in made.note, "a size that nothing tells has no place"


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
        results.append(use(path, BINDINGS[0]))
    assert results[0] == "ModelError"


def _field(number: int, payload: bytes) -> bytes:
    length, size = b"", len(payload)
    while size >= 0x80:
        length += bytes([size & 0x7F | 0x80])
        size >>= 7
    return bytes([number << 3 | 2]) + length + bytes([size]) + payload
