"""Files that cannot be read or written, and streams that are closed or full: one line, and no work is lost."""

from __future__ import annotations

import io
import json
import os
import struct
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import pytest
from click.testing import CliRunner, Result
from onnx import TensorProto, helper

import edgemem
from edgemem.cli.main import main
from edgemem.report.memory_data import memory_of_page, script_json
from edgemem.system import child_process
from edgemem.system.array_file import read_array

if TYPE_CHECKING:
    from pathlib import Path

needs_fifos = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no FIFOs")


def run(*args: object) -> Result:
    result = CliRunner().invoke(main, [str(a) for a in args])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def one_line(result: Result, code: int, says: str) -> None:
    assert result.exit_code == code, result.output
    assert says in result.output
    assert len(result.output.splitlines()) == 1, result.output


@pytest.fixture
def model(tmp_path: Path) -> Path:
    nodes = [helper.make_node("Abs", ["x"], ["y"]), helper.make_node("Neg", ["y"], ["z"])]
    value = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, 8]) for n in "xz"]
    graph = helper.make_graph(nodes, "g", value[:1], value[1:])
    path = tmp_path / "model.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def _npy(header: str) -> bytes:
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header) + 1) + header.encode() + b"\n"


def _archive() -> bytes:
    stream = io.BytesIO()
    np.savez(stream, x=np.zeros(3))
    return stream.getvalue()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"PK\x03\x04garbage",
        _npy("{'descr':"),
        _npy("{'descr':(),'fortran_order':False,'shape':(1,),}"),
        _npy("{'descr':'<f4','fortran_order':False,'shape':(1000000000000,),}"),
        _npy("{'descr':'|O','fortran_order':False,'shape':(1,),}") + bytes(8),
        _archive(),
    ],
    ids=["empty", "zip", "syntax", "dtype", "size", "object", "npz"],
)
def test_an_input_that_is_no_array_is_one_line(content: bytes, model: Path, tmp_path: Path) -> None:
    file = tmp_path / "x.npy"
    file.write_bytes(content)
    one_line(run("plan", model, "--input", f"x={file}"), 1, "cannot read input 'x' from")


@needs_fifos
def test_an_input_that_is_a_fifo_is_not_waited_for(model: Path, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "x.npy")
    one_line(run("plan", model, "--input", f"x={tmp_path / 'x.npy'}"), 1, "is no regular file")


@pytest.mark.parametrize("value", [np.float32(3), np.zeros((0, 3)), np.asfortranarray(np.arange(6.0).reshape(2, 3))])
def test_arrays_are_read_as_numpy_reads_them(value: Any, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", value)
    read = read_array(tmp_path / "x.npy")
    assert read.shape == value.shape
    assert read.dtype == value.dtype
    assert np.array_equal(read, value)


_MODEL = "[[model]]\npath = 'model.onnx'\n"
_ROW = {"memory": 10**400, "arena": 1, "lower_bound": 1, "operators": 2, "peak": "a"}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("models.toml", "x = " + "1" * 5000),
        ("pyproject.toml", "tool = 5"),
        ("pyproject.toml", "[tool]\nedgemem = 3"),
        ("pyproject.toml", "tool = [1]"),
        ("models.toml", f"{_MODEL}input_shapes = {{x = [inf]}}"),
        ("models.toml", f"{_MODEL}budget = {'1' * 400}"),
        ("models.toml", f"{_MODEL}tolerance = {'1' * 400}"),
    ],
)
def test_settings_that_say_nothing_possible_are_one_line(name: str, text: str, model: Path, tmp_path: Path) -> None:
    assert model.exists()
    (tmp_path / name).write_text(text)
    one_line(run("check", tmp_path / name), 1, name)


@pytest.mark.parametrize("tolerance", ["", "tolerance = '2%'"])
@pytest.mark.parametrize("row", [_ROW, {**_ROW, "memory": 1, "peak": 5}])
def test_baselines_that_are_no_sizes_are_one_line(tolerance: str, row: object, model: Path, tmp_path: Path) -> None:
    assert model.exists()
    (tmp_path / "models.toml").write_text(_MODEL + tolerance)
    (tmp_path / "models.baseline.json").write_text(json.dumps({"schema_version": 1, "models": {"model.onnx": row}}))
    one_line(run("check", tmp_path / "models.toml"), 4, "holds no baselines")


