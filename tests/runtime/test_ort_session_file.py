"""What a session reads of a model file, and stored plans that were made to do harm."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from edgemem import planfile
from edgemem.errors import ModelError, PlanFileError
from edgemem.planfile.protobuf import encode_field, fields
from edgemem.runtime.onnxruntime.file import (
    PLAN_KEY,
    digest_later,
    model_digest,
    plans_in,
    with_plans,
)
from edgemem.runtime.onnxruntime.recording import embed, record
from edgemem.runtime.onnxruntime.session import InferenceSession
from edgemem.system.file_bytes import FileBytes
from tests.onnx_sessions import feeds, options, plain, same, small

if TYPE_CHECKING:
    from edgemem.plans import PlanSet

onnxruntime = pytest.importorskip("onnxruntime")


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> PlanSet:
    path = tmp_path_factory.mktemp("recorded") / "model.onnx"
    path.write_bytes(small("resnet18"))
    return record(path, sess_options=options())


def test_a_digest_computed_beside_the_caller_is_the_same(tmp_path: Path, recording: PlanSet) -> None:
    model = with_plans(small("resnet18"), (recording,))
    path = tmp_path / "model.onnx"
    path.write_bytes(model)
    assert digest_later(path).result() == digest_later(model).result() == model_digest(small("resnet18"))
    (tmp_path / "empty").write_bytes(b"")
    assert digest_later(tmp_path / "empty").result() == digest_later(tmp_path / "nobody").result() == model_digest(b"")


READ = """
import sys
from pathlib import Path
from edgemem.system.process_memory import peak_bytes, resident_bytes
from edgemem.runtime.onnxruntime.file import digest_later, opened, plans_in
from edgemem.runtime.onnxruntime.file_options import options_for_file
digest_later(sys.argv[1]).result()  # what code and stacks take
Path("/proc/self/clear_refs").write_text("5")
before = resident_bytes()
with opened(sys.argv[2]) as (data, _), options_for_file(data, None):
    assert plans_in(data) == ()
    digest = digest_later(sys.argv[2]).result()
