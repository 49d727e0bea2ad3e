"""What may share memory by `edgemem.model.aliasing`: ONNX Runtime gives the same bits in one place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto
from onnx import helper as make

from edgemem.model.aliasing import RULES

if TYPE_CHECKING:
    from numpy.typing import NDArray

ort = pytest.importorskip("onnxruntime")

RULE = RULES["elementwise"]
ONNX_OPS = sorted(op for op in RULE.in_place if onnx.defs.has(op))
VIEWS = sorted(op for op in RULE.views if onnx.defs.has(op))
BOOLEAN = {"And", "Not", "Or", "Xor"}
BITWISE = {"BitwiseAnd", "BitwiseNot", "BitwiseOr", "BitwiseXor"}
SHAPES = [(3, 7, 11), (1, 64, 1000)]  # no multiple of a vector's width; several blocks of a parallel loop
OPSET = 18


def values(op: str, shape: tuple[int, ...], seed: int) -> NDArray[Any]:
    rng = np.random.default_rng(seed)
    if op in BOOLEAN:
        return rng.random(shape) < 0.5
    if op in BITWISE:
        return rng.integers(-(2**31), 2**31 - 1, shape).astype(np.int32)
    return rng.uniform(0.05, 0.95, shape).astype(np.float32)


def node(op: str, inputs: list[str]) -> onnx.NodeProto:
    attributes: dict[str, Any] = {"to": TensorProto.INT32} if op == "Cast" else {}
    return make.make_node(op, inputs, ["y"], **attributes)


def check(op: str, feeds: dict[str, NDArray[Any]], position: int, threads: int) -> None:
    """Run the operator as usual, and again with its output bound to the place of one of its inputs."""
    names = list(feeds)
    infos = [
        make.make_tensor_value_info(n, onnx.helper.np_dtype_to_tensor_dtype(v.dtype), v.shape) for n, v in feeds.items()
    ]
    graph = make.make_graph([node(op, names)], "g", infos, [onnx.ValueInfoProto(name="y")])
    model = make.make_model(graph, opset_imports=[make.make_opsetid("", OPSET)], ir_version=8)
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    (expected,) = session.run(["y"], feeds)
    place = feeds[names[position]].copy()
    if expected.nbytes != place.nbytes:
        pytest.fail(f"{op} gives {expected.nbytes} bytes for {place.nbytes}")
    binding = session.io_binding()
    for k, (name, value) in enumerate(feeds.items()):
        source = place if k == position else value
        binding.bind_input(name, "cpu", 0, value.dtype.type, value.shape, source.ctypes.data)
    binding.bind_output("y", "cpu", 0, expected.dtype.type, expected.shape, place.ctypes.data)
    session.run_with_iobinding(binding)
    assert place.tobytes() == expected.tobytes()


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("op", ONNX_OPS)
def test_in_place(op: str, shape: tuple[int, ...], threads: int) -> None:
    positions = RULE.in_place[op]
    first = values(op, shape, 1)
    if positions == (0,):
        more: dict[str, dict[str, Any]] = {
            "PRelu": {"slope": values(op, shape[1:], 2)},
            "Clip": {"low": np.float32(0.2), "high": np.float32(0.7)},
        }
        check(op, {"x": first, **{n: np.asarray(v) for n, v in more.get(op, {}).items()}}, 0, threads)
        return
    others = [values(op, shape, 2), values(op, shape[-1:], 3), values(op, (), 4), values(op, (shape[1], 1), 5)]
    for other in others:
        check(op, {"a": first, "b": np.asarray(other)}, 0, threads)
        check(op, {"a": np.asarray(other), "b": first}, 1, threads)


@pytest.mark.parametrize("op", VIEWS)
def test_views(op: str) -> None:
    x = values(op, (1, 64, 1000), 1)
    axes = {"Reshape": [64000], "Squeeze": [0], "Unsqueeze": [0]}
    check(op, {"x": x} | ({"axes": np.array(axes[op], np.int64)} if op in axes else {}), 0, 1)
