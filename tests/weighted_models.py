"""Models whose weights ONNX Runtime packs in different ways, served with packed weights beside them."""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from edgemem.runtime.onnxruntime.file import opened
from edgemem.runtime.onnxruntime.recording import embed, record
from edgemem.runtime.onnxruntime.session import InferenceSession
from edgemem.runtime.onnxruntime.weights import note
from edgemem.runtime.onnxruntime.weights.packed_files import pack_beside
from tests.mapped_files import mapped_files
from tests.onnx_sessions import feeds, options, plain, same

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import pytest
    from numpy.typing import NDArray

__all__ = ["change_weights", "eight_bits", "four_bits", "packed", "products", "served", "warnings_of"]

_FLOAT: Final = TensorProto.FLOAT


def _network(nodes: list[Any], constants: dict[str, NDArray[Any]], width: int, out: str) -> bytes:
    values = [numpy_helper.from_array(value, name) for name, value in constants.items()]
    ends = [helper.make_tensor_value_info(name, _FLOAT, ["rows", width]) for name in ("x", out)]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], values)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return bytes(helper.make_model(graph, opset_imports=opsets, ir_version=9).SerializeToString())


def products(width: int = 512, layers: int = 4, *, seed: int = 0) -> bytes:
    """A stack of matrix products, whose weights ONNX Runtime packs."""
    rng = np.random.default_rng(seed)
    constants = {f"w{k}": rng.standard_normal((width, width), np.float32) / width**0.5 for k in range(layers)}
    names = ["x", *(f"y{k}" for k in range(layers))]
    nodes = [helper.make_node("MatMul", [names[k], f"w{k}"], [names[k + 1]]) for k in range(layers)]
    return _network(nodes, constants, width, names[-1])


def four_bits(width: int = 256) -> bytes:
    """Two products with weights of 4 bits (MatMulNBits)."""
    rng = np.random.default_rng(0)
    constants: dict[str, NDArray[Any]] = {}
    nodes = []
    for k in range(2):
        constants[f"w{k}"] = rng.integers(0, 256, (width, width // 32, 16), dtype=np.uint8)
        constants[f"s{k}"] = rng.random((width, width // 32), np.float32) / width
        form: dict[str, Any] = {"K": width, "N": width, "bits": 4, "block_size": 32, "accuracy_level": 4}
        names = ["x" if not k else f"y{k - 1}", f"w{k}", f"s{k}"]
        nodes.append(helper.make_node("MatMulNBits", names, [f"y{k}"], domain="com.microsoft", **form))
    return _network(nodes, constants, width, "y1")


def eight_bits(width: int = 256) -> bytes:
    """Two products with weights of 8 bits between QuantizeLinear and DequantizeLinear."""
    rng = np.random.default_rng(0)
    constants: dict[str, NDArray[Any]] = {"s": np.array(0.05, np.float32), "z": np.array(0, np.int8)}
    nodes, last = [], "x"
    for k in range(2):
        constants[f"w{k}"] = rng.integers(-127, 128, (width, width)).astype(np.int8)
        nodes += [
            helper.make_node("QuantizeLinear", [last, "s", "z"], [f"q{k}"]),
            helper.make_node("DequantizeLinear", [f"q{k}", "s", "z"], [f"d{k}"]),
            helper.make_node("DequantizeLinear", [f"w{k}", "s", "z"], [f"v{k}"]),
            helper.make_node("MatMul", [f"d{k}", f"v{k}"], [f"y{k}"]),
        ]
        last = f"y{k}"
    nodes += [
        helper.make_node("QuantizeLinear", [last, "s", "z"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["y"]),
    ]
    return _network(nodes, constants, width, "y")


def served(folder: Path, content: bytes) -> Path:
    """A model with the plan of a recording, and with packed weights beside it."""
    folder.mkdir(exist_ok=True)
    path = folder / "model.onnx"
    path.write_bytes(content)
    embed(path, (record(path, feeds(plain(path)), sess_options=options()),), path)
    pack_beside(path)
    return path


def packed(path: Path) -> tuple[Path, Path]:
    """The graph and the weights beside a model."""
    with opened(path) as (data, _):
        found = note.note_in(data)
    assert found is not None
    return found.files(path)


def warnings_of(path: Path, caplog: pytest.LogCaptureFixture, make: Callable[[], Any] = options, **kwargs: Any) -> str:
    """The warnings of a session with options that `make` gives, which must give the bits of a plain one.

    It maps packed weights, or there is one warning.
    """
    source = onnxruntime.InferenceSession(path, make(), providers=["CPUExecutionProvider"], **kwargs)
    values = feeds(source, seed=5)
    expected = source.run(None, values)
    caplog.clear()
    with caplog.at_level(logging.WARNING), InferenceSession(path, make(), **kwargs) as session:
        assert same(session.run(None, values), expected)
        assert bool(mapped_files()) == (not caplog.records)
    assert len(caplog.records) <= 1
    return caplog.text


def change_weights(path: Path) -> None:
    """Flip bits of weights in place, and give the file the times that it had."""
    status = path.stat()
    with path.open("r+b") as file:
        file.seek(status.st_size // 2)
        byte = file.read(1)
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte[0] ^ 0xFF]))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
