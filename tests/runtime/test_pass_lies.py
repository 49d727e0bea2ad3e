"""Passes that lie about names, shapes, dtypes, values or the order of operators are caught.

`apply_pass` compares inputs and outputs; the trial of a candidate runs it beside the model in its runtime.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import edgemem
from edgemem.errors import EdgememError, NumericDifferenceError, PassError
from edgemem.formats import Bindings, Model, open_bytes
from edgemem.passes.fold_pass import FoldConstants
from edgemem.passes.order_pass import OrderOperators
from edgemem.passes.protocol import Guarantee, PassContext, apply_pass
from edgemem.passes.recompute.recompute_pass import RecomputeOperators
from edgemem.passes.streaming.stream_pass import StreamOperators
from edgemem.runtime.onnxruntime.optimise_pass import OptimiseGraph
from edgemem.runtime.onnxruntime.tile_pass import TileOperators
from edgemem.targets import BUILT_IN
from tests.row_models import RowNet

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path


def network(
    *,
    names: tuple[str, str, str] = ("x", "y", "z"),
    height: int = 12,
    elem: int = TensorProto.FLOAT,
    ends: int = 2,
    gain: float = 1.0,
    swapped: bool = False,
    sums: str = "left",
) -> Model:
    """Two outputs of one shape: sums of three convolutions, whose last bits depend on how they are added (`sums`)."""
    x, y, z = names
    rng = np.random.default_rng(0)
    weights = [
        numpy_helper.from_array((rng.standard_normal((4, 3, 3, 3)) * gain).astype(np.float32), f"w{k}")
        for k in range(3)
    ]
    nodes = [helper.make_node("Cast", [x], ["image"], to=TensorProto.FLOAT)]
    nodes += [helper.make_node("Conv", ["image", f"w{k}"], [f"c{k}"], name=f"conv{k}") for k in range(3)]
    first, second = (("c0", "c1", "c2"), ("c2", "c1", "c0"))[:: -1 if swapped else 1]
    for out, (a, b, c) in ((y, first), (z, second)):
        nodes.append(helper.make_node("Relu", [a], [f"{out}_r"]))
        pairs = [(f"{out}_r", b), (f"{out}_s", c)] if sums == "left" else [(b, c), (f"{out}_r", f"{out}_s")]
        nodes += [helper.make_node("Add", list(p), [made]) for p, made in zip(pairs, (f"{out}_s", out), strict=True)]
    given = [helper.make_tensor_value_info(x, elem, (1, 3, height, 10))]
    made = [helper.make_tensor_value_info(n, TensorProto.FLOAT, (1, 4, height - 2, 8)) for n in (y, z)]
    graph = helper.make_graph(nodes, "sums", given, made[:ends], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return open_bytes(model.SerializeToString(), ".onnx")


def rows(*, names: str = "", gain: int = 0, backwards: bool = False, int8: bool = True) -> bytes:
    """Convolutions and a sum; `gain` is added to the first bias."""
    net = RowNet(int8, np.random.default_rng(3))
    x = net.input(10, 8, 3)
    first = net.conv(x, 6, (3, 3), (1, 1), (1, 1), same=True, depthwise=False)
    second = net.conv(first, 1, (3, 3), (1, 1), (1, 1), same=True, depthwise=True) if int8 else net.unary("RELU", first)
    out = net.binary("ADD", first, second)
    net.tensors[out].name = f"out{names}"
    bias = net.buffers[2].data.view(np.int32 if int8 else np.float32)
    net.buffers[2].data = (bias + gain).astype(bias.dtype).view(np.uint8)
    if backwards:
        net.operators.reverse()
    return net.content([out])


def halves(seed: int = 3) -> bytes:
    """A sum with a float16 constant."""
    net = RowNet(int8=False, rng=np.random.default_rng(seed))
    x = net.input(6, 5, 3)
    return net.content([net.unary("TANH", net.binary("ADD", x, net.decompressed(x)))])


@dataclass(frozen=True, slots=True, eq=False)
class Liar:
    """A pass that gives another model than it promises."""

    model: Model

    name: ClassVar[str] = "liar"
    suffixes: ClassVar[frozenset[str]] = frozenset({".onnx", ".tflite"})
    requires: ClassVar[Mapping[str, str]] = {}
    guarantee: ClassVar[Guarantee] = Guarantee("identical", "it says so")

    def apply(self, _model: Model, _context: PassContext) -> Model:
        return self.model


@pytest.mark.parametrize(
    "lie",
    [
        {"names": ("X", "y", "z")},
        {"names": ("x", "y", "Z")},
        {"names": ("x", "z", "y")},
        {"height": 13},
        {"elem": TensorProto.FLOAT16},
        {"ends": 1},
    ],
    ids=str,
)
def test_other_inputs_or_outputs_of_an_onnx_model(lie: dict[str, Any], tmp_path: Path) -> None:
    context = PassContext(tmp_path / "m.onnx", tmp_path, Bindings(), BUILT_IN["onnxruntime"])
    assert apply_pass(Liar(network(gain=2)), network(), context)  # values are not compared here
    with pytest.raises(PassError, match=r"liar changed an (input|output)"):
        apply_pass(Liar(network(**lie)), network(), context)


def test_another_name_in_a_tflite_model(tmp_path: Path) -> None:
    context = PassContext(tmp_path / "m.tflite", tmp_path, Bindings(), BUILT_IN["tflm"])
    with pytest.raises(PassError, match="liar changed an output"):
        apply_pass(Liar(open_bytes(rows(names="2"), ".tflite")), open_bytes(rows(), ".tflite"), context)


def test_operators_that_run_before_what_they_read(tmp_path: Path) -> None:
    context = PassContext(tmp_path / "m.tflite", tmp_path, Bindings(), BUILT_IN["tflm"])
    with pytest.raises(EdgememError, match="before"):
        apply_pass(Liar(open_bytes(rows(backwards=True), ".tflite")), open_bytes(rows(), ".tflite"), context)


def _lies_with(monkeypatch: pytest.MonkeyPatch, kind: type, make: Callable[[], Model]) -> None:
    monkeypatch.setattr(kind, "apply", lambda _self, _model, _context: make())


@pytest.mark.parametrize("lie", [{"gain": 1.0001}, {"swapped": True}, {"sums": "right"}], ids=str)
def test_other_values_in_onnx_runtime(lie: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Even the last bits, from a pass that promises them."""
    pytest.importorskip("onnxruntime")
    path = tmp_path / "m.onnx"
    path.write_bytes(network().content())
    _lies_with(monkeypatch, OrderOperators, lambda: network(**lie))
    with pytest.raises(PassError, match="all its steps keep every bit"):
        edgemem.shrink(path, steps="order", outputs="close")


