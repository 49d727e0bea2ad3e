"""What a session reads of a model file, and stored plans that were made to do harm."""

from __future__ import annotations

import json
import struct
import zlib
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from edgemem.errors import InvalidPlanError, ModelError, PlanFileError
from edgemem.replay.recording import decode, encode
from edgemem.runtime.onnxruntime.file import TRACE_KEY, embedded, model_digest, with_embedded
from edgemem.runtime.onnxruntime.record import embed, record
from edgemem.runtime.onnxruntime.session import InferenceSession
from tests.onnx_sessions import feeds, options, plain, same, small

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

onnxruntime = pytest.importorskip("onnxruntime")

HEADER = struct.Struct("<4sIII")


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("stored") / "model.onnx"
    path.write_bytes(small("resnet18"))
    return encode((record(path, sess_options=options()),))


def test_the_digest_is_of_the_model_and_not_of_its_plans() -> None:
    model = small("resnet18")
    parsed = onnx.load_from_string(model)
    entry = parsed.metadata_props.add()
    entry.key, entry.value = "edgemem.plan", "AAAA"
    planned = with_embedded(parsed.SerializeToString(), b"plan")
    assert model_digest(planned) == model_digest(model)
    assert model_digest(with_embedded(planned, b"another plan")) == model_digest(model)
    entry.key = "author"
    assert model_digest(parsed.SerializeToString()) != model_digest(model)
    assert model_digest(b"no model") != model_digest(b"no Model")
    assert model_digest(small("unet")) != model_digest(model)


def test_onnx_reads_what_was_embedded() -> None:
    model = small("resnet18")
    planned = with_embedded(with_embedded(model, b"first"), b"second")
    parsed = onnx.load_from_string(planned)
    assert [e.key for e in parsed.metadata_props].count(TRACE_KEY) == 1
    assert embedded(planned) == b"second"
    assert embedded(model) is None
    assert embedded(b"\xff\xff") is None
    with pytest.raises(ModelError, match="no ONNX model"):
        with_embedded(b"\xff\xff", b"plan")


def test_weights_in_other_files_count_by_name_and_size(tmp_path: Path) -> None:
    weights = numpy_helper.from_array(np.ones((64, 64), np.float32), "w")
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y1"]), helper.make_node("MatMul", ["y1", "w"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (64, 64))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, (64, 64))],
        [weights],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path = tmp_path / "model.onnx"
    onnx.save(model, path, save_as_external_data=True, location="weights.bin", size_threshold=0)
    assert model_digest(path.read_bytes(), tmp_path) != model_digest(path.read_bytes(), tmp_path / "elsewhere")
    before = model_digest(path.read_bytes(), tmp_path)
    embed(path, (record(path, sess_options=options()),), path)
    assert model_digest(path.read_bytes(), tmp_path) == before
    given = feeds(plain(path))
    with InferenceSession(path, options(), cache=False, poison=True) as session:
        assert same(session.run(None, given), plain(path).run(None, given))
        assert session.memory.replayed == 1
    with (tmp_path / "weights.bin").open("ab") as file:
        file.write(b"\0")
    assert model_digest(path.read_bytes(), tmp_path) != before


def test_a_plan_that_is_no_base64_is_an_error() -> None:
    parsed = onnx.load_from_string(small("resnet18"))
    entry = parsed.metadata_props.add()
    entry.key, entry.value = TRACE_KEY, "not base64!"
    with pytest.raises(PlanFileError, match="damaged"):
        InferenceSession(parsed.SerializeToString(), options(), cache=False)


def forged(data: bytes, change: Callable[[Any], Any]) -> bytes:
    """The stored plans with another text and a right checksum."""
    _, _, _, length = HEADER.unpack_from(data)
    text = json.loads(data[HEADER.size : HEADER.size + length])
    changed = change(text)
    body = (changed if isinstance(changed, bytes) else json.dumps(changed or text).encode()) + data[
        HEADER.size + length :
    ]
    size = len(body) - len(data) + HEADER.size + length
    return HEADER.pack(b"EDGT", 1, zlib.crc32(body), size) + body


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text[0].update(events=10**18),
        lambda text: text[0].update(events=-1),
        lambda text: text[0].update(events=True),
        lambda text: text[0].update(heap=[]),
        lambda text: text[0].update(heap=[[0, 10**30]] * 9),
        lambda text: text[0]["heap"][0].__setitem__(1, 0),
        lambda text: text[0]["heap"][0].__setitem__(0, 0),
        lambda text: text[0]["heap"].append("x"),
        lambda text: text[0].update(bytes=10**12),
        lambda text: text[0].update(bytes=0),
        lambda text: text[0].pop("fingerprint"),
        lambda text: text[0]["fingerprint"].update(intra_threads="many"),
        lambda text: text[0]["fingerprint"]["signature"].update(inputs=[["x"]]),
        lambda text: text[0]["fingerprint"].update(signature=None),
        lambda text: text * 2,
        lambda _: {"a": 1},
        lambda _: b"[" * 100_000,
        lambda _: b"\xff\xfe",
        lambda _: b"[NaN]",
        lambda _: b"[]",
    ],
)
def test_forged_plans_are_refused(stored: bytes, change: Callable[[Any], Any]) -> None:
    with pytest.raises((PlanFileError, InvalidPlanError)):
        decode(forged(stored, change))


def test_the_forger_itself_is_right(stored: bytes) -> None:
    (plan,) = decode(forged(stored, lambda _: None))
    assert encode((plan,)) == stored


def test_a_model_in_onnx_runtimes_own_format(tmp_path: Path) -> None:
    path = tmp_path / "model.ort"
    chosen = options("BASIC")
    chosen.optimized_model_filepath = str(path)
    chosen.add_session_config_entry("session.save_model_format", "ORT")
    onnxruntime.InferenceSession(small("resnet18"), chosen)
    reference = plain(path)
    given = feeds(reference)
    with InferenceSession(path, options(), cache=tmp_path, poison=True) as session:
        for _ in range(3):
            assert same(session.run(None, given), reference.run(None, given))
        assert session.memory.replayed == 2
    with InferenceSession(path, options(), cache=tmp_path) as session:
        session.run(None, given)
        assert session.memory.replayed == 1


@pytest.mark.parametrize("content", [None, b"", b"\xff\xfe no model"])
def test_a_file_that_is_no_model_is_onnx_runtimes_error(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "model.onnx"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(Exception, match="ONNXRuntimeError"):
        InferenceSession(path, options(), cache=False)