print(peak_bytes() - before, digest)
"""


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="needs Linux's account of a process's pages")
def test_reading_a_model_file_keeps_little_of_it_in_memory(tmp_path: Path) -> None:
    tensor = encode_field(8, b"w") + encode_field(9, bytes(32 << 20))
    whole = encode_field(7, encode_field(5, tensor))
    for name, data in (("small", b""), ("large", whole)):
        (tmp_path / name).write_bytes(data)
    command = [sys.executable, "-c", READ, str(tmp_path / "small"), str(tmp_path / "large")]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    grown, digest = done.stdout.split()
    assert int(grown) <= 4 << 20
    assert digest == hashlib.sha256(whole).hexdigest()


@pytest.mark.parametrize("near", [1, 7, 1 << 12])
def test_a_file_is_parsed_as_its_bytes_are(tmp_path: Path, recording: PlanSet, near: int) -> None:
    """Also where a field begins in one of the pieces that are read, and ends in another."""
    model = with_plans(small("resnet18"), (recording,))
    path = tmp_path / "model.onnx"
    path.write_bytes(model)
    with path.open("rb") as file:
        for begin in range(0, len(model), max(len(model) // 50, 1)):
            assert FileBytes(file.fileno(), len(model))[begin : begin + near] == model[begin : begin + near]
        data = FileBytes(file.fileno(), len(model))
        assert [*fields(data, 0, len(data))] == [*fields(model, 0, len(model))]
        assert planfile.encode_all(plans_in(data)) == planfile.encode_all(plans_in(model))
        assert model_digest(data, tmp_path) == model_digest(model, tmp_path)
        os.truncate(path, 10)
        with pytest.raises(OSError, match="shorter"):
            model_digest(data, tmp_path)


def test_weights_are_not_searched_for_metadata_or_names_of_files() -> None:
    weights = b"location " + PLAN_KEY.encode() * 10
    tensor = TensorProto(name="w", dims=[len(weights)], data_type=TensorProto.UINT8, raw_data=weights)
    parsed = onnx.load_from_string(small("resnet18"))
    parsed.graph.initializer.append(tensor)
    model = parsed.SerializeToString()
    assert model_digest(model) == hashlib.sha256(model).hexdigest()


def test_the_digest_is_of_the_model_and_not_of_its_plans(recording: PlanSet) -> None:
    model = small("resnet18")
    parsed = onnx.load_from_string(model)
    entry = parsed.metadata_props.add()
    entry.key, entry.value = "edgemem.other", "AAAA"
    planned = with_plans(parsed.SerializeToString(), (recording,))
    assert model_digest(planned) == model_digest(model)
    entry.key = "author"
    assert model_digest(parsed.SerializeToString()) != model_digest(model)
    assert model_digest(b"no model") != model_digest(b"no Model")
    assert model_digest(small("unet")) != model_digest(model)


def test_onnx_reads_what_was_embedded(recording: PlanSet) -> None:
    model = small("resnet18")
    planned = with_plans(with_plans(model, (recording,)), (recording,))
    parsed = onnx.load_from_string(planned)
    assert [e.key for e in parsed.metadata_props].count(PLAN_KEY) == 1
    assert planfile.encode_all(plans_in(planned)) == planfile.encode(recording)
    assert plans_in(model) == ()
    assert plans_in(b"\xff\xff") == ()
    with pytest.raises(ModelError, match="the file is damaged"):
        with_plans(b"\xff\xff", (recording,))


def _written(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


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
    with InferenceSession(path, options(), cache=False, background=False, poison=True) as session:
        assert same(session.run(None, given), plain(path).run(None, given))
        assert session.memory.replayed == 1
    with (tmp_path / "weights.bin").open("ab") as file:
        file.write(b"\0")
    assert model_digest(path.read_bytes(), tmp_path) != before


def test_a_plan_that_is_no_base64_is_an_error() -> None:
    parsed = onnx.load_from_string(small("resnet18"))
    entry = parsed.metadata_props.add()
    entry.key, entry.value = PLAN_KEY, "not base64!"
    with pytest.raises(PlanFileError, match="damaged"):
        InferenceSession(parsed.SerializeToString(), options(), cache=False, background=False)


def test_a_model_in_onnx_runtimes_own_format(tmp_path: Path) -> None:
    path = tmp_path / "model.ort"
    chosen = options("BASIC")
    chosen.optimized_model_filepath = str(path)
    chosen.add_session_config_entry("session.save_model_format", "ORT")
    onnxruntime.InferenceSession(small("resnet18"), chosen)
    reference = plain(path)
    given = feeds(reference)
    with InferenceSession(path, options(), cache=tmp_path, background=False, poison=True) as session:
        for _ in range(3):
            assert same(session.run(None, given), reference.run(None, given))
        assert session.memory.replayed == 2
    with InferenceSession(path, options(), cache=tmp_path, background=False) as session:
        session.run(None, given)
        assert session.memory.replayed == 1


@pytest.mark.parametrize("content", [None, b"", b"\xff\xfe no model"])
def test_a_file_that_is_no_model_is_onnx_runtimes_error(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "model.onnx"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(Exception, match="ONNXRuntimeError"):
        InferenceSession(path, options(), cache=False, background=False)


@pytest.mark.parametrize("name", [b"\xff\xfe", b"w" * 300, b"..", b"weights", b"loop"])
def test_a_digest_of_a_model_with_any_name_of_a_weight_file(tmp_path: Path, name: bytes) -> None:
    (tmp_path / "loop").symlink_to("loop")
    digests = set()
    for key in (name, name + b"2"):
        entry = encode_field(13, encode_field(1, b"location") + encode_field(2, key))
        data = encode_field(7, encode_field(5, entry))
        digests |= {model_digest(data, tmp_path), model_digest(data, None)}
    assert len(digests) == 2
