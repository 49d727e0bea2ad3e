"""`edgemem diff`: known edits are named, and what follows from them is told with its reason."""

from __future__ import annotations

import json
import random
import re
from typing import TYPE_CHECKING

import numpy as np
import pytest
from click.testing import CliRunner, Result

import edgemem
from edgemem.cli.main import main
from edgemem.difference.alignment import align
from edgemem.difference.text import difference_markdown
from edgemem.errors import PlanError, PlanFileError
from edgemem.report.memory_data import memory_data, memory_of_data, memory_of_page, script_json
from edgemem.report.planned_memory import planned_memory
from tests.difference_models import Layers
from tests.unit.test_hostile_names import HOSTILE

if TYPE_CHECKING:
    from pathlib import Path

BASE = Layers()

# Name of the edit -> (model, kind of the one edit that is to be found, what its text has to say).
EDITS: dict[str, tuple[Layers, str, tuple[str, ...]]] = {
    **{
        f"wider conv{k}": (
            Layers(widths=tuple(12 if i == k else 8 for i in range(6))),
            "resized",
            (f"conv{k} ", "1x12x16x16 instead of float32 1x8x16x16", "weights"),
        )
        for k in (0, 3, 4, 5)
    },
    **{
        f"narrower conv{k}": (
            Layers(widths=tuple(4 if i == k else 8 for i in range(6))),
            "resized",
            (f"conv{k} ", "1x4x16x16 instead of float32 1x8x16x16"),
        )
        for k in (3, 4)
    },
    **{
        f"image of {size}": (Layers(size=size), "input", ("image", f"1x3x{size}x{size} instead of", "1x3x16x16"))
        for size in (8, 17, 32)
    },
    "float16": (Layers(float16=True), "input", ("image", "float16", "instead of float32")),
    **{
        f"skip from conv{first}": (
            Layers(skip=(first, 2)),
            "rewired",
            ("Add add", f"reads conv{first} instead of conv1"),
        )
        for first in (0,)
    },
    **{f"Relu behind conv{k}": (Layers(extra=(k,)), "added", (f"Relu conv{k}.relu is new",)) for k in (0, 1, 3, 4)},
    "Relus behind all": (Layers(extra=(0, 1, 2, 3, 4, 5)), "added", ("6 operators are new: 6 Relu",)),
    "one more conv": (Layers(widths=(8,) * 7), "added", ("Conv conv6 is new",)),
    "one conv less": (Layers(widths=(8,) * 5), "removed", ("Conv conv5 is gone",)),
    "another kernel": (Layers(kernel={3: 5}), "weights", ("conv3 has other weights",)),
    "image and kernel": (Layers(size=24, kernel={3: 5}), "weights", ("conv3 has other weights",)),
}


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return BASE.save(tmp_path_factory.mktemp("base") / "base.onnx")


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(a) for a in arguments])


@pytest.mark.parametrize("name", EDITS)
def test_a_known_edit_is_named(name: str, base: Path, tmp_path: Path) -> None:
    layers, kind, texts = EDITS[name]
    found = edgemem.diff(base, layers.save(tmp_path / "edited.onnx"))
    edits = [e for e in found.edits if e.kind == kind]
    assert len(edits) == 1, found.edits
    assert all(text in edits[0].text for text in texts), edits[0].text
    others = {e.kind for e in found.edits} - {kind}
    # A new operator in a chain is read by the next one; two edits were made in the last pair.
    assert others <= ({"rewired"} if kind == "added" else {"input"} if name == "image and kernel" else set())


@pytest.mark.parametrize("seed", range(4))
def test_the_edit_is_named_whatever_tensors_are_called(seed: int, base: Path, tmp_path: Path) -> None:
    name = random.Random(seed).choice(["wider conv3", "narrower conv4", "image of 32", "another kernel"])
    layers, kind, _ = EDITS[name]
    renamed = Layers(layers.widths, layers.skip, layers.size, names="net/", kernel=layers.kernel)
    found = edgemem.diff(base, renamed.save(tmp_path / "renamed.onnx"))
    assert [e.kind for e in found.edits] == [kind]
    assert not [c for c in found.tensors if c.kind in ("appeared", "vanished")]


def test_a_model_does_not_differ_from_itself(base: Path) -> None:
    found = edgemem.diff(base, base)
    assert not found.edits
    assert not found.tensors
    assert not found.exceeds(0)
    assert all(f.before == f.after for f in found.figures)


def test_a_longer_skip_says_who_keeps_the_tensor(base: Path, tmp_path: Path) -> None:
    found = edgemem.diff(base, Layers(skip=(1, 4)).save(tmp_path / "longer.onnx"))
    change = next(c for c in found.tensors if c.name == "conv1" and c.kind == "longer")
    assert change.reason == "add, which uses it last, runs later after conv1, its first"
    assert change.after == 8 * 16 * 16 * 4


def test_a_longer_life_by_a_new_reader_names_it(base: Path, tmp_path: Path) -> None:
    found = edgemem.diff(base, Layers(skip=(0, 2)).save(tmp_path / "other.onnx"))
    change = next(c for c in found.tensors if c.name == "conv0")
    assert (change.kind, change.reason) == ("longer", "add now reads it; before, conv1 was the last")


def test_sizes_are_those_of_the_plans(base: Path, tmp_path: Path) -> None:
    wide = EDITS["wider conv3"][0].save(tmp_path / "wide.onnx")
    found = edgemem.diff(base, wide)
    plans = [edgemem.plan(p) for p in (base, wide)]
    arenas = [p.best_offsets.size for p in plans if p.best_offsets is not None]
    assert [found.arena.before, found.arena.after] == arenas
    assert found.figures[1].before == plans[0].proved.offsets
    grown = next(c for c in found.tensors if c.kind == "grew")
    assert (grown.name, grown.before, grown.after) == ("conv3", 8 * 16 * 16 * 4, 12 * 16 * 16 * 4)


