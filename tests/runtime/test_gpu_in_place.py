"""What the alias rules of GPUs let an operator overwrite, its kernel does overwrite, with ONNX Runtime's results."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import edgemem
from edgemem.errors import UnsupportedError
from edgemem.model.aliasing import RULES
from tests.webgpu_adapters import need_adapter

if TYPE_CHECKING:
    from pathlib import Path

_TABLE = {kind: places for kind, places in RULES["gpu"].in_place.items() if not kind.isupper()}  # those of ONNX
_UNARY = sorted(kind for kind, places in _TABLE.items() if places == (0,))
_BINARY = sorted(kind for kind, places in _TABLE.items() if places == (0, 1))
_SHAPE = (1, 6, 5, 4)  # channels that do not fill their slices
_OF_INTEGERS = ("BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitwiseNot")
_OF_TRUTH = ("And", "Or", "Xor", "Not")
_TRUTH = ("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual")
_WITHOUT_KERNEL = (
    *("Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Cosh", "Sinh", "Tan", "ThresholdedRelu"),
    "com.microsoft::QuickGelu",
)
_KINDS: dict[str, dict[str, Any]] = {"Cast": {"to": TensorProto.INT32}}
_MORE: dict[str, list[Any]] = {
    "PRelu": [np.full((6, 1, 1), 0.3, np.float32)],
    "Clip": [np.float32(0.2), np.float32(0.7)],
}


def _ran(
    nodes: list[Any], shapes: dict[str, tuple[int, ...]], constants: dict[str, Any], folder: Path
) -> tuple[float, int]:
    """The largest difference from ONNX Runtime, and how many operators ran in place; y is the output."""
    onnxruntime = pytest.importorskip("onnxruntime")
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in shapes.items()]
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, np.broadcast_shapes(*shapes.values()))
    held = [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()]
    graph = helper.make_graph(nodes, "net", inputs, [output], held)
    domains = [helper.make_opsetid("", 20), helper.make_opsetid("com.microsoft", 1)]
    file = folder / "net.onnx"
    file.write_bytes(helper.make_model(graph, opset_imports=domains, ir_version=9).SerializeToString())
    random = np.random.default_rng(3)
    feeds = {name: random.uniform(0.1, 1, shape).astype(np.float32) for name, shape in shapes.items()}
    with edgemem.GpuExecutor(str(file), storage="buffer", poison=True) as executor:
        (found,) = executor.run(None, feeds)
        in_place = executor.memory_report.details["in_place"]
    (expected,) = onnxruntime.InferenceSession(file).run(None, feeds)
    return float(np.abs(found - expected).max()), in_place


def _node(kind: str, reads: list[str], writes: str) -> Any:
    domain, _, name = kind.rpartition("::")
    return helper.make_node(name, reads, [writes], domain=domain, **_KINDS.get(kind, {}))


@pytest.mark.full
@pytest.mark.parametrize("kind", [k for k in _UNARY if k not in (*_OF_INTEGERS, *_OF_TRUTH, "Swish")])
def test_functions_of_one_tensor(kind: str, tmp_path: Path) -> None:
    need_adapter()
    constants = {f"c{k}": value for k, value in enumerate(_MORE.get(kind, []))}
    last = "c" if kind == "Cast" else "b"
    nodes = [helper.make_node("Abs", ["x"], ["a"]), _node(kind, ["a", *constants], "b")]
    if kind == "Cast":
        nodes.append(helper.make_node("Cast", ["b"], ["c"], to=TensorProto.FLOAT))
    nodes.append(helper.make_node("Neg", [last], ["y"]))
    if kind in _WITHOUT_KERNEL:
        with pytest.raises(UnsupportedError, match=f"1 thing without a kernel: .b. .{kind}"):
            _ran(nodes, {"x": _SHAPE}, constants, tmp_path)
        return
    difference, in_place = _ran(nodes, {"x": _SHAPE}, constants, tmp_path)
    assert difference < 1e-5
    assert in_place == (2 if kind == "Cast" else 1)


@pytest.mark.parametrize("shapes", [(_SHAPE, _SHAPE), (_SHAPE, (6, 1, 1)), ((1, 6, 1, 1), _SHAPE)], ids=str)
@pytest.mark.parametrize("kind", [k for k in _BINARY if k not in (*_OF_INTEGERS, *_OF_TRUTH)])
def test_functions_of_two_tensors(kind: str, shapes: tuple[tuple[int, ...], tuple[int, ...]], tmp_path: Path) -> None:
    need_adapter()
    nodes = [helper.make_node("Abs", [name], [name * 2]) for name in "xz"]
    nodes.append(_node(kind, ["xx", "zz"], "b"))
    last = "b"
    if kind in _TRUTH:
        nodes.append(helper.make_node("Cast", ["b"], ["c"], to=TensorProto.FLOAT))
        last = "c"
    nodes.append(helper.make_node("Neg", [last], ["y"]))
    difference, in_place = _ran(nodes, dict(zip("xz", shapes, strict=True)), {}, tmp_path)
    assert difference < 1e-5
    assert in_place == (2 if kind in _TRUTH else 1)
