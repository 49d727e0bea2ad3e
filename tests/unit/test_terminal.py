"""What commands print cannot steer a terminal, whatever a model's names are."""

from __future__ import annotations

import json
import subprocess
import sys
import warnings
from typing import TYPE_CHECKING

import click
import onnx
import pytest
from click.testing import CliRunner, Result
from onnx import TensorProto, helper

from edgemem.cli.main import main
from edgemem.cli.printable_text import printable
from tests.terminal import in_terminal

if TYPE_CHECKING:
    from pathlib import Path

NAME = "a\x1b[31m[/x] [bold]\u202eb\nline\r\x07\x9b1m\u200b"
SAFE = r"a\x1b[31m[/x] [bold]\u202eb\nline\r\x07\x9b1m\u200b"


def edgemem(*args: object) -> Result:
    return CliRunner().invoke(main, [str(a) for a in args])


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    nodes = [helper.make_node("Abs", ["x"], [NAME], name=NAME), helper.make_node("Neg", [NAME], [f"z{NAME}"])]
    value = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, 8]) for n in ("x", f"z{NAME}")]
    made = helper.make_model(
        helper.make_graph(nodes, "g", value[:1], value[1:]), opset_imports=[helper.make_opsetid("", 17)], ir_version=8
    )
    path = tmp_path_factory.mktemp("models") / "model.onnx"
    onnx.save(made, path)
    return path


@pytest.fixture(scope="module")
def planned(model: Path) -> Path:
    path = model.with_name("planned.onnx")
    assert edgemem("plan", model, "-o", path).exit_code == 0
    return path


@pytest.mark.parametrize(
    "command",
    [
        "plan MODEL --all",
        "plan MODEL --budget 1",
        "plan MODEL --dim batch=1",
        "show PLANNED --tensors --profile --all",
        "verify PLANNED",
        "verify PLANNED --run",
        "run PLANNED --compare",
        "run PLANNED --executor io-binding",
        "run PLANNED --input nosuch=x.npy",
    ],
)
def test_names_are_printed_escaped_and_in_one_line(model: Path, planned: Path, command: str) -> None:
    if "run" in command:
        pytest.importorskip("onnxruntime")
    result = edgemem(*command.replace("MODEL", str(model)).replace("PLANNED", str(planned)).split())
    assert "Traceback" not in result.output
    assert all(c.isprintable() or c == "\n" for c in result.output), result.output
    assert not [line for line in result.output.splitlines() if line.startswith("line")], "a name began a line"


def test_the_name_is_there(planned: Path) -> None:
    assert SAFE in edgemem("show", planned, "--tensors").output


def test_json_gives_the_name_itself(planned: Path) -> None:
    text = edgemem("show", planned, "--json").output
    assert text.isascii()
    assert json.loads(text)["model"]["records"][0]["name"] == NAME


@pytest.mark.skipif(sys.platform != "linux", reason="signals come another way there")
@pytest.mark.parametrize("command", ["show PLANNED --tensors", "export PLANNED -f csv", "plan MODEL --budget 1"])
def test_a_terminal_gets_no_control_characters_of_names(model: Path, planned: Path, command: str) -> None:
    got = in_terminal(*command.replace("MODEL", str(model)).replace("PLANNED", str(planned)).split())
    for piece in ("\x1b[31m", "\u202e", "\x07", "\x9b", "\u200b", "\r\x07"):
        assert piece not in got, repr(got)
    assert r"\x1b[31m" in got


def test_a_name_ends_no_line_of_a_file_of_csv(planned: Path, tmp_path: Path) -> None:
    out = tmp_path / "plan.csv"
    with out.open("wb") as file:
        subprocess.run(
            [sys.executable, "-m", "edgemem", "export", str(planned), "-f", "csv"], stdout=file, check=True, timeout=60
        )
    assert [line.count(b",") for line in out.read_bytes().splitlines()] == [5, 5]
    assert b"\x1b" not in out.read_bytes()


def test_a_warning_is_one_line_without_paths(monkeypatch: pytest.MonkeyPatch) -> None:
    @click.command()
    def warn() -> None:
        warnings.warn("something\nis slow", RuntimeWarning, stacklevel=1)

    monkeypatch.setitem(main.commands, "warn", warn)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        result = edgemem("warn")
    assert result.stderr == "edgemem: something\\nis slow\n"


@pytest.mark.parametrize(
    ("text", "shown"),
    [("plain é 模型", "plain é 模型"), ("\x00\x7f\x85", r"\x00\x7f\x85"), ("\ud800\u2066", r"\ud800\u2066"), ("", "")],
)
def test_printable(text: str, shown: str) -> None:
    assert printable(text) == shown
