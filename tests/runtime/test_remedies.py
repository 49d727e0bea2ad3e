"""A plan above its budget: the error names the changes of the model that fit, and every one of them does."""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING

import numpy as np
import onnx
import pytest
from click.testing import CliRunner, Result
from onnx import TensorProto, helper, numpy_helper

import edgemem as library
from edgemem.cli.main import main
from edgemem.commands.remedies import Attempt, find_remedies
from edgemem.errors import BudgetExceededError
from edgemem.formats import Bindings
from models.tflite_networks import mobilenet_v2

if TYPE_CHECKING:
    from pathlib import Path


def edgemem(*args: object) -> Result:
    return CliRunner().invoke(main, [str(a) for a in args])


def arena(*args: object) -> int:
    done = edgemem(*args, "--json")
    assert done.exit_code == 0, done.output
    return min(int(p["size"]) for p in json.loads(done.output)["plans"] if p["family"] == "offsets")


def named(output: str) -> dict[str, int]:
    """The commands that an error names as fitting, and the bytes that it says they take."""
    lines = [line.strip().split(" bytes: ") for line in output.splitlines() if " bytes: edgemem plan " in line]
    return {command: int(size.replace(",", "")) for size, command in lines}


@pytest.mark.full
def test_what_is_named_fits_and_takes_what_is_said(tmp_path: Path) -> None:
    path = tmp_path / "m.tflite"
    path.write_bytes(mobilenet_v2(alpha=0.3, size=80, int8=True, classes=2))
    budget = arena("plan", path) * 7 // 10
    refused = edgemem("plan", path, "--budget", budget)
    assert refused.exit_code == 3
    assert "change the model" not in refused.output
    commands = named(refused.output)
    assert any("--stream auto" in command for command in commands)
    assert "too large: " in refused.output
    assert "--overlap tflm-reference (" in refused.output.split("too large: ")[1]
    for command, size in list(commands.items())[:2]:
        assert arena(*shlex.split(command)[1:]) == size <= budget
    with pytest.raises(BudgetExceededError, match="no plan of the model as it is can fit it") as e:
        library.plan(path, budget=budget)
    assert "a changed model may" in str(e.value)


@pytest.mark.full
def test_what_does_not_fit_is_said_with_its_size(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    one = helper.make_node("Conv", ["x", "w"], ["y"], name="one", pads=[1] * 4)
    two = helper.make_node("Conv", ["y", "w"], ["z"], name="two", pads=[1] * 4)
    x, z = (helper.make_tensor_value_info(name, TensorProto.FLOAT, (1, 4, 8, 8)) for name in "xz")
    weights = numpy_helper.from_array(np.ones((4, 4, 3, 3), np.float32), "w")
    graph = helper.make_graph([one, two], "two", [x], [z], [weights])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    refused = edgemem("plan", path, "--budget", "64")
    assert refused.exit_code == 3
    assert "no change that was tried fits; a smaller input may" in refused.output
    for change in ("--optimize all", "--order auto", "--tile auto", "--recompute auto"):
        assert change in refused.output
    assert not named(refused.output)


@pytest.mark.full
def test_what_there_was_no_time_for_is_not_tried(tmp_path: Path) -> None:
    path = tmp_path / "m.tflite"
    path.write_bytes(mobilenet_v2(alpha=0.3, size=80, int8=True, classes=2))
    attempt = Attempt(path, 1024, {}, None, None, None, Bindings())
    found = find_remedies(attempt, limit_s=-1)
    assert len(found) >= 4
    assert all(r.size is None and not r.fits and not r.refusal for r in found)


def test_usage_records_cannot_be_changed(tmp_path: Path) -> None:
    path = tmp_path / "r.csv"
    path.write_text("id,lower,upper,size\n0,0,2,64\n")
    refused = edgemem("plan", path, "--budget", "32")
    assert refused.exit_code == 3
    assert refused.output.count("\n") == 1
    assert "no plan can fit it: the lower bound is 64" in refused.output