def test_another_order_is_told(base: Path) -> None:
    before = planned_memory(edgemem.plan(base))
    # Rows without reads and writes are told apart by their labels.
    moved = planned_memory(edgemem.plan(base))
    operators = list(moved.operators)
    operators.insert(1, operators.pop(4))
    object.__setattr__(moved, "operators", tuple(operators))
    assert align(before, moved).moved == 1


def test_the_exit_code_says_whether_the_arena_grew_too_much(base: Path, tmp_path: Path) -> None:
    large = Layers(size=17).save(tmp_path / "large.onnx")
    found = edgemem.diff(base, large)
    grown = found.arena.growth
    assert 0.05 < grown < 0.2
    assert run("diff", base, large, "--fail-above", "2%").exit_code == 1
    assert run("diff", base, large, "--fail-above", "20%").exit_code == 0
    assert run("diff", large, base, "--fail-above", "0%").exit_code == 0
    assert run("diff", base, base, "--fail-above", "0%").exit_code == 0
    assert run("diff", base, large, "--fail-above", "much").exit_code == 2


def test_json_and_markdown_have_the_same_figures(base: Path, tmp_path: Path) -> None:
    large = Layers(size=32).save(tmp_path / "large.onnx")
    found = edgemem.diff(base, large)
    data = json.loads(run("diff", base, large, "--json").output)
    assert data["figures"]["arena"] == [found.arena.before, found.arena.after]
    assert [e["kind"] for e in data["edits"]] == ["input"]
    assert {t["name"] for t in data["tensors"]} == {c.name for c in found.tensors}
    text = run("diff", base, large, "--markdown").output
    assert f"| arena | {found.arena.before:,} | {found.arena.after:,} |" in text
    shown = run("diff", base, large).output
    assert shown.startswith("arena ")
    assert "input image is float32 1x3x32x32 instead of float32 1x3x16x16" in shown


def test_a_planned_file_is_compared_with_a_model(base: Path, tmp_path: Path) -> None:
    planned, alone = tmp_path / "planned.onnx", tmp_path / "plan.edgemem"
    planset = edgemem.plan(base)
    edgemem.save(base, planset, planned)
    edgemem.save(base, planset, alone)
    assert not edgemem.diff(base, planned).tensors
    assert edgemem.diff(planned, alone).arena.growth == 0
    assert not edgemem.diff(planset, alone).tensors


def test_operators_of_records_may_be_timestamps() -> None:
    """Nothing is allocated for what lies between them."""
    plans = [
        edgemem.plan(edgemem.Problem([edgemem.UsageRecord("a", 0, last, 16), edgemem.UsageRecord("b", 5, 10**15, 16)]))
        for last in (10, 10**12)
    ]
    found = edgemem.diff(*plans)
    assert [(c.name, c.kind) for c in found.tensors] == [("a", "longer")]
    assert found.tensors[0].reason == f"operators 0 to {10**12} instead of 0 to 10"


def test_bytes_are_not_compared_with_texels(base: Path) -> None:
    with pytest.raises(PlanError, match="one plan counts bytes, the other one texels"):
        edgemem.diff(edgemem.plan(base), edgemem.plan(base, target="gpu-texture"))


def hostile() -> edgemem.PlanSet:
    records = [edgemem.UsageRecord(name, k, k + 1, 16, "tensor", (name,)) for k, name in enumerate(HOSTILE)]
    return edgemem.plan(edgemem.Problem(records), strategy="greedy_by_size")


def test_data_give_the_same_rows(base: Path) -> None:
    for planset in (edgemem.plan(base), edgemem.plan(base, target="gpu-texture"), hostile()):
        memory = planned_memory(planset)
        assert memory_of_data(json.loads(json.dumps(memory_data(memory)))) == memory


def test_no_name_ends_the_element_that_carries_the_data() -> None:
    memory = planned_memory(hostile())
    page = script_json(memory_data(memory))
    assert page.count("<") == 2  # its own tags
    assert memory_of_page(f"<html>{page}</html>") == memory


def test_damaged_data_are_refused(base: Path) -> None:
    data = memory_data(planned_memory(edgemem.plan(base)))
    rng = np.random.default_rng(0)
    for text in ("", "<p>", '<script type="application/json" id="edgemem-data">{</script>', "[" * 100_000):
        with pytest.raises(PlanFileError):
            memory_of_page(text)
    with pytest.raises(PlanFileError, match="lifetimes that no plan has"):
        memory_of_data({**data, "records": {**data["records"], "length": [10**15] * len(data["records"]["length"])}})
    refused = 0
    for _ in range(400):
        broken = json.loads(json.dumps(data))
        part = broken[rng.choice(["tensors", "records", "operators"])]
        column = part[rng.choice(list(part))]
        if not column:
            continue
        column[int(rng.integers(len(column)))] = rng.choice(np.array([None, -5, 10**6, "x", [1], 1.5], object))
        try:
            memory_of_data(broken)
        except PlanFileError:
            refused += 1
    assert refused > 200


def test_names_stay_text_in_markdown() -> None:
    small = edgemem.plan(edgemem.Problem([edgemem.UsageRecord("a", 0, 1, 16)]), strategy="greedy_by_size")
    text = difference_markdown(edgemem.diff(small, hostile()), top=100)
    lines = [line for line in text.splitlines() if "`" not in line or not line.startswith("| ")]
    bare = [line for line in lines if re.search(r"(?<!\\)[<`\[!]", line)]
    assert len(lines) > len(HOSTILE)
    assert not bare
