"""Nodes that no exporter writes, of every operator: onnx's C++ rules do not get those that crash them or never end."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from onnx import TensorProto, helper, parser

from edgemem_converters.onnx.model import OnnxConverter
from tests.fuzz.onnx_operators import search
from tests.onnx_child import read_in_child

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.full
def test_random_nodes() -> None:
    assert list(search(600, most=2500)) == []


@pytest.mark.full
@pytest.mark.parametrize(
    "node",
    [
        'y = Einsum <equation = "...kj-, ->AA"> (x, x)',
        'y = Einsum <equation = " >ik- "> (x)',
        'y = Einsum <equation = ">jj>,>"> (x, x)',
        "y = GatherND <batch_dims = -1> (x, i)",
        "y = GatherND <batch_dims = -9223372036854775808> (x, i)",
        "y, b, c, d = Split <num_outputs = 2> (x)",
        "y, b, c = Split <num_outputs = 0> (x)",
        "y = STFT (x, empty)",
        "y = GatherElements (one, far)",
        "y = GatherElements (i, far)",
    ],
)
def test_nodes_that_did_harm(tmp_path: Path, node: str) -> None:
    model = parser.parse_model(
        f"""<ir_version: 10, opset_import: ["" : 18]>
        g (float[2, 3, 4] x, int64[2, 2] i) => (float[A] y) {{ {node} }}"""
    )
    constants = {
        "empty": ([0], TensorProto.INT64, []),
        "one": ([1], TensorProto.INT64, [1]),
        "far": ([4], TensorProto.INT64, [2**40, 4, -3, 2**62]),
    }
    used = set(model.graph.node[0].input)
    model.graph.initializer.extend(helper.make_tensor(n, t, d, v) for n, (d, t, v) in constants.items() if n in used)
    path = tmp_path / "model.onnx"
    path.write_bytes(model.SerializeToString())
    assert read_in_child(path).startswith(("read", "ModelError", "UnknownShapeError"))


@pytest.mark.parametrize(
    ("equation", "shape"),
    [("bij,bjk->bik", (2, 3, 5)), ("...ij,...jk->...ik", (2, 3, 5)), ("bij,bjk", (3, 5)), ("bij,bjk->", ())],
)
def test_equations_that_are_right(equation: str, shape: tuple[int, ...]) -> None:
    model = parser.parse_model(
        f"""<ir_version: 10, opset_import: ["" : 18]>
        g (float[2, 3, 4] x, float[2, 4, 5] w) => (float y) {{ y = Einsum <equation = "{equation}"> (x, w) }}"""
    )
    model.graph.output[0].type.tensor_type.ClearField("shape")
    graph = OnnxConverter.from_bytes(model.SerializeToString()).graph()
    assert graph.tensors[graph.outputs[0]].shape == shape