@pytest.mark.parametrize("kind", [OptimiseGraph, TileOperators])
def test_values_farther_than_levels_of_onnx_runtime_are_from_each_other(
    kind: type, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("onnxruntime")
    path = tmp_path / "m.onnx"
    path.write_bytes(network().content())
    _lies_with(monkeypatch, kind, lambda: network(gain=1.0001))
    with pytest.raises((NumericDifferenceError, PassError), match="differs by up to"):
        edgemem.shrink(path, steps="optimize=extended" if kind is OptimiseGraph else "optimize=none,tile=0:1:2x1")


STEPS = {
    "fold": FoldConstants,
    "order": OrderOperators,
    "stream=0:1:2": StreamOperators,
    "recompute": RecomputeOperators,
}


@pytest.mark.parametrize("steps", STEPS)
def test_other_values_in_tensorflow_lite_micro(steps: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("tflite_micro")
    path = tmp_path / "m.tflite"
    path.write_bytes(rows())
    _lies_with(monkeypatch, STEPS[steps], lambda: open_bytes(rows(gain=200), ".tflite"))
    with pytest.raises(PassError, match="outputs in TensorFlow Lite Micro differ"):
        edgemem.shrink(path, steps=steps)


def test_other_values_of_a_model_whose_constants_micro_cannot_decompress(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("tflite_micro")
    path = tmp_path / "m.tflite"
    path.write_bytes(halves())
    assert edgemem.shrink(path, steps="fold").chosen.outputs == "identical to those with plain constants"
    _lies_with(monkeypatch, OrderOperators, lambda: open_bytes(halves(seed=4), ".tflite").folded())  # type: ignore[attr-defined]
    with pytest.raises(PassError, match="outputs in TensorFlow Lite Micro differ"):
        edgemem.shrink(path, steps="fold,order")


@pytest.mark.parametrize("int8", [True, False])
def test_other_values_in_litert(int8: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Float kernels may round otherwise in other blocks, and no more than that is taken for it."""
    pytest.importorskip("ai_edge_litert")
    path = tmp_path / "m.tflite"
    path.write_bytes(rows(int8=int8))
    _lies_with(monkeypatch, OrderOperators, lambda: open_bytes(rows(int8=int8, gain=200 if int8 else 1), ".tflite"))
    with pytest.raises(PassError, match="outputs in LiteRT differ by"):
        edgemem.shrink(path, steps="order", target="litert", outputs="close")
