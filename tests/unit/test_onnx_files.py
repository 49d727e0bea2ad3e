"""Models and weights from strangers as files: special files, links, permissions, sizes and names."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper, parser

from edgemem import formats
from edgemem.errors import ModelError, PlanFileError
from edgemem.formats import Bindings
from edgemem.runtime.onnxruntime.baked_file import BAKED_KEY, baked_note
from edgemem_converters.onnx.editor import Editor
from edgemem_converters.onnx.model import OnnxConverter
from tests.onnx_child import read_in_child

needs_fifos = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no FIFOs")


def write(folder: Path, *, entries: dict[str, str], dims: list[int] | None = None) -> Path:
    """A model that reshapes x (16 floats) to the shape in an external constant."""
    folder.mkdir(exist_ok=True)
    proto = parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[16] x) => (float[A, B] y) { y = Reshape (x, s) }"""
    )
    tensor = proto.graph.initializer.add(name="s", data_type=TensorProto.INT64, dims=[2] if dims is None else dims)
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in entries.items():
        tensor.external_data.add(key=key, value=value)
    path = folder / "model.onnx"
    path.write_bytes(proto.SerializeToString())
    return path


def shape_of_output(path: Path) -> tuple[int, ...]:
    graph = OnnxConverter.open(path, Bindings()).graph()
    return graph.tensors[graph.outputs[0]].shape


def sizes(*values: int) -> bytes:
    return b"".join(v.to_bytes(8, "little") for v in values)


def saved(path: Path, folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    OnnxConverter.open(path, Bindings()).save(folder / "out.onnx")
    return folder


def test_a_constant_is_read_from_its_part_of_the_file(tmp_path: Path) -> None:
    path = write(tmp_path / "a", entries={"location": "sub/w.bin", "offset": "8", "length": "16"})
    (tmp_path / "a" / "sub").mkdir()
    (tmp_path / "a" / "sub" / "w.bin").write_bytes(sizes(7, 2, 8, 9))
    assert shape_of_output(path) == (2, 8)


@pytest.mark.full
def test_no_more_is_read_than_the_constant_has(tmp_path: Path) -> None:
    """A file of 64 GiB, and a constant that does not say how long it is."""
    path = write(tmp_path, entries={"location": "w.bin"})
    with (tmp_path / "w.bin").open("wb") as file:
        file.write(sizes(4, 4))
        file.truncate(64 << 30)
    assert read_in_child(path, seconds=20, memory=3 << 30).startswith("read")


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({"length": "8"}, "its part of the file 8"),
        ({"length": "24"}, "its part of the file 24"),
        ({"length": "-16"}, "length"),
        ({"offset": "-8"}, "offset"),
        ({"offset": "24"}, "ends before"),
        ({"offset": "9" * 19}, "offset"),
        ({"offset": "1" * 5000}, "offset"),
        ({"offset": "0x10"}, "offset"),
        ({"offset": "²"}, "offset"),
    ],
)
def test_parts_that_are_no_parts(tmp_path: Path, entries: dict[str, str], message: str) -> None:
    path = write(tmp_path, entries={"location": "w.bin", **entries})
    (tmp_path / "w.bin").write_bytes(sizes(4, 4, 1))
    with pytest.raises(ModelError, match=message):
        OnnxConverter.open(path, Bindings()).graph()


@pytest.mark.parametrize("where", ["file", "folder"])
def test_links_are_not_followed(tmp_path: Path, where: str) -> None:
    name = "w.bin" if where == "file" else "sub/w.bin"
    path = write(tmp_path / "a", entries={"location": name})
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "w.bin").write_bytes(sizes(4, 4))
    link = tmp_path / "a" / Path(name).parts[0]
    link.symlink_to(tmp_path / "secret" / "w.bin" if where == "file" else tmp_path / "secret")
    for use in (shape_of_output, lambda p: saved(p, tmp_path / "b")):
        with pytest.raises(ModelError, match="symbolic link"):
            use(path)
    assert not list((tmp_path / "b").iterdir())


def test_the_model_and_its_folder_may_be_reached_through_links(tmp_path: Path) -> None:
    path = write(tmp_path / "a", entries={"location": "w.bin"})
    (tmp_path / "a" / "w.bin").write_bytes(sizes(4, 4))
    (tmp_path / "link").symlink_to(tmp_path / "a")
    assert shape_of_output(tmp_path / "link" / "model.onnx") == (4, 4)
    path.rename(tmp_path / "a" / "other.onnx")
    path.symlink_to(tmp_path / "a" / "other.onnx")
    assert shape_of_output(path) == (4, 4)


