"""Weights in files beside the model: referenced, never loaded, and brought along when the model is saved elsewhere."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import onnx
import pytest
from onnx import TensorProto, parser

import edgemem
from edgemem.errors import ModelError
from edgemem.formats import Bindings
from edgemem.model.graph import digest
from edgemem.plans import LowerBounds, PlanSet
from edgemem.records.problem import Problem
from edgemem_converters.onnx.model import OnnxConverter

if TYPE_CHECKING:
    from pathlib import Path

PLANSET = PlanSet(Problem([]), 0, LowerBounds(0, 0), (), ())
ROWS = 600_000_000  # of one float, so more than 2 GiB


def model(folder: Path, *names: str, rows: int = 4) -> Path:
    """A model that adds one weight of `rows` floats from each of the files."""
    folder.mkdir(exist_ok=True)
    body = " ".join(f"v{k + 1} = Add (v{k}, w{k})" for k in range(len(names)))
    proto = parser.parse_model(f"""<ir_version: 8, opset_import: ["" : 17]>
        g (float[{rows}] v0) => (float[{rows}] v{len(names)}) {{ {body} }}""")
    for k, name in enumerate(names):
        tensor = proto.graph.initializer.add(name=f"w{k}", data_type=TensorProto.FLOAT, dims=[rows])
        tensor.data_location = TensorProto.EXTERNAL
        tensor.external_data.add(key="location", value=name)
    path = folder / "model.onnx"
    path.write_bytes(proto.SerializeToString())
    return path


def saved(path: Path, target: Path) -> Path:
    target.mkdir(exist_ok=True)
    OnnxConverter.open(path, Bindings()).with_plan(b"plan", PLANSET).save(target / "out.onnx")
    return target


def test_more_than_protobuf_holds(tmp_path: Path) -> None:
    path = model(tmp_path / "a", "weights.bin", rows=ROWS)
    weights = tmp_path / "a" / "weights.bin"
    weights.touch()
    os.truncate(weights, 4 * ROWS)
    graph = OnnxConverter.open(path, Bindings()).graph()
    assert {t.name: t.size for t in graph.tensors if t.kind == "constant"} == {"w0": 4 * ROWS}
    copy = saved(path, tmp_path / "b") / "out.onnx.data"
    assert copy.stat().st_size == 4 * ROWS > 2**31
    assert copy.stat().st_blocks * 512 < 2**20
    onnx.checker.check_model(copy.with_name("out.onnx"))


def test_the_files_need_not_be_there_to_be_planned(tmp_path: Path) -> None:
    path = model(tmp_path / "a", "weights.bin")
    assert len(OnnxConverter.open(path, Bindings()).graph().ops) == 1
    saved(path, tmp_path / "a")
    with pytest.raises(ModelError, match="weights are missing"):
        saved(path, tmp_path / "b")
    assert not (tmp_path / "b" / "out.onnx").exists()


def test_files_come_along(tmp_path: Path) -> None:
    path = model(tmp_path / "a", "one.bin", "sub/two.bin", "one.bin")
    (tmp_path / "a" / "sub").mkdir()
    (tmp_path / "a" / "one.bin").write_bytes(b"1" * 16)
    with (tmp_path / "a" / "sub" / "two.bin").open("wb") as sparse:
        sparse.write(b"begin")
        sparse.seek(1 << 22)
        sparse.write(b"end")
        sparse.truncate(1 << 23)
    target = saved(path, tmp_path / "b")
    for name, copy in (("one.bin", "out.onnx.data"), ("sub/two.bin", "out.onnx.data.1")):
        assert (target / copy).read_bytes() == (tmp_path / "a" / name).read_bytes()
        assert (target / copy).stat().st_nlink == 1  # onnx refuses weights with two names
    assert sorted(p.name for p in target.rglob("*")) == ["out.onnx", "out.onnx.data", "out.onnx.data.1"]
    assert saved(path, target) == target  # again, over the same files
    read = OnnxConverter.open(target / "out.onnx", Bindings())
    assert read.plan() == b"plan"
    assert digest(read.graph()) == digest(OnnxConverter.open(path, Bindings()).graph())


def test_other_files_are_not_overwritten(tmp_path: Path) -> None:
    path = model(tmp_path / "a", "weights.bin")
    (tmp_path / "a" / "weights.bin").write_bytes(b"right")
    (tmp_path / "b").mkdir()
    other = tmp_path / "b" / "out.onnx.data"
    for content in (b"wrong", b"longer than that"):
        other.write_bytes(content)
        with pytest.raises(ModelError, match="is not the model's"):
            saved(path, tmp_path / "b")
        assert other.read_bytes() == content
        assert not (tmp_path / "b" / "out.onnx").exists()
    other.write_bytes(b"right")
    saved(path, tmp_path / "b")


def test_a_link_to_nowhere_is_not_overwritten(tmp_path: Path) -> None:
    path = model(tmp_path / "a", "weights.bin")
    (tmp_path / "a" / "weights.bin").write_bytes(b"right")
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "out.onnx.data").symlink_to(tmp_path / "nowhere")
    with pytest.raises(ModelError, match="is not the model's"):
        saved(path, tmp_path / "b")


def test_the_model_does_not_take_its_weights_name(tmp_path: Path) -> None:
    path = model(tmp_path / "a", "out.onnx")
    (tmp_path / "a" / "out.onnx").write_bytes(b"weights")
    with pytest.raises(ModelError, match="the name of a file with the model's weights"):
        saved(path, tmp_path / "a")
    assert (tmp_path / "a" / "out.onnx").read_bytes() == b"weights"
    assert (saved(path, tmp_path / "b") / "out.onnx.data").read_bytes() == b"weights"


def test_names_in_the_model_decide_of_no_file_that_is_written(tmp_path: Path) -> None:
    """A module of Python or a program beside the output would be run by whoever works there."""
    path = model(tmp_path / "a", "onnxruntime.py", "sub/run.sh", rows=16)
    (tmp_path / "a" / "sub").mkdir()
    for name in ("onnxruntime.py", "sub/run.sh"):
        (tmp_path / "a" / name).write_bytes(bytes(range(64)))
    (tmp_path / "b").mkdir()
    edgemem.save(path, edgemem.plan(path), tmp_path / "b" / "p.onnx")
    written = sorted(str(p.relative_to(tmp_path / "b")) for p in (tmp_path / "b").rglob("*"))
    assert written == ["p.onnx", "p.onnx.data", "p.onnx.data.1"]
    before, after = (
        onnx.load(p).SerializeToString() for p in (path, tmp_path / "b" / "p.onnx")
    )  # with the values of its weights
    assert [t.raw_data for t in onnx.ModelProto.FromString(after).graph.initializer] == [
        t.raw_data for t in onnx.ModelProto.FromString(before).graph.initializer
    ]
    assert edgemem.verify(tmp_path / "b" / "p.onnx") == ()


@pytest.mark.parametrize(
    "name", ["../weights.bin", "/etc/passwd", "sub/../../w.bin", "", ".", "C:\\w.bin", "..\\w.bin"]
)
def test_files_outside_the_models_folder_are_refused(tmp_path: Path, name: str) -> None:
    path = model(tmp_path / "a", name)
    with pytest.raises(ModelError, match="no file in the model's folder"):
        OnnxConverter.open(path, Bindings())


@pytest.mark.parametrize("where", ["node", "body", "function"])
def test_files_are_found_wherever_tensors_are(tmp_path: Path, where: str) -> None:
    constant = onnx.helper.make_node("Constant", [], ["k"], value=onnx.helper.make_tensor("k", 1, [2], [1.0, 2.0]))
    constant.attribute[0].t.data_location = TensorProto.EXTERNAL
    constant.attribute[0].t.external_data.add(key="location", value="../k.bin")
    proto = parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> g (float[2] x) => (float[2] y) { y = Exp (x) }'
    )
    if where == "node":
        proto.graph.node.append(constant)
    elif where == "body":
        proto.graph.node.add(op_type="If").attribute.add(name="then_branch", g=onnx.GraphProto(node=[constant]))
    else:
        proto.functions.add(name="f", node=[constant])
    path = tmp_path / "model.onnx"
    path.write_bytes(proto.SerializeToString())
    with pytest.raises(ModelError, match=r"\.\./k\.bin"):
        OnnxConverter.open(path, Bindings())
