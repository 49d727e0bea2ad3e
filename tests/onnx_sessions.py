"""ONNX models for tests that run them, with inputs: reference networks, fetched models, and graphs with a twist."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pytest
from onnx import TensorProto, helper

from models.build import build
from models.fetch import FetchError, fetch

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from numpy.typing import NDArray

__all__ = [
    "REAL",
    "Case",
    "branching",
    "feeds",
    "looping",
    "nonzero",
    "options",
    "plain",
    "real",
    "same",
    "small",
]

Feeds = dict[str, "NDArray[Any]"]

_DTYPES: Final = {"float": np.float32, "int64": np.int64, "int32": np.int32, "bool": np.bool_, "uint8": np.uint8}


@dataclass(frozen=True)
class Case:
    """How a fetched model is fed: sizes for open dimensions (by input and axis), and values for some inputs."""

    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    values: Mapping[str, Any] = field(default_factory=dict)


_SILERO: Final = Case({"input": (1, 576), "state": (2, 1, 128)}, {"sr": np.array(16000, np.int64)})
REAL: Final = {
    "silero_vad": _SILERO,
    "silero_vad_16k_op15": _SILERO,
    "silero_vad_half": _SILERO,
    "silero_vad_op18_ifless": _SILERO,
    "silero_vad_16k_sequence": Case({"audio_segments": (3, 576), "h": (1, 1, 128), "c": (1, 1, 128)}),
    "silero_vad_openvino_16k": Case(),
    "magika": Case({"bytes": (2, 2048)}),
    "basic_pitch_nmp_onnx": Case({"serving_default_input_2:0": (1, 43844, 1)}),
    "rapidocr_det": Case({"x": (1, 3, 96, 96)}),
    "rapidocr_rec": Case({"x": (1, 3, 48, 96)}),
    "rapidocr_cls": Case({"x": (2, 3, 48, 96)}),
    "light_squeezenet": Case(),
    "light_shufflenet": Case(),
    "light_inception_v2": Case(),
    "light_densenet121": Case(),
}


def small(name: str, *, batch: int | str = 1) -> bytes:
    """A reference network at its small size."""
    return bytes(build(name, size="small", batch=batch).SerializeToString())


def real(name: str) -> Path:
    """A fetched model's file; skips the test when it cannot be had."""
    try:
        return fetch(name)
    except FetchError as e:
        pytest.skip(str(e))


def options(level: str = "ALL", threads: int = 1) -> Any:
    """Session options at a graph optimisation level; errors alone are logged."""
    import onnxruntime

    made = onnxruntime.SessionOptions()
    name = "ORT_DISABLE_ALL" if level == "NONE" else f"ORT_ENABLE_{level}"
    made.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, name)
    made.intra_op_num_threads = threads
    made.log_severity_level = 4
    return made


def plain(model: bytes | Path, level: str = "ALL", threads: int = 1) -> Any:
    """A session of ONNX Runtime's own, with its default memory settings."""
    import onnxruntime

    return onnxruntime.InferenceSession(model, options(level, threads), providers=["CPUExecutionProvider"])


def feeds(session: Any, case: Case | None = None, *, batch: int = 2, seed: int = 0) -> Feeds:
    """Random inputs for a session, the same for the same seed; open dimensions are `batch` unless the case has them."""
    rng = np.random.default_rng(seed)
    case = case or Case()
    made: Feeds = {}
    for value in session.get_inputs():
        match = re.fullmatch(r"tensor\((\w+)\)", value.type)
        assert match is not None, value.type
        shape = case.shapes.get(value.name) or tuple(d if isinstance(d, int) and d > 0 else batch for d in value.shape)
        dtype = _DTYPES[match[1]]
        if value.name in case.values:
            made[value.name] = case.values[value.name]
        elif dtype == np.float32:
            made[value.name] = rng.standard_normal(shape, np.float32)
        elif dtype == np.bool_:
            made[value.name] = np.ones(shape, np.bool_)
        else:
            made[value.name] = rng.integers(0, 100, shape).astype(dtype)
    return made


def same(first: Any, second: Any) -> bool:
    """Whether two lists of outputs are equal bit for bit."""
    return len(first) == len(second) and all(
        a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
        for a, b in zip(first, second, strict=True)
    )


def branching() -> bytes:
    """y = f(x [64, 64]) by one of two branches of unequal length, chosen by `yes`; then two more operators."""
    float_ = TensorProto.FLOAT

    def branch(name: str, steps: int) -> Any:
        nodes = [
            helper.make_node("Softmax", ["x1" if k == 0 else f"{name}{k}"], [f"{name}{k + 1}"]) for k in range(steps)
        ]
        return helper.make_graph(nodes, name, [], [helper.make_tensor_value_info(f"{name}{steps}", float_, ("A", "B"))])

    nodes = [
        helper.make_node("MatMul", ["x", "x"], ["x1"]),
        helper.make_node("If", ["yes"], ["z"], then_branch=branch("t", 4), else_branch=branch("e", 1)),
        helper.make_node("MatMul", ["z", "x"], ["z1"]),
        helper.make_node("MatMul", ["z1", "x1"], ["y"]),
    ]
    return _model(nodes, {"x": (float_, (64, 64)), "yes": (TensorProto.BOOL, ())}, {"y": float_})


def looping() -> bytes:
    """y = x [64, 64] multiplied by itself `count` times in a Loop."""
    float_, int64 = TensorProto.FLOAT, TensorProto.INT64
    body = helper.make_graph(
        [
            helper.make_node("MatMul", ["v", "x"], ["w"]),
            helper.make_node("Softmax", ["w"], ["v_out"]),
            helper.make_node("Identity", ["go"], ["go_out"]),
        ],
        "body",
        [
            helper.make_tensor_value_info("i", int64, ()),
            helper.make_tensor_value_info("go", TensorProto.BOOL, ()),
            helper.make_tensor_value_info("v", float_, (64, 64)),
        ],
        [
            helper.make_tensor_value_info("go_out", TensorProto.BOOL, ()),
            helper.make_tensor_value_info("v_out", float_, (64, 64)),
        ],
    )
    nodes = [
        helper.make_node("MatMul", ["x", "x"], ["x1"]),
        helper.make_node("Loop", ["count", "", "x1"], ["z"], body=body),
        helper.make_node("MatMul", ["z", "x"], ["y"]),
    ]
    return _model(nodes, {"x": (float_, (64, 64)), "count": (int64, ())}, {"y": float_})


def nonzero() -> bytes:
    """y = the values of x [64, 64] at its non-zero places, added to themselves."""
    nodes = [
        helper.make_node("NonZero", ["x"], ["at"]),
        helper.make_node("Transpose", ["at"], ["places"]),
        helper.make_node("GatherND", ["x", "places"], ["values"]),
        helper.make_node("Exp", ["values"], ["e"]),
        helper.make_node("Add", ["values", "e"], ["y"]),
    ]
    return _model(nodes, {"x": (TensorProto.FLOAT, (64, 64))}, {"y": TensorProto.FLOAT})


def _model(nodes: Any, inputs: Mapping[str, tuple[int, tuple[int, ...]]], outputs: Mapping[str, int]) -> bytes:
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info(n, t, s) for n, (t, s) in inputs.items()],
        [helper.make_tensor_value_info(n, t, None) for n, t in outputs.items()],
    )
    return bytes(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()
    )
