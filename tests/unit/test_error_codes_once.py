"""An error has one code, and a limit that refuses has its name."""

from __future__ import annotations

from typing import TYPE_CHECKING

import onnx
import pytest
from click.testing import CliRunner
from onnx import helper

from edgemem.cli.main import main

if TYPE_CHECKING:
    from pathlib import Path


def refusal(*arguments: object) -> str:
    done = CliRunner().invoke(main, [str(a) for a in arguments])
    assert done.exit_code == 1, done.output
    return done.stderr


@pytest.mark.parametrize("option", [("--dim", f"b={2**47 + 1}"), ("--input-shape", f"x={2**47 + 1}")])
def test_a_size_above_the_limit_names_the_limit(option: tuple[str, str], tmp_path: Path) -> None:
    values = [helper.make_tensor_value_info(name, 1, ["b"]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", values[:1], values[1:])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), tmp_path / "m.onnx")
    said = refusal("plan", tmp_path / "m.onnx", *option)
    assert "MAX_ELEMENTS = 140,737,488,355,328 (docs/limits.md)" in said
