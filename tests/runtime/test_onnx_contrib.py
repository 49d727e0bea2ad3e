"""The rules for ONNX Runtime's own operators against what ONNX Runtime computes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from edgemem.formats import Bindings
from edgemem_converters.onnx.model import OnnxConverter
from edgemem_converters.onnx.rules import dims_of, onnxruntime_types

ort = pytest.importorskip("onnxruntime")

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray


# Operator, domain, inputs (None for an absent one), number of outputs, attributes.
Case: TypeAlias = tuple[str, str, Any, int, dict[str, Any]]


def f(*dims: int) -> NDArray[Any]:
    return np.random.default_rng(0).uniform(0.1, 1, dims).astype(np.float32)


def u(*dims: int, dtype: type = np.uint8) -> NDArray[Any]:
    return np.random.default_rng(0).integers(0, 100, dims).astype(dtype)


def i(*values: int, dtype: type = np.int64) -> NDArray[Any]:
    return np.array(values, dtype=dtype)


def scalar(value: Any, dtype: type = np.float32) -> NDArray[Any]:
    return np.array(value, dtype=dtype)


S, Z = scalar(0.1), scalar(3, np.uint8)
Z8 = scalar(0, np.int8)
MS, BLOCKS = "com.microsoft", "com.microsoft.nchwc"
WINDOW = {"kernel_shape": [3, 3], "pads": [1, 1, 0, 0], "strides": [2, 2]}
CASES: list[Case] = [
    *((op, MS, [f(2, 5, 8)], 1, {}) for op in ("Gelu", "FastGelu", "QuickGelu")),
    ("BiasGelu", MS, [f(2, 5, 8), f(8)], 1, {}),
    ("Inverse", MS, [f(2, 4, 4)], 1, {}),
    ("Trilu", MS, [f(3, 4, 4)], 1, {}),
    ("RotaryEmbedding", MS, [f(2, 5, 32), scalar([0]).astype(np.int64), f(9, 4), f(9, 4)], 1, {"num_heads": 4}),
    ("MoE", MS, [f(2, 5, 8), f(10, 4), f(4, 16, 8), f(4, 16), f(4, 8, 16), f(4, 8)], 1, {"k": 1}),
    ("SkipLayerNormalization", MS, [f(2, 5, 8), f(2, 5, 8), f(8), f(8), f(8)], 4, {}),
    ("SkipSimplifiedLayerNormalization", MS, [f(2, 5, 8), f(2, 5, 8), f(8)], 4, {}),
    ("LayerNormalization", "", [f(2, 5, 8), f(5, 8), f(5, 8)], 3, {"axis": 1}),
    ("SimplifiedLayerNormalization", "", [f(2, 5, 8), f(8)], 2, {"axis": -1}),
    ("FusedMatMul", MS, [f(2, 8, 5), f(8, 3)], 1, {"transA": 1}),
    ("FusedMatMul", MS, [f(2, 5, 8), f(2, 3, 8)], 1, {"transB": 1}),
    (
        "FusedMatMul",
        MS,
        [
            f(
                8,
            ),
            f(2, 8, 3),
        ],
        1,
        {},
    ),
    ("FusedMatMul", MS, [f(5, 2, 8), f(2, 8, 3)], 1, {"transBatchA": 1}),
    ("FusedMatMul", MS, [f(5, 6, 2, 8), f(3, 6, 2, 8)], 1, {"transBatchA": 1, "transBatchB": 1, "transB": 1}),
    ("TransposeMatMul", MS, [f(8, 5), f(3, 8)], 1, {"transA": 1, "transB": 1}),
    (
        "EmbedLayerNormalization",
        MS,
        [
            i(*[1] * 6, dtype=np.int32).reshape(2, 3),
            None,
            f(9, 8),
            f(5, 8),
            None,
            f(8),
            f(8),
            i(*[1] * 6, dtype=np.int32).reshape(2, 3),
        ],
        2,
        {},
    ),
    ("MatMulNBits", MS, [f(2, 5, 64), u(48, 2, 16), f(96)], 1, {"K": 64, "N": 48, "bits": 4, "block_size": 32}),
    ("CDist", MS, [f(4, 3), f(5, 3)], 1, {"metric": "euclidean"}),
    ("CropAndResize", MS, [f(1, 3, 9, 9), f(2, 4), i(0, 0, dtype=np.int32), i(4, 5, dtype=np.int32)], 1, {}),
    ("FusedConv", MS, [f(2, 4, 9, 9), f(6, 2, 3, 3), f(6)], 1, {"group": 2, "activation": "Relu", **WINDOW}),
    (
        "FusedConv",
        MS,
        [f(1, 4, 9, 9), f(6, 4, 3, 3)],
        1,
        {"auto_pad": "SAME_UPPER", "strides": [2, 2], "activation": "Relu"},
    ),
    ("FusedGemm", MS, [f(8, 5), f(3, 8), f(3)], 1, {"transA": 1, "transB": 1, "activation": "Relu"}),
    ("GridSample", MS, [f(2, 3, 9, 9), f(2, 4, 5, 2)], 1, {}),
    ("NhwcMaxPool", MS, [u(2, 9, 10, 4)], 1, {"kernel_shape": [3, 2], "pads": [1, 1, 0, 0], "strides": [2, 2]}),
    ("Pad", MS, [f(2, 3), i(1, 0, 2, 4), scalar(0)], 1, {}),
    ("Attention", MS, [f(2, 5, 8), f(8, 24), f(24)], 1, {"num_heads": 2}),
    ("Attention", MS, [f(2, 5, 8), f(8, 24), f(24), None, f(2, 2, 2, 7, 4)], 2, {"num_heads": 2}),
    ("Attention", MS, [f(2, 5, 8), f(8, 28), f(28)], 1, {"num_heads": 2, "qkv_hidden_sizes": [8, 8, 12]}),
    ("Attention", MS, [f(2, 5, 8), f(8, 24), f(24)], 2, {"num_heads": 2}),
    ("MultiHeadAttention", MS, [f(2, 5, 8), f(2, 7, 8), f(2, 7, 12)], 1, {"num_heads": 2}),
    ("MultiHeadAttention", MS, [f(2, 5, 8), f(2, 7, 8), f(2, 7, 12)], 3, {"num_heads": 2}),
    ("MultiHeadAttention", MS, [f(2, 5, 8), f(2, 2, 7, 4), f(2, 2, 7, 4)], 1, {"num_heads": 2}),
    (
        "MultiHeadAttention",
        MS,
        [f(2, 5, 8), f(2, 5, 8), f(2, 5, 8), None, None, None, f(2, 2, 6, 4), f(2, 2, 6, 4)],
        3,
        {"num_heads": 2},
    ),
    (
        "GroupQueryAttention",
        MS,
        [
            f(1, 5, 64),
            f(1, 5, 32),
            f(1, 5, 32),
            f(1, 2, 8, 16),
            f(1, 2, 8, 16),
            i(4, dtype=np.int32),
            scalar(5, np.int32),
        ],
        3,
        {"num_heads": 4, "kv_num_heads": 2},
    ),
    (
        "GroupQueryAttention",
        MS,
        [f(1, 5, 128), None, None, None, None, i(4, dtype=np.int32), scalar(5, np.int32)],
        3,
        {"num_heads": 4, "kv_num_heads": 2},
    ),
    ("QAttention", MS, [u(2, 5, 8), u(8, 24), f(24), S, S, None, Z, Z], 1, {"num_heads": 2}),
    ("QAttention", MS, [u(2, 5, 8), u(8, 24), f(24), S, S, None, Z, Z, f(2, 2, 2, 7, 4)], 2, {"num_heads": 2}),
    (
        "DynamicQuantizeLSTM",
        MS,
        [f(5, 2, 8), u(1, 8, 24), u(1, 6, 24), f(1, 48), None, None, None, None, f(1), u(1), f(1), u(1)],
        3,
        {"hidden_size": 6},
    ),
    ("DynamicQuantizeMatMul", MS, [f(2, 5, 8), u(8, 3), S, Z], 1, {}),
    ("MatMulInteger16", MS, [u(5, 8, dtype=np.int16), u(8, 3, dtype=np.int16)], 1, {}),
    ("MatMulIntegerToFloat", MS, [u(2, 5, 8), u(8, 3), S, S, Z, Z], 1, {}),
    ("QGemm", MS, [u(5, 8), S, Z, u(3, 8), S, Z, None, S, Z], 1, {"transB": 1}),
    ("QGemm", MS, [u(8, 5), S, Z, u(8, 3), S, Z], 1, {"transA": 1}),
    ("QLinearAdd", MS, [u(2, 1, 8), S, Z, u(5, 1), S, Z, S, Z], 1, {}),
    ("QLinearMul", MS, [u(2, 5, 8), S, Z, u(8), S, Z, S, Z], 1, {}),
    ("QLinearSigmoid", MS, [u(2, 5), S, Z, S, Z], 1, {}),
    ("QLinearLeakyRelu", MS, [u(2, 5), S, Z, S, Z], 1, {}),
    ("QLinearSoftmax", MS, [u(2, 5), S, Z, S, Z], 1, {"opset": 13, "axis": -1}),
    ("QLinearConcat", MS, [S, Z, u(2, 3, 4), S, Z, u(2, 5, 4), S, Z], 1, {"axis": 1}),
    ("QLinearConcat", MS, [S, Z, u(2, 3, 4), S, Z, u(2, 3, 1), S, Z], 1, {"axis": -1}),
    ("QLinearAveragePool", MS, [u(2, 4, 9, 9), S, Z, S, Z], 1, {"ceil_mode": 1, **WINDOW}),
    ("QLinearAveragePool", MS, [u(2, 9, 9, 4), S, Z, S, Z], 1, {"channels_last": 1, **WINDOW}),
    ("QLinearGlobalAveragePool", MS, [u(2, 4, 9, 9), S, Z, S, Z], 1, {}),
    ("QLinearGlobalAveragePool", MS, [u(2, 9, 9, 4), S, Z, S, Z], 1, {"channels_last": 1}),
    ("QLinearWhere", MS, [np.ones((2, 1, 1), dtype=np.bool_), u(5, 4), S, Z, u(4), S, Z, S, Z], 1, {}),
    ("QLinearConv", MS, [u(2, 9, 9, 4), S, Z, u(6, 4, 3, 3), S, Z, S, Z], 1, {"channels_last": 1, **WINDOW}),
    ("QuantizeLinear", MS, [f(2, 5), S, Z], 1, {}),
    ("QuantizeLinear", MS, [f(2, 5), S, Z8], 1, {}),
    ("DequantizeLinear", MS, [u(2, 5), S, Z], 1, {}),
    ("ReorderOutput", BLOCKS, [f(2, 16, 5, 6)], 1, {"channels": 11}),
    ("ReorderOutput", BLOCKS, [f(2, 16, 5, 6)], 1, {"channels": 11, "channels_last": 1}),
    ("ReorderInput", BLOCKS, [f(2, 32, 5, 6)], 1, {}),
    ("ReorderInput", BLOCKS, [f(2, 5, 6, 32)], 1, {"channels_last": 1}),
    ("Conv", BLOCKS, [f(2, 16, 9, 9), f(32, 16, 3, 3)], 1, {"kernel_shape": [3, 3], "strides": [2, 2]}),
    ("MaxPool", BLOCKS, [f(2, 16, 9, 9)], 1, WINDOW),
    ("AveragePool", BLOCKS, [f(2, 16, 9, 9)], 1, WINDOW),
    ("GlobalMaxPool", BLOCKS, [f(2, 16, 9, 9)], 1, {}),
    ("GlobalAveragePool", BLOCKS, [f(2, 16, 9, 9)], 1, {}),
    ("Upsample", BLOCKS, [f(2, 16, 4, 5)], 1, {"scales": [1, 1, 2, 3], "mode": "nearest"}),
]


# Without a kernel on the CPU.
INFERRED: list[Case] = [
    ("BiasAdd", MS, [f(2, 5, 8), f(8), f(2, 5, 8)], 1, {}),
    ("BiasSplitGelu", MS, [f(2, 5, 8), f(8)], 1, {}),
    ("GroupNorm", MS, [f(2, 4, 4, 8), f(8), f(8)], 1, {"groups": 2, "activation": 1}),
    ("MultiHeadAttention", MS, [f(2, 5, 2, 3, 4)], 1, {"num_heads": 2}),
    ("MultiHeadAttention", MS, [f(2, 5, 8), f(2, 7, 2, 2, 4)], 1, {"num_heads": 2}),
]


def model_of(op: str, domain: str, inputs: Any, count: int, attributes: dict[str, Any]) -> onnx.ModelProto:
    """A model of one node. Scalars and short lists of integers are constants, as exporters write them."""
    names = ["" if x is None else f"x{k}" for k, x in enumerate(inputs)]
    given = {n: x for n, x in zip(names, inputs, strict=True) if n}
    constant = {n for n, x in given.items() if x.ndim == 0 or (x.ndim == 1 and x.dtype.kind in "iu")}
    infos = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
        for n, x in given.items()
        if n not in constant
    ]
    outputs = [helper.make_empty_tensor_value_info(f"y{k}") for k in range(count)]
    if op.startswith("Skip"):
        outputs = [outputs[0], outputs[3]]  # ONNX Runtime computes no statistics there
    made = [o.name for o in outputs]
    node = helper.make_node(
        op, names, [f"y{k}" if f"y{k}" in made else "" for k in range(count)], domain=domain, **attributes
    )
    graph = helper.make_graph([node], "g", infos, outputs, [numpy_helper.from_array(given[n], n) for n in constant])
    imports = [helper.make_opsetid("", 14), helper.make_opsetid(MS, 1), helper.make_opsetid(BLOCKS, 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=8)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0])
def test_rules_give_what_is_computed(tmp_path: Path, case: Case) -> None:
    model = model_of(*case)
    options = ort.SessionOptions()
    options.log_severity_level = 4
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    feeds = {
        i.name: x for i, x in zip(model.graph.input, (case[2][int(i.name[1:])] for i in model.graph.input), strict=True)
    }
    results = session.run(None, feeds)
    path = tmp_path / "model.onnx"
    onnx.save(model, str(path))
    graph = OnnxConverter.open(path, Bindings()).graph()
    made = [(graph.tensors[k].dtype, graph.tensors[k].shape) for k in graph.outputs]
    assert made == [(str(r.dtype), r.shape) for r in results]


@pytest.mark.parametrize("case", INFERRED, ids=lambda case: case[0])
def test_rules_give_what_onnxruntimes_tool_infers(tmp_path: Path, case: Case) -> None:
    pytest.importorskip("sympy")
    model = model_of(*case)
    inferred = onnxruntime_types(model)
    path = tmp_path / "model.onnx"
    onnx.save(model, str(path))
    graph = OnnxConverter.open(path, Bindings()).graph()
    assert [list(graph.tensors[k].shape) for k in graph.outputs] == [dims_of(made) for made in inferred]