@pytest.mark.full
@pytest.mark.parametrize("kind", ["folder", pytest.param("FIFO", marks=needs_fifos)])
def test_weights_in_special_files(tmp_path: Path, kind: str) -> None:
    path = write(tmp_path / "a", entries={"location": "w.bin"})
    weights = tmp_path / "a" / "w.bin"
    weights.mkdir() if kind == "folder" else os.mkfifo(weights)
    assert "no regular file" in read_in_child(path)
    with pytest.raises(ModelError, match="no regular file"):
        saved(path, tmp_path / "b")


@pytest.mark.full
@pytest.mark.parametrize("kind", ["folder", "device", "links", "name", pytest.param("FIFO", marks=needs_fifos)])
def test_models_in_special_files(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "model.onnx"
    if kind == "folder":
        path.mkdir()
    elif kind == "device":
        path.symlink_to("/dev/zero")
    elif kind == "links":
        path.symlink_to(path)
    elif kind == "name":
        path = tmp_path / f"{'n' * 300}.onnx"
    else:
        os.mkfifo(path)
    assert read_in_child(path, memory=2 << 30).startswith("ModelError")
    with pytest.raises(ModelError, match=r"cannot read|no regular file"):
        formats.load(path)


def test_copies_get_plain_permissions(tmp_path: Path) -> None:
    path = write(tmp_path / "a", entries={"location": "w.bin"})
    weights = tmp_path / "a" / "w.bin"
    weights.write_bytes(sizes(4, 4))
    weights.chmod(0o6777)
    before = os.umask(0o022)
    try:
        copy = saved(path, tmp_path / "b") / "out.onnx.data"
    finally:
        os.umask(before)
    assert stat.S_IMODE(copy.stat().st_mode) == 0o644


@pytest.mark.parametrize("name", [".git/hooks/pre-commit", ".bashrc", "sub/.hidden"])
def test_hidden_files_are_not_copied(tmp_path: Path, name: str) -> None:
    path = write(tmp_path / "a", entries={"location": name})
    weights = tmp_path / "a" / name
    weights.parent.mkdir(parents=True, exist_ok=True)
    weights.write_bytes(sizes(4, 4))
    assert shape_of_output(path) == (4, 4)
    with pytest.raises(ModelError, match="hidden"):
        saved(path, tmp_path / "b")
    assert not list((tmp_path / "b").iterdir())


def test_nothing_is_written_through_a_link(tmp_path: Path) -> None:
    path = write(tmp_path / "a", entries={"location": "sub/w.bin"})
    (tmp_path / "a" / "sub").mkdir()
    (tmp_path / "a" / "sub" / "w.bin").write_bytes(sizes(4, 4))
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "out.onnx.data").symlink_to(tmp_path / "elsewhere" / "w.bin")
    with pytest.raises(ModelError, match="is not the model's"):
        saved(path, tmp_path / "b")
    assert not list((tmp_path / "elsewhere").iterdir())


@needs_fifos
def test_a_fifo_has_the_name_of_the_copy(tmp_path: Path) -> None:
    path = write(tmp_path / "a", entries={"location": "w.bin"})
    (tmp_path / "a" / "w.bin").write_bytes(sizes(4, 4))
    (tmp_path / "b").mkdir()
    os.mkfifo(tmp_path / "b" / "out.onnx.data")
    with pytest.raises(ModelError, match="is not the model's"):
        saved(path, tmp_path / "b")


def test_folders_that_are_links_to_one_another(tmp_path: Path) -> None:
    path = write(tmp_path / "a", entries={"location": "w.bin"})
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    model = OnnxConverter.open(path, Bindings())
    with pytest.raises(ModelError, match=r"cannot write|weights are missing"):  # the latter from Python 3.13 on
        model.save(loop / "out.onnx")
    with pytest.raises(ModelError):
        model.save(loop)


def test_locations_that_readers_take_differently(tmp_path: Path) -> None:
    path = write(tmp_path, entries={"location": "w.bin"})
    proto = onnx.load(path, load_external_data=False)
    proto.graph.initializer[0].external_data.add(key="location", value="../../etc/passwd")
    with pytest.raises(ModelError, match="twice"):
        OnnxConverter.from_bytes(proto.SerializeToString())


@pytest.mark.parametrize("place", ["key", "value"])
def test_locations_that_are_no_text(tmp_path: Path, place: str) -> None:
    data = write(tmp_path, entries={"location": "place.bin"}).read_bytes()
    old, new = (b"location", b"locati\xffn") if place == "key" else (b"place.bin", b"plac\xff.bin")
    with pytest.raises(ModelError, match="no UTF-8"):
        OnnxConverter.from_bytes(data.replace(old, new))


