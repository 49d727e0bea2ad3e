"""`plan` accepts what ONNX Runtime runs, and the sizes it plans with are those of ONNX Runtime's own values.

Every kind of model in `tests.onnx_kinds` is planned as it is, quantised in three ways, and as ONNX Runtime saves each
of these at its levels of optimisation. The oracle is ONNX Runtime itself, which returns every value of the main graph.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import pytest
from onnx import helper

import edgemem
from edgemem.errors import UnknownShapeError
from tests.onnx_kinds import KINDS, bert, feeds_for, llama

ort = pytest.importorskip("onnxruntime")
quantization = pytest.importorskip("onnxruntime.quantization")

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from numpy.typing import NDArray

DATA_DEPENDENT = ("ssdlite", "faster_rcnn")
LEVELS = {
    "basic": ort.GraphOptimizationLevel.ORT_ENABLE_BASIC,
    "extended": ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED,
    "all": ort.GraphOptimizationLevel.ORT_ENABLE_ALL,
}


def session(model: Path | bytes, level: Any = ort.GraphOptimizationLevel.ORT_DISABLE_ALL, save: str = "") -> Any:
    options = ort.SessionOptions()
    options.graph_optimization_level = level
    options.log_severity_level = 4
    if save:
        options.optimized_model_filepath = save
    source = model if isinstance(model, bytes) else str(model)
    return ort.InferenceSession(source, options, providers=["CPUExecutionProvider"])


def saved(path: Path, level: str) -> Path:
    """The model as ONNX Runtime writes it after its optimisation."""
    out = path.with_name(f"{path.stem}_{level}.onnx")
    session(path, LEVELS[level], str(out))
    return out


def values_of(path: Path, feeds: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Every value that the nodes of the main graph make, as ONNX Runtime computes them."""
    model = onnx.load(str(path))
    names = [n for node in model.graph.node for n in node.output if n]
    del model.graph.output[:]
    model.graph.output.extend(helper.make_empty_tensor_value_info(n) for n in names)
    run = session(model.SerializeToString()).run(names, dict(feeds))
    made = {n: v for n, v in zip(names, run, strict=True) if isinstance(v, np.ndarray | np.generic)}
    return {n: np.asarray(v) for n, v in made.items()} | dict(feeds)


def check(path: Path, dims: Mapping[str, int] | None = None) -> edgemem.PlanSet:
    """Plan the model, compare all records with ONNX Runtime's values, and give the plans back."""
    made = values_of(path, feeds_for(onnx.load(str(path)), dims))
    planset = edgemem.plan(path, strategy="greedy_by_size", dims=dims)
    wrong = []
    for record in planset.problem.records:
        sizes = {n: made[n].nbytes for n in record.tensors if n in made}
        blocked = any(n.startswith("reorder") for n in record.tensors)
        assert isinstance(record.size, int)
        for name, size in sizes.items():
            # Channels in blocks are planned for the largest blocks that there are.
            if record.size != size and not (blocked and size < record.size <= 2 * size):
                wrong.append((name, record.size, size))
    assert not wrong
    return planset


def quantised(path: Path, how: str) -> Path:
    out = path.with_name(f"{path.stem}_{how}.onnx")
    if how == "dynamic":
        quantization.quantize_dynamic(str(path), str(out), weight_type=quantization.QuantType.QUInt8)
        return out
    model = onnx.load(str(path))

    class Reader(quantization.CalibrationDataReader):  # type: ignore[misc,name-defined] # onnxruntime has no types
        def __init__(self) -> None:
            self.feeds: Iterator[Any] = iter([feeds_for(model)])

        def get_next(self) -> Any:
            return next(self.feeds, None)

    form = quantization.QuantFormat.QDQ if how == "qdq" else quantization.QuantFormat.QOperator
    quantization.quantize_static(str(path), str(out), Reader(), quant_format=form)
    return out


@pytest.fixture
def written(tmp_path: Path) -> Callable[[onnx.ModelProto], Path]:
    def write(model: onnx.ModelProto) -> Path:
        path = tmp_path / "model.onnx"
        onnx.save(model, str(path))
        return path

    return write


@pytest.mark.parametrize("level", ["", *LEVELS])
@pytest.mark.parametrize("kind", KINDS)
def test_sizes_are_those_of_onnxruntime(written: Callable[..., Path], kind: str, level: str) -> None:
    path = written(KINDS[kind]())
    planset = check(saved(path, level) if level else path)
    left = [why for _, why in planset.unplanned if "depends on the data" in why]
    assert bool(left) == (kind in DATA_DEPENDENT)


@pytest.mark.full
@pytest.mark.parametrize("level", ["", *LEVELS])
@pytest.mark.parametrize("how", ["qdq", "qoperator", "dynamic"])
@pytest.mark.parametrize("kind", ["convolutions", "bert", "audio"])
def test_quantised_models(written: Callable[..., Path], kind: str, how: str, level: str) -> None:
    path = quantised(written(KINDS[kind]()), how)
    assert not [why for _, why in check(saved(path, level) if level else path).unplanned if "depends" in why]


@pytest.mark.parametrize("level", ["", *LEVELS])
@pytest.mark.parametrize("make", [bert, llama])
def test_open_inputs_are_bound_by_their_own_flags_alone(
    written: Callable[..., Path], make: Callable[..., onnx.ModelProto], level: str
) -> None:
    path = written(make("batch", "length"))
    path = saved(path, level) if level else path
    with pytest.raises(UnknownShapeError, match=r"(?m): --dim batch=VALUE --dim length=VALUE$"):
        edgemem.plan(path)
    check(path, {"batch": 2, "length": 70})