@pytest.mark.parametrize(("table", "column"), [("operators", "types"), ("records", "kinds"), ("tensors", "dtypes")])
def test_a_page_with_lists_for_texts_is_refused(table: str, column: str, model: Path, tmp_path: Path) -> None:
    page = tmp_path / "right.html"
    run("report", model, "-o", page)
    text = page.read_text()
    assert memory_of_page(text).operators
    begin = text.find('id="edgemem-data">') + len('id="edgemem-data">')
    end = text.find("</script>", begin)
    data = json.loads(text[begin:end])
    data[table][column][0] = [[]]
    (tmp_path / "wrong.html").write_text(script_json(data))
    one_line(run("diff", tmp_path / "wrong.html", page), 4, "the data of the report hold texts that no plan has")


@pytest.mark.parametrize("name", ["no folder/plan.edgemem", "no folder/planned.onnx"])
def test_an_output_in_no_folder_is_an_error_of_writing(name: str, model: Path, tmp_path: Path) -> None:
    one_line(run("plan", model, "--no-record", "-o", tmp_path / name), 1, "No such file or directory")


@pytest.mark.parametrize("command", ["plan", "plan --no-record", "shrink --steps order"])
def test_an_output_that_is_a_link_to_itself_stays(command: str, model: Path, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    loop = tmp_path / "loop.onnx"
    loop.symlink_to("loop.onnx")
    result = run(*command.split(), model, "-o", loop)
    assert result.exit_code == 1
    assert "Too many levels of symbolic links" in result.output.splitlines()[-1]
    assert os.readlink(loop) == "loop.onnx"  # noqa: PTH115 - of the link itself


@needs_fifos
@pytest.mark.parametrize("name", ["fifo.onnx", "fifo.edgemem"])
def test_an_output_that_is_a_fifo_is_not_waited_for(name: str, model: Path, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    os.mkfifo(tmp_path / name)
    result = run("plan", model, "-o", tmp_path / name)
    assert result.exit_code == 1
    assert name in result.output.splitlines()[-1]
    assert (tmp_path / name).is_fifo()


@pytest.mark.skipif(sys.platform != "linux", reason="the shell's redirections")
@pytest.mark.parametrize(("stdout", "code"), [(">&-", 0), (">/dev/full", 1)])
def test_what_cannot_be_printed_is_no_error_of_the_work(stdout: str, code: int, model: Path, tmp_path: Path) -> None:
    output = tmp_path / "plan.edgemem"
    for arguments in ("--help", "strategies", f"plan '{model}' -o '{output}'"):
        command = f"'{sys.executable}' -m edgemem {arguments} {stdout}"
        done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
        said = "edgemem: cannot write to stdout: No space left on device\n" if code else ""
        assert (done.returncode, done.stderr) == (code, said)
    assert not edgemem.verify(output)


def test_a_plan_for_sizes_that_its_model_cannot_have_is_wrong(model: Path, tmp_path: Path) -> None:
    planned = tmp_path / "planned.onnx"
    assert run("plan", model, "--no-record", "-o", planned).exit_code == 0
    proto = onnx.load(planned)
    proto.graph.input[0].type.tensor_type.shape.dim[1].dim_param = "n"
    proto.graph.output[0].type.tensor_type.shape.dim[1].dim_param = "n"
    onnx.save(proto, tmp_path / "open.onnx")
    assert run("plan", tmp_path / "open.onnx", "--input-shape", "x=1,8", "--no-record", "-o", planned).exit_code == 0
    proto = onnx.load(planned)
    proto.graph.input[0].type.tensor_type.shape.dim[1].dim_value = 9
    onnx.save(proto, planned)
    result = run("verify", planned)
    assert result.exit_code == 4
    assert "--input-shape" not in result.output


def test_a_frozen_program_does_not_start_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    with pytest.raises(OSError, match="a frozen program"):
        child_process.run_child("edgemem.system.child_call")


def test_a_system_without_forks_gives_children_no_descriptors(monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[str, Any] = {}

    def refuse(*_: object, **options: object) -> None:
        given.update(options)
        raise OSError("not here")

    monkeypatch.delattr(os, "fork", raising=False)
    monkeypatch.setattr(subprocess, "Popen", refuse)
    with pytest.raises(OSError, match="not here"):
        child_process.run_child("edgemem.system.child_call")
    assert not given["pass_fds"]
    assert "EDGEMEM_PARENT" not in given["env"]