@pytest.mark.parametrize("name", ["n" * 300, "a/" * 3000 + "b", "null\0.bin"])
def test_locations_that_no_file_has(tmp_path: Path, name: str) -> None:
    path = write(tmp_path / "a", entries={"location": name})
    with pytest.raises(ModelError):
        OnnxConverter.open(path, Bindings()).graph()
    with pytest.raises(ModelError):
        saved(path, tmp_path / "b")


def test_constants_without_a_size_in_other_files(tmp_path: Path) -> None:
    for elem_type in (TensorProto.STRING, TensorProto.UNDEFINED, 99):
        path = write(tmp_path, entries={"location": "w.bin"})
        (tmp_path / "w.bin").write_bytes(sizes(4, 4))
        proto = onnx.load(path, load_external_data=False)
        proto.graph.initializer[0].data_type = elem_type
        with pytest.raises(ModelError):
            Editor().parts(proto.SerializeToString(), tmp_path).constant("s")


def test_small_constants_in_other_files_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edgemem_converters.onnx.constants.MAX_EXTERNAL_VALUE_BYTES", 20)
    path = write(tmp_path, entries={"location": "w.bin"})
    (tmp_path / "w.bin").write_bytes(sizes(4, 4))
    assert shape_of_output(path) == (4, 4)
    proto = onnx.load(path, load_external_data=False)
    proto.graph.initializer.append(proto.graph.initializer[0])
    proto.graph.initializer[1].name = "other"
    path.write_bytes(proto.SerializeToString())
    with pytest.raises(ModelError, match="MAX_EXTERNAL_VALUE_BYTES"):
        shape_of_output(path)


def test_executors_read_weights_by_the_same_rules(tmp_path: Path) -> None:
    path = write(tmp_path / "a", entries={"location": "w.bin"})
    (tmp_path / "w.bin").write_bytes(sizes(4, 4))
    (tmp_path / "a" / "w.bin").symlink_to(tmp_path / "w.bin")
    data = path.read_bytes()
    with pytest.raises(ModelError, match="symbolic link"):
        Editor().completed(data, ["x"], tmp_path / "a")
    (tmp_path / "a" / "w.bin").unlink()
    with pytest.raises(ModelError, match="cannot be read"):
        Editor().parts(data, tmp_path / "a").constant("s")
    (tmp_path / "a" / "w.bin").write_bytes(sizes(4, 4))
    parts = Editor().parts(data, tmp_path / "a")
    assert parts.constant("s").tolist() == [4, 4]
    piece = parts.piece(0, {"x": ("float32", (16,)), "y": ("float32", (4, 4))})
    assert not onnx.load_from_string(piece.model).graph.initializer[0].external_data
    completed = onnx.load_from_string(Editor().completed(data, ["x"], tmp_path / "a"))
    assert completed.graph.initializer[0].raw_data == sizes(4, 4)


@pytest.mark.parametrize(
    "note",
    [
        "[]",
        "{",
        "null",
        '"text"',
        "[" * 100_000,
        '{"level": ["all"], "onnxruntime": "1", "processor": "m", "dims": {}}',
        '{"level": "most", "onnxruntime": "1", "processor": "m", "dims": {}}',
        '{"level": "all", "onnxruntime": 1, "processor": "m", "dims": {}}',
        '{"level": "all", "onnxruntime": "1", "processor": null, "dims": {}}',
        '{"level": "all", "onnxruntime": "1", "processor": "m", "dims": []}',
        '{"level": "all", "onnxruntime": "1", "processor": "m", "dims": {"N": "4"}}',
        '{"level": "all", "onnxruntime": "1", "processor": "m", "dims": {"N": -4}}',
        '{"level": "all", "onnxruntime": "1", "processor": "m", "dims": {"N": 1e99}}',
        f'{{"level": "all", "onnxruntime": "1", "processor": "m", "dims": {{"N": {"1" * 5000}}}}}',
        '{"level": "all", "onnxruntime": "1", "processor": "m", "dims": {}, "more": 1}',
    ],
)
def test_notes_that_no_baked_file_has(note: str) -> None:
    model = helper.make_model(helper.make_graph([], "g", [], []))
    with pytest.raises(PlanFileError, match="damaged"):
        baked_note(Editor().with_metadata(model.SerializeToString(), BAKED_KEY, note.encode()))
