"""Folders of models for tests of fleets: random ones, and hostile ones that must become rows and nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING

import onnx
from onnx import TensorProto, helper

from tests.random_onnx import random_model

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["HOSTILE", "save_hostile", "save_random"]

HOSTILE = 10  # models


def save_random(folder: Path, count: int) -> None:
    """Write `count` models, drawn from seeds 0, 1, ..."""
    folder.mkdir(parents=True, exist_ok=True)
    for seed in range(count):
        onnx.save(random_model(seed), folder / f"random{seed:03}.onnx")


def save_hostile(folder: Path) -> None:
    """Write HOSTILE models that are damaged, lie about sizes, or ask for more than there is."""
    folder.mkdir(parents=True, exist_ok=True)
    good = random_model(0).SerializeToString()
    contents = {
        "empty.onnx": b"",
        "text.onnx": b"this is no model\n" * 100,
        "cut.onnx": good[: len(good) // 2],
        "deep.onnx": _nested(5000),
        "endless.onnx": b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\x7f",
        "huge.onnx": _relu([1 << 40, 1 << 22]),
        "negative.onnx": _relu([-5, 3]),
        "outside.onnx": _outside(),
        "circle.onnx": _circle(),
        "flat.tflite": b"\x1c\x00\x00\x00TFL3" + b"\xff" * 64,
    }
    assert len(contents) == HOSTILE
    for name, content in contents.items():
        (folder / name).write_bytes(content)


def _nested(depth: int) -> bytes:
    """A graph in an attribute of a node of a graph, and so on."""
    content = b""
    for _ in range(depth):
        attribute = b"\x32" + _length(content) + content  # AttributeProto.g
        node = b"\x2a" + _length(attribute) + attribute  # NodeProto.attribute
        content = b"\x0a" + _length(node) + node  # GraphProto.node
    return b"\x08\x08" + b"\x3a" + _length(content) + content  # ModelProto.graph


def _length(content: bytes) -> bytes:
    number, made = len(content), bytearray()
    while number > 0x7F:
        made.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*made, number])


def _relu(shape: list[int]) -> bytes:
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", ends[:1], ends[1:])
    return bytes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]).SerializeToString())


def _outside() -> bytes:
    """A model whose weights are a file of the system."""
    model = onnx.load_from_string(_relu([4]))
    model.graph.node[0].input[0] = "w"
    tensor = model.graph.initializer.add(name="w", data_type=TensorProto.FLOAT, dims=[4])
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="../../../../etc/passwd")
    return bytes(model.SerializeToString())


def _circle() -> bytes:
    model = onnx.load_from_string(_relu([4]))
    del model.graph.node[:]
    model.graph.node.extend([helper.make_node("Add", ["x", "b"], ["y"]), helper.make_node("Relu", ["y"], ["b"])])
    return bytes(model.SerializeToString())
