"""Packed weights beside a model: sessions map them, give the bits of a plain session, and use no others."""

from __future__ import annotations

import json
import logging
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Final

import numpy as np
import onnx
import pytest
from click.testing import CliRunner, Result
from onnx import TensorProto, helper
from onnx.numpy_helper import from_array

from edgemem.cli.main import main
from edgemem.errors import ModelError
from edgemem.report.sizes import size_text
from edgemem.runtime.onnxruntime import file_recording
from edgemem.runtime.onnxruntime.baked_file import bake
from edgemem.runtime.onnxruntime.file import WEIGHTS_KEY, metadata_of
from edgemem.runtime.onnxruntime.session import InferenceSession
from edgemem.runtime.onnxruntime.weights import packed_files
from edgemem.runtime.onnxruntime.weights.packed_files import pack_beside
from edgemem_converters.onnx.model import OnnxConverter
from tests.mapped_files import mapped_files
from tests.onnx_sessions import feeds, options, plain, same, small
from tests.weighted_models import change_weights, eight_bits, four_bits, packed, products, served, warnings_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

onnxruntime = pytest.importorskip("onnxruntime")

MODELS: Final[dict[str, Callable[[], bytes]]] = {
    "convolutions": lambda: small("resnet18"),
    "products": products,
    "int4": four_bits,
    "int8": eight_bits,
    "transformer": lambda: small("transformer"),
}


def edgemem(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(a) for a in arguments])


