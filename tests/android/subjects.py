"""Models that run on the stand-in for a device, with their inputs and what desktop ONNX Runtime makes of them."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from models.build import build
from tests.oracle.memory_plans.random_onnx import random_onnx
from tests.runtime.networks import feeds_of, fetched

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

__all__ = ["SUBJECTS", "Subject", "close", "equal", "make"]

Tensors = dict[str, "NDArray[Any]"]

# Another version of ONNX Runtime may add in another order, and so may the kernels of another processor. As a share of
# the largest value of the output.
TOLERANCE: Final = 1e-4


@dataclass(frozen=True, slots=True)
class Subject:
    """A model's file; the inputs of each run, and the outputs that desktop ONNX Runtime gave for them."""

    path: Path
    feeds: tuple[Tensors, ...]
    expected: tuple[Tensors, ...]


def _convolutions() -> onnx.ModelProto:
    """Four convolutions, a branch that is added again, and a pooling; small, and with scratch memory of kernels."""
    rng = np.random.default_rng(4)
    nodes, weights = [], []

    def convolution(x: str, y: str, into: int, out: int) -> str:
        name = f"w_{y}"
        values = (rng.standard_normal((out, into, 3, 3)) * (2 / (9 * into)) ** 0.5).astype(np.float32)
        weights.append(numpy_helper.from_array(values, name))
        nodes.append(helper.make_node("Conv", [x, name], [f"{y}_"], pads=[1, 1, 1, 1]))
        nodes.append(helper.make_node("Relu", [f"{y}_"], [y]))
        return y

    a = convolution("x", "a", 3, 8)
    b = convolution(a, "b", 8, 16)
    c = convolution(b, "c", 16, 8)
    nodes.append(helper.make_node("Add", [a, c], ["sum"]))
    d = convolution("sum", "d", 8, 5)
    nodes.append(helper.make_node("GlobalAveragePool", [d], ["y"]))
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 40, 56])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 5, 1, 1])
    graph = helper.make_graph(nodes, "convolutions", [x], [y], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def _built(model: onnx.ModelProto, folder: Path, name: str, dims: Sequence[Mapping[str, int]] = ({},)) -> Subject:
    path = folder / f"{name}.onnx"
    onnx.save(model, path)
    sizes = list(dims) * 3 if len(dims) == 1 else list(dims)
    return _subject(path, [feeds_of(path, dims=given, seed=seed) for seed, given in enumerate(sizes, 1)])


def _random(folder: Path, seed: int) -> Subject:
    path = folder / f"random{seed}.onnx"
    path.write_bytes(random_onnx(Random(seed), runs=True)[0])
    return _subject(path, [feeds_of(path, seed=k) for k in (1, 2, 3)])


def _real(name: str, shapes: Mapping[str, Sequence[int]] | None = None) -> Subject:
    path = fetched(name)
    return _subject(path, [feeds_of(path, shapes=shapes, seed=k) for k in (1, 2, 3)])


def _page(seed: int) -> NDArray[np.float32]:
    """A bright page with dark bars for letters, and noise: [1, 3, 96, 96]."""
    rng = np.random.default_rng(seed)
    page = np.full((1, 3, 96, 96), 1.5, np.float32)
    for top in range(16, 80, 20):
        for left in range(10, 86, 6):
            page[:, :, top : top + 12, left : left + int(rng.integers(2, 5))] = -1.5
    return page + 0.1 * rng.standard_normal(page.shape).astype(np.float32)


# Runs at three lengths, some of which were planned before.
_LENGTHS: Final = ({"T": 5}, {"T": 5}, {"T": 9}, {"T": 9}, {"T": 5}, {"T": 7})
SUBJECTS: Final[Mapping[str, Callable[[Path], Subject]]] = {
    "convolutions": lambda folder: _built(_convolutions(), folder, "convolutions"),
    "mobilenet_v2": lambda folder: _built(build("mobilenet_v2", size="small"), folder, "mobilenet_v2"),
    "transformer": lambda folder: _built(build("transformer", size="small"), folder, "transformer"),
    "branches": lambda folder: _built(build("branches", size="small"), folder, "branches"),
    "dynamic": lambda folder: _built(build("dynamic", size="small"), folder, "dynamic", _LENGTHS),
    "random 11": lambda folder: _random(folder, 11),
    "random 12": lambda folder: _random(folder, 12),
    "rapidocr_det": lambda _: _subject(fetched("rapidocr_det"), [{"x": _page(seed)} for seed in (1, 2, 3)]),
    "silero_vad": lambda _: _real("silero_vad", {"input": (1, 512), "state": (2, 1, 128)}),
    "magika": lambda _: _real("magika"),
}


def make(name: str, folder: Path) -> Subject:
    """A subject by name; the test is skipped where its model cannot be had."""
    return SUBJECTS[name](folder)


def _subject(path: Path, feeds: Sequence[Tensors]) -> Subject:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    expected = tuple(dict(zip(names, session.run(None, given), strict=True)) for given in feeds)
    for given in feeds:
        assert any(np.count_nonzero(array) for array in given.values())
    assert any(np.count_nonzero(array) for outputs in expected for array in outputs.values())
    return Subject(path, tuple(feeds), expected)


def equal(left: Sequence[Tensors], right: Sequence[Tensors]) -> bool:
    """Whether two lists of runs gave the same, bit for bit."""
    return len(left) == len(right) and all(
        a.keys() == b.keys() and all(_bits(a[n]) == _bits(b[n]) for n in a) for a, b in zip(left, right, strict=True)
    )


def _bits(array: NDArray[Any]) -> tuple[str, tuple[int, ...], bytes]:
    return str(array.dtype), array.shape, array.tobytes()


def close(left: Sequence[Tensors], right: Sequence[Tensors]) -> float:
    """The largest difference between two lists of runs, as a share of the output's largest value; inf if unlike."""
    worst = 0.0
    if len(left) != len(right):
        return float("inf")
    for a, b in zip(left, right, strict=True):
        if a.keys() != b.keys():
            return float("inf")
        for name, array in a.items():
            other = b[name]
            if array.dtype != other.dtype or array.shape != other.shape:
                return float("inf")
            if array.dtype.kind != "f":
                worst = max(worst, 0.0 if np.array_equal(array, other) else float("inf"))
            elif array.size:
                if not np.array_equal(np.isfinite(array), np.isfinite(other)):
                    return float("inf")
                finite = np.isfinite(other)
                largest = max(float(np.abs(other[finite]).max(initial=0)), 1e-30)
                worst = max(worst, float(np.abs(array[finite] - other[finite]).max(initial=0)) / largest)
    return worst
