"""Lists and long texts in messages."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import onnx
import pytest
from click.testing import CliRunner
from onnx import TensorProto, helper

from edgemem.cli.main import main
from edgemem.system.text import abbreviate, join_names

if TYPE_CHECKING:
    from pathlib import Path


def test_short_lists_are_whole() -> None:
    assert join_names(["a", "b"]) == "a, b"
    assert join_names(range(10), separator=" ") == "0 1 2 3 4 5 6 7 8 9"
    assert join_names([]) == ""


def test_long_lists_are_counted() -> None:
    assert join_names(range(12)) == "0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 2 more"
    assert join_names("abc", most=2) == "a, b and 1 more"
    text = join_names(["x" * 100] * 5)
    assert text == f"{'x' * 100}, {'x' * 100} and 3 more"


def test_one_long_item_keeps_its_ends() -> None:
    text = join_names(["a" * 2000 + "b" * 2000, "c"])
    assert len(text) < 300
    assert text.startswith("aaa")
    assert text.endswith("bbb and 1 more")


def test_long_texts_keep_their_end() -> None:
    assert abbreviate("short") == "short"
    text = abbreviate("a" * 4000 + " add it to the model's value_info")
    assert len(text) == 760
    assert text.endswith("add it to the model's value_info")


def _open_model(count: int, length: int) -> onnx.ModelProto:
    """A model with so many inputs; names and symbols have about `length` characters."""
    names = [f"input_{k}_{'x' * length}" for k in range(count)]
    infos = [
        helper.make_tensor_value_info(n, TensorProto.FLOAT, [f"batch_{k}_{'y' * length}", None])
        for k, n in enumerate(names)
    ]
    node = helper.make_node("Concat", names, ["out" + "z" * length], axis=0)
    unknown = helper.make_node("Magic", ["out" + "z" * length], ["end" + "z" * length], domain="mine")
    graph = helper.make_graph([node, unknown], "g", infos, [helper.make_empty_tensor_value_info("end" + "z" * length)])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("mine", 1)])


@pytest.mark.parametrize("length", [0, 70, 3000])
@pytest.mark.parametrize("flags", [[], ["--dim", "nothing=1"], ["--input-shape", "nothing=1"], "all"])
def test_errors_of_plan_take_at_most_ten_lines(tmp_path: Path, length: int, flags: list[str] | str) -> None:
    model = _open_model(100, length)
    path = tmp_path / "model.onnx"
    onnx.save(model, str(path))
    if isinstance(flags, str):
        flags = [f for i in model.graph.input for f in ("--input-shape", f"{i.name}=2,3")]
    done = CliRunner().invoke(main, ["plan", str(path), *flags])
    assert done.exit_code != 0
    assert len(textwrap.wrap(done.stderr, 80)) <= 10