@pytest.mark.parametrize("name", MODELS)
def test_a_session_maps_packed_weights_and_gives_the_same_bits_inside_the_plan_of_the_plain_model(
    name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    content = MODELS[name]()
    path = served(tmp_path / "served", content)
    source = plain(content)
    values = feeds(source, seed=3)
    expected = source.run(None, values)
    given = options()
    before = given.graph_optimization_level, given.execution_order
    with caplog.at_level(logging.WARNING), InferenceSession(path, given, record="never", poison=True) as session:
        for _ in range(2):
            assert same(session.run(None, values), expected)
        assert mapped_files()
        assert not caplog.records
        assert (session.memory.replayed, session.memory.bails) == (2, 0)
        origin = session.memory_report.origin
        assert origin is not None
        assert origin.source == "file"
    assert (given.graph_optimization_level, given.execution_order) == before


def test_a_baked_file_keeps_its_order_and_its_plan(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    source = tmp_path / "model.onnx"
    source.write_bytes(small("resnet18"))
    bake(source, tmp_path / "baked.onnx", "all")
    path = served(tmp_path / "served", (tmp_path / "baked.onnx").read_bytes())
    assert warnings_of(path, caplog) == ""
    with InferenceSession(path, options(), record="never") as session:
        session.run(None, feeds(session))
        assert (session.memory.replayed, session.memory.bails) == (1, 0)


def test_weights_in_other_files_are_packed_and_their_changes_are_seen(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    model = onnx.load_from_string(products())
    path = tmp_path / "model.onnx"
    onnx.save(model, path, save_as_external_data=True, location="plain.data", size_threshold=1024)
    pack_beside(path)
    assert warnings_of(path, caplog) == ""
    data = bytearray((tmp_path / "plain.data").read_bytes())
    data[4096:8192] = bytes(4096)  # as large as before
    (tmp_path / "plain.data").write_bytes(data)
    assert "not what packing the model gives here" in warnings_of(path, caplog)


def test_weights_of_bodies_in_other_files_are_refused(tmp_path: Path) -> None:
    """Sessions would not see that they change."""
    weights = np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32)
    value = helper.make_tensor_value_info
    bodies = {}
    for name in ("then", "else"):
        node, end = helper.make_node("MatMul", ["x", f"{name}_w"], [f"{name}_y"]), value(f"{name}_y", 1, ["n", 64])
        bodies[f"{name}_branch"] = helper.make_graph([node], name, [], [end], [from_array(weights, f"{name}_w")])
    ends = [value("x", TensorProto.FLOAT, ["n", 64]), value("c", TensorProto.BOOL, []), value("y", 1, ["n", 64])]
    graph = helper.make_graph([helper.make_node("If", ["c"], ["y"], **bodies)], "g", ends[:2], ends[2:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    path = tmp_path / "model.onnx"
    onnx.save(model, path)
    pack_beside(path)
    onnx.save(model, path, save_as_external_data=True, location="plain.data", size_threshold=1024)
    with pytest.raises(ModelError, match=r"'plain\.data', which packed weights are not compared with"):
        pack_beside(path)


@pytest.mark.parametrize("name", ["m\u00fc \u2603 'b", ".hidden", "a:b\\c"])
def test_a_model_may_have_any_name(name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / f"{name}.onnx"
    path.write_bytes(products(width=64, layers=1))
    for _ in range(2):  # the second removes no file of its own
        pack_beside(path)
    assert warnings_of(path, caplog) == ""
    assert len(list(tmp_path.glob("*.weights"))) == 1


def test_constants_of_any_size_lie_where_vectors_may_be_read(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = served(tmp_path / "served", products(width=129))
    graph, _ = packed(path)
    places = []
    for tensor in onnx.load(graph, load_external_data=False).graph.initializer:
        entries = {entry.key: entry.value for entry in tensor.external_data}
        places.append(int(entries.pop("offset")))
        packed_parts = [part for key, value in entries.items() if key != "location" for part in value.split("|")[1:]]
        places += [int(part.split(";")[0]) for part in packed_parts]
    assert len(places) == 8, "four constants, plain and packed"
    assert not [place for place in places if place % 64]
    assert warnings_of(path, caplog) == ""


def test_what_was_packed_here_is_not_packed_again(
    path: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture, packings: list[Path]
) -> None:
    assert warnings_of(path, caplog) == ""
    for file in (path, *packed(path)):  # other files with the same bytes: they are read once more
        shutil.copy(file, tmp_path / "copy")
        (tmp_path / "copy").replace(file)
    assert warnings_of(path, caplog) == ""
    moved = tmp_path / "moved"
    moved.mkdir()
    for file in (path, *packed(path)):
        shutil.copy(file, moved)
    (moved / path.name).rename(moved / "other.onnx")
    assert warnings_of(moved / "other.onnx", caplog) == ""
    assert packings == []


def test_a_check_is_remembered_only_where_nobody_else_can_write(
    path: Path,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    packings: list[Path],
) -> None:
    entries = list((tmp_path / "cache" / "weights").iterdir())
    assert entries
    for entry in entries:
        entry.chmod(0o666)
    assert warnings_of(path, caplog) == ""
    assert len(packings) == 1
    assert warnings_of(path, caplog) == ""
    assert len(packings) == 1, "the check has made entries of its own"
    monkeypatch.setenv("EDGEMEM_CACHE", str(path / "no folder"))  # nothing can be remembered there
    for count in (2, 3):
        assert warnings_of(path, caplog) == ""
        assert len(packings) == count


def test_the_command_packs_and_verify_packs_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    source, path = tmp_path / "source.onnx", tmp_path / "model.onnx"
    source.write_bytes(small("resnet18"))
    done = edgemem("plan", source, "--weights", "mapped", "-o", path)
    assert done.exit_code == 0, done.output
    size = sum(f.stat().st_size for f in packed(path))
    assert f"weights packed: {size_text(size)} on disk" in done.output
    assert warnings_of(path, caplog) == ""
    done = edgemem("verify", "--json", path)
    assert done.exit_code == 0, done.output
    assert [leg["checked"] for leg in json.loads(done.stdout)["legs"] if leg["leg"] == "weights"]
    with monkeypatch.context() as patch:
        patch.setattr(onnxruntime, "__version__", f"{onnxruntime.__version__}+other")
        done = edgemem("verify", "--json", path)
    assert done.exit_code == 0
    assert any("the packed weights: " in text for text in json.loads(done.stdout)["not_checked"])
    change_weights(packed(path)[1])
    done = edgemem("verify", "--json", path)
    assert done.exit_code == 4
    assert [v["cause"] for v in json.loads(done.stdout)["violations"]] == ["different_weights"]
    assert edgemem("plan", path, "-o", path).exit_code == 0
    assert not metadata_of(path.read_bytes(), (WEIGHTS_KEY,)), "a plan without packed weights names none"


def test_a_recording_that_fails_leaves_the_old_model_with_its_packed_weights(
    path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    before = {file.name: file.read_bytes() for file in path.parent.iterdir() if file.is_file()}
    source = path.with_name("source.onnx")
    source.write_bytes(products(seed=1))

    def fail(*_: object, **__: object) -> None:
        raise ModelError("no recording")

    monkeypatch.setattr(file_recording, "add_recording", fail)
    done = edgemem("plan", source, "--dim", "rows=1", "--record", "--weights", "mapped", "-o", path)
    assert "no recording" in done.output
    source.unlink()
    assert {file.name: file.read_bytes() for file in path.parent.iterdir() if file.is_file()} == before
    assert warnings_of(path, caplog) == ""


def test_packing_that_fails_leaves_no_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(products())

    def refuse(*_: object) -> None:
        raise OSError("no space")

    monkeypatch.setattr(packed_files, "atomic_write", refuse)
    with pytest.raises(ModelError, match="no space"):
        pack_beside(path)
    assert {file.name for file in tmp_path.iterdir()} <= {"model.onnx", "cache"}


def test_a_changed_graph_names_no_packed_weights() -> None:
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [4]) for name in "xy"]
    nodes = [helper.make_node(kind, ["x"], [kind]) for kind in ("Exp", "Neg")]
    nodes += [helper.make_node("Add", ["Exp", "Neg"], ["y"])]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:])
    data = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9).SerializeToString()
    model = OnnxConverter.from_bytes(data).with_note(WEIGHTS_KEY, b"{}")
    assert model.note(WEIGHTS_KEY)
    assert not model.with_order((1, 0, 2)).note(WEIGHTS_KEY)


def test_what_cannot_be_packed_is_an_error_that_says_so(tmp_path: Path) -> None:
    source = tmp_path / "source.onnx"
    source.write_bytes(products(width=8, layers=1))
    done = edgemem("plan", source, "--dim", "rows=2", "--weights", "mapped", "-o", tmp_path / "model.onnx")
    assert done.exit_code == 1
    assert "no constants of 1 KiB" in done.output
    done = edgemem("plan", source, "--weights", "mapped", "-o", tmp_path / "plan.edgemem")
    assert done.exit_code == 2


@pytest.mark.exhaustive
def test_more_weights_than_a_protobuf_message_holds_are_packed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    width, layers = 12288, 4  # 2.25 GiB
    path = tmp_path / "model.onnx"
    names = ["x", *(f"y{k}" for k in range(layers))]
    nodes = [helper.make_node("MatMul", [names[k], f"w{k}"], [names[k + 1]]) for k in range(layers)]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, width]) for name in (names[0], names[-1])]
    constants = []
    for k in range(layers):
        constants.append(TensorProto(name=f"w{k}", dims=[width, width], data_type=TensorProto.FLOAT))
        constants[-1].data_location = TensorProto.EXTERNAL
        size = 4 * width * width
        for key, value in (("location", "plain.data"), ("offset", str(k * size)), ("length", str(size))):
            constants[-1].external_data.add(key=key, value=value)
    rows = np.random.default_rng(0).standard_normal((64, width), np.float32) / width**0.5
    with (tmp_path / "plain.data").open("wb") as file:
        for k in range(layers * width // len(rows)):
            file.write(np.roll(rows, k, axis=1).tobytes())
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], constants)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    on_disk = pack_beside(path)
    assert on_disk.packed > on_disk.plain > 2**31
    assert warnings_of(path, caplog) == ""


TWO = """
import sys
import numpy as np
import edgemem
from edgemem.system.process_memory import anonymous_bytes
sessions, taken = [], []
for _ in range(3):
    before = anonymous_bytes()
    sessions.append(edgemem.InferenceSession(sys.argv[1], background=False))
    for _ in range(3):
        sessions[-1].run(None, {"x": np.ones((1, 1024), np.float32)})
    taken.append(anonymous_bytes() - before)
print(min(taken[1:]))  # the first one loads libraries
"""


def test_further_sessions_of_a_process_take_no_memory_for_weights(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(products(width=1024, layers=8))

    def further() -> int:
        done = subprocess.run([sys.executable, "-c", TWO, str(path)], check=True, capture_output=True, text=True)
        return int(done.stdout)

    weights = 8 * 1024 * 1024 * 4
    assert further() > 0.9 * weights, "a plain session has its own"
    pack_beside(path)
    assert further() < 0.1 * weights
