"""The order of an ONNX model at every level of ONNX Runtime's optimisation, and without ONNX Runtime."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import onnx
import pytest
from click.testing import CliRunner, Result
from onnx import TensorProto, helper, numpy_helper

import edgemem as library
from edgemem.cli.main import main
from edgemem.formats import load_model, onnx_editor
from edgemem.runtime.onnxruntime.baked_file import LEVELS, baked_note
from edgemem.schedule.peak import peak_of
from edgemem.targets import BUILT_IN
from models.build import build

if TYPE_CHECKING:
    from pathlib import Path

pytest.importorskip("onnxruntime")

BRANCHES, SIDE, WIDE = 6, 16, 24


def branches(activation: str = "Sigmoid", domain: str = "") -> onnx.ModelProto:
    """Branches written layer by layer, each of which ends in one channel, which blocks of channels pad to 8 or 16."""
    rng = np.random.default_rng(0)
    constants: list[onnx.TensorProto] = []
    nodes: list[onnx.NodeProto] = []

    def weights(name: str, *shape: int) -> str:
        constants.append(numpy_helper.from_array(rng.standard_normal(shape).astype(np.float32), name))
        return name

    first = [weights(f"a{b}", WIDE, 3, 1, 1) for b in range(BRANCHES)]
    nodes += [helper.make_node("Conv", ["x", w], [f"u{b}"], name=f"u{b}") for b, w in enumerate(first)]
    nodes += [helper.make_node(activation, [f"u{b}"], [f"s{b}"], name=f"s{b}", domain=domain) for b in range(BRANCHES)]
    for b in range(BRANCHES):
        last = weights(f"c{b}", 1, WIDE, 3, 3)
        nodes.append(helper.make_node("Conv", [f"s{b}", last], [f"v{b}"], name=f"v{b}", pads=[1] * 4))
    nodes.append(helper.make_node("Concat", [f"v{b}" for b in range(BRANCHES)], ["y"], axis=1, name="cat"))

    def form(name: str, channels: int) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, (1, channels, SIDE, SIDE))

    between = [form(f"s{b}", WIDE) for b in range(BRANCHES)]
    graph = helper.make_graph(nodes, "branches", [form("x", 3)], [form("y", BRANCHES)], constants, value_info=between)
    opsets = [helper.make_opsetid("", 17), *([helper.make_opsetid(domain, 1)] if domain else [])]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9)


def edgemem(*args: object) -> Result:
    return CliRunner().invoke(main, [str(a) for a in args])


@pytest.mark.full
def test_the_level_with_the_lowest_peak_wins(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    onnx.save(branches(), path)
    made = {level: library.shrink(path, steps=f"optimize={level},order", outputs="close") for level in LEVELS}
    bounds = {level: shrunk.planset.bounds.offsets for level, shrunk in made.items()}
    assert min(bounds.values()) == (WIDE + BRANCHES) * SIDE * SIDE * 4
    assert bounds["all"] > min(bounds.values()), "the level `all` pads one channel to a block"
    # Sessions need workspace besides, which decides.
    best = library.shrink(path, allow=["optimize", "order"], outputs="close").chosen
    assert best.is_measured
    assert best.memory <= min(shrunk.chosen.memory for shrunk in made.values())


def test_the_highest_level_within_a_budget_is_taken(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    onnx.save(branches(), path)
    whole = library.shrink(path, steps="optimize=all,order").chosen
    least = library.shrink(path, budget=whole.memory, allow=["optimize", "order"])
    note = baked_note(least.model.content())
    assert note is None or note.level == "all"


def test_operators_that_onnx_runtime_does_not_know_are_ordered(tmp_path: Path) -> None:
    path, out = tmp_path / "m.onnx", tmp_path / "out.onnx"
    onnx.save(branches("Squish", "com.acme"), path)
    done = edgemem("shrink", path, "-o", out)
    assert done.exit_code == 0, done.output
    assert "com.acme:Squish" in done.output
    rules = BUILT_IN["onnxruntime"]
    before, after = (load_model(p).graph() for p in (path, out))
    assert peak_of(after, rules) < peak_of(before, rules) / 2
    assert sorted(op.name for op in after.ops) == sorted(op.name for op in before.ops)
    assert baked_note(out) is None
    assert edgemem("verify", out).exit_code == 0


def test_a_model_that_nothing_makes_smaller_stays_as_it_is(tmp_path: Path) -> None:
    path, out = tmp_path / "m.onnx", tmp_path / "out.onnx"
    path.write_bytes(build("transformer", size="small").SerializeToString())
    done = edgemem("shrink", path, "--allow", "tile", "-o", out)
    assert done.exit_code == 0, done.output
    assert "no change" in done.output
    written = out.read_bytes()
    for key in ("edgemem.plan", "edgemem.summary"):
        written = onnx_editor().without_metadata(written, key)
    assert written == path.read_bytes()
