"""Einsum on a GPU as a product of matrices: equations of attention, beside ONNX Runtime; others are refused."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from edgemem.errors import UnsupportedError
from edgemem.runtime.webgpu.executor import GpuExecutor

pytest.importorskip("wgpu")
ort = pytest.importorskip("onnxruntime")

SIZES: Final = {"b": 2, "h": 3, "w": 5, "c": 6, "k": 7, "i": 4}
EQUATIONS: Final = (
    "bhwc,hkc->bhwk",  # places relative to rows, in SAM
    "bhwc,wkc->bhwk",  # and to columns
    "bhic,bhkc->bhik",
    "bhik,bhkc->bhic",
    "bci,ck->bik",
    "ic, ck -> ik",
    "hc,hc->h",
    "hwk,k->hw",
)


def _model(equation: str, *, is_constant: bool) -> tuple[bytes, dict[str, Any]]:
    terms, made = equation.replace(" ", "").split("->")
    random = np.random.default_rng(len(equation))
    values = {
        name: random.standard_normal([SIZES[c] for c in term]).astype(np.float32)
        for name, term in zip("xy", terms.split(","), strict=True)
    }
    fed = {"x": values["x"]} if is_constant else values
    graph = helper.make_graph(
        [
            helper.make_node("Einsum", ["x", "y"], ["sums"], equation=equation),
            helper.make_node("Relu", ["sums"], ["z"]),
        ],
        "einsum",
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, v.shape) for n, v in fed.items()],
        [helper.make_tensor_value_info("z", TensorProto.FLOAT, [SIZES[c] for c in made])],
        [numpy_helper.from_array(v, n) for n, v in values.items() if n not in fed],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return bytes(onnx.shape_inference.infer_shapes(model).SerializeToString()), fed


@pytest.mark.parametrize("equation", EQUATIONS)
@pytest.mark.parametrize("is_constant", [False, True])
def test_sums_are_those_of_onnx_runtime(equation: str, is_constant: bool) -> None:
    model, feeds = _model(equation, is_constant=is_constant)
    (exact,) = ort.InferenceSession(model).run(None, feeds)
    assert exact.std() > 0.1
    for storage in ("buffer", "texture-linear"):
        with GpuExecutor(model, storage=storage, poison=True) as executor:
            (found,) = executor.run(None, feeds)
        np.testing.assert_allclose(found, exact, rtol=0, atol=1e-5 * np.abs(exact).max())


@pytest.mark.parametrize("equation", ["bhwc,wkc->bkhw", "bhwc,bhwk->ck", "bhw,hwk->bk"])
def test_other_orders_and_sums_are_refused(equation: str) -> None:
    with pytest.raises(UnsupportedError, match="Einsum of '"):
        GpuExecutor(_model(equation, is_constant=False)[0])
