"""What an ONNX Runtime session takes stands first, and is what budgets are compared with."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from onnx import helper

from edgemem.cli.main import main

if TYPE_CHECKING:
    from pathlib import Path

pytest.importorskip("onnxruntime")

RESULTS = 8 * 32 * 32 * 4
GRAPH = 2 * RESULTS  # the input and the result of the transposed convolution
RECORDED = 4 * GRAPH  # at least: the kernel asks for a buffer of columns, 5x5 of the input


def run(*arguments: object, code: int = 0) -> str:
    done = CliRunner().invoke(main, [str(a) for a in arguments])
    assert done.exit_code == code, done.output
    return done.stdout


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model whose kernels ask for much more than its tensors, and the same with a recording."""
    made = tmp_path_factory.mktemp("models")
    value = helper.make_tensor_value_info("x", 1, [1, 8, 32, 32])
    result = helper.make_tensor_value_info("y", 1, [1, 8, 32, 32])
    weights = onnx.numpy_helper.from_array(np.ones((8, 8, 5, 5), np.float32), "w")
    nodes = [
        helper.make_node("Relu", ["x"], ["a"]),
        helper.make_node("ConvTranspose", ["a", "w"], ["b"], pads=[2] * 4),
        helper.make_node("Tanh", ["b"], ["y"]),
    ]
    graph = helper.make_graph(nodes, "g", [value], [result], [weights])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), made / "m.onnx")
    run("plan", made / "m.onnx", "-o", made / "p.onnx")
    return made


def check(folder: Path, budget: int, name: str = "p.onnx", *options: str, code: int = 0) -> str:
    (folder / "models.toml").write_text(f"[[model]]\npath = '{name}'\nbudget = {budget}\n")
    return run("check", folder / "models.toml", *options, code=code)


def test_a_budget_counts_the_recording_and_the_results(folder: Path) -> None:
    (model,) = json.loads(check(folder, GRAPH * 3 // 2, "p.onnx", "--json", code=1))["models"]
    assert (model["status"], model["counts"], model["arena"]) == ("over budget", "session", GRAPH)
    needed = model["memory"]
    assert needed >= RECORDED + RESULTS
    assert "in a session, as recorded" in check(folder, needed)
    check(folder, needed - RESULTS, code=1)


def test_a_file_without_a_recording_does_not_pass_in_silence(folder: Path) -> None:
    said = check(folder, GRAPH, "m.onnx", "--github")
    (line,) = [line for line in said.splitlines() if line.startswith("ok    m.onnx: ")]
    assert "what an ONNX Runtime session takes is not known" in line
    assert f"::warning file={folder / 'm.onnx'}" in said
    (model,) = json.loads(check(folder, GRAPH, "m.onnx", "--json"))["models"]
    assert model["counts"] == "plan"
    assert "not known" in model["not_counted"]
    check(folder, GRAPH - 1, "m.onnx", code=1)


def test_a_baseline_of_the_graph_is_not_compared_with_a_session(folder: Path, tmp_path: Path) -> None:
    settings = tmp_path / "models.toml"
    settings.write_text("[[model]]\npath = 'm.onnx'\n")
    (tmp_path / "m.onnx").write_bytes((folder / "m.onnx").read_bytes())
    run("check", settings, "--update")
    (tmp_path / "m.onnx").write_bytes((folder / "p.onnx").read_bytes())
    assert "its baseline is of the graph's plan, and this is of a session" in run("check", settings, code=1)
    run("check", settings, "--update")
    run("check", settings)


def test_the_first_line_is_what_a_session_takes(folder: Path, tmp_path: Path) -> None:
    beside = "; results 32.00 KiB beside it"
    for arguments in (("plan", folder / "m.onnx", "-o", tmp_path / "q.onnx"), ("show", folder / "p.onnx")):
        first, second, *_ = run(*arguments).splitlines()
        assert re.match(r"recorded arena \d", first)
        assert first.endswith(beside)
        assert second.startswith("graph's arena 64.00 KiB")
    run("report", folder / "p.onnx", "-o", tmp_path / "r.md")
    assert (tmp_path / "r.md").read_text().startswith("### p.onnx: recorded arena ")
    run("report", folder / "p.onnx", "-o", tmp_path / "r.html", "--budget", str(GRAPH))
    (model,) = json.loads(check(tmp_path, GRAPH, "r.html", "--json", code=1))["models"]
    assert model["memory"] >= RECORDED + RESULTS  # the page knows it as well


def test_plan_names_no_option_that_it_lacks_and_lists_what_can_run(folder: Path) -> None:
    said = run("plan", folder / "m.onnx")
    assert "--all lists" not in said
    assert "shared objects 64.00 KiB" in said
    assert "\nshared objects   " not in said
    assert "\nshared objects   " in run("show", folder / "p.onnx", "--all")


def test_a_difference_has_the_sessions_of_both(folder: Path) -> None:
    figures = json.loads(run("diff", folder / "p.onnx", folder / "p.onnx", "--json"))["figures"]
    assert figures["session"][0] >= RECORDED + RESULTS
    assert "session" not in json.loads(run("diff", folder / "m.onnx", folder / "p.onnx", "--json"))["figures"]
