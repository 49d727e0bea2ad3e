"""Single ONNX operators, as ONNX Runtime computes them, and numbers to give them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


onnx = pytest.importorskip("onnx")
ort = pytest.importorskip("onnxruntime")

__all__ = ["by_onnx", "numbers"]


def numbers(*shape: int, seed: int = 0) -> NDArray[np.float32]:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def by_onnx(
    kind: str, shape: Sequence[int], *inputs: NDArray[Any] | None, domain: str = "", **attributes: Any
) -> NDArray[np.float32]:
    """The one output of an ONNX operator, by ONNX Runtime without optimisations."""
    helper, proto = onnx.helper, onnx.TensorProto
    names = [f"i{k}" if value is not None else "" for k, value in enumerate(inputs)]
    node = helper.make_node(kind, names, ["out"], domain=domain, **attributes)
    given = {n: v for n, v in zip(names, inputs, strict=True) if v is not None}
    declared = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape) for n, v in given.items()
    ]
    made = proto.INT64 if kind.startswith("Arg") else proto.FLOAT
    graph = helper.make_graph([node], "one", declared, [helper.make_tensor_value_info("out", made, shape)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    (result,) = session.run(None, given)
    assert result.shape == tuple(shape)
    return np.asarray(result)
