"""The line beside a plan that people read in a viewer, and nothing else does."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

import edgemem
from edgemem.cli.main import main
from edgemem.formats import MicroPlanned, Noted, load_model
from edgemem.formats.plan_summary import SUMMARY_KEY, plan_summary
from edgemem.runtime.onnxruntime.file import model_digest
from edgemem.targets import BUILT_IN
from models.build import build_tflite
from tests.difference_models import Layers
from tests.plansets import small
from tests.unit.test_hostile_names import HOSTILE

if TYPE_CHECKING:
    from pathlib import Path

LIE = b"arena 1 bytes, lower bound 1; target generic; greedy_by_size; edgemem 9.9.9"


def run(*arguments: object) -> str:
    done = CliRunner().invoke(main, [str(a) for a in arguments])
    assert done.exit_code == 0, done.output
    return done.output


@pytest.fixture(scope="module", params=["m.onnx", "m.tflite"])
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path: Path = tmp_path_factory.mktemp("models") / request.param
    if path.suffix == ".onnx":
        return Layers().save(path)
    path.write_bytes(build_tflite("mobilenet_v1_tflite", alpha=0.25, size=32, int8=True))
    return path


def summary(path: Path) -> str | None:
    opened = load_model(path)
    assert isinstance(opened, Noted)
    note = opened.note(SUMMARY_KEY)
    return None if note is None else note.decode("ascii")


def test_it_has_the_figures_of_the_plan(model: Path, tmp_path: Path) -> None:
    output = tmp_path / model.name
    run("plan", model, "--no-record", "-o", output)
    planset = edgemem.plan(model)
    assert planset.best_offsets is not None
    assert planset.target is not None
    size, bound = planset.best_offsets.size, planset.proved.offsets
    text = summary(output)
    assert text is not None
    assert text.startswith(f"arena {size:,} bytes, lower bound {bound:,}; target {planset.target.name}; ")
    assert re.search(r"; edgemem \d", text)
    assert summary(model) is None


def test_a_new_plan_replaces_it(model: Path, tmp_path: Path) -> None:
    first, again, anew = (tmp_path / f"{k}{model.suffix}" for k in range(3))
    run("plan", model, "--no-record", "-o", first)
    run("plan", first, "--no-record", "-s", "greedy_by_breadth", "-o", again)
    run("plan", model, "--no-record", "-s", "greedy_by_breadth", "-o", anew)
    assert "; greedy_by_breadth; " in (summary(again) or "")
    assert again.read_bytes() == anew.read_bytes()
    assert again.read_bytes().count(SUMMARY_KEY.encode()) == 1


def test_nobody_believes_it(model: Path, tmp_path: Path) -> None:
    honest, lying = tmp_path / f"honest{model.suffix}", tmp_path / f"lying{model.suffix}"
    run("plan", model, "--no-record", "-o", honest)
    planned = load_model(honest)
    assert isinstance(planned, Noted)
    planned.with_note(SUMMARY_KEY, LIE).save(lying)
    assert summary(lying) == LIE.decode()
    assert not edgemem.verify(lying)
    assert run("show", lying) == run("show", honest)
    if model.suffix == ".onnx":  # of which sessions find their recordings by the digest
        assert model_digest(lying.read_bytes()) == model_digest(honest.read_bytes()) == model_digest(model.read_bytes())


def test_it_goes_with_the_plan(tmp_path: Path) -> None:
    model = tmp_path / "m.tflite"
    model.write_bytes(build_tflite("mobilenet_v1_tflite", alpha=0.25, size=32, int8=True))
    planned, offsets = tmp_path / "planned.tflite", tmp_path / "offsets.tflite"
    run("plan", model, "-o", planned)
    opened = load_model(planned)
    assert isinstance(opened, MicroPlanned)
    opened.without_plan().save(f"{tmp_path}/without.tflite")
    assert (tmp_path / "without.tflite").read_bytes() == model.read_bytes()
    run("plan", planned, "--offsets-only", "-o", offsets)
    assert summary(offsets) is None


@pytest.mark.parametrize("name", [*HOSTILE, "t" * 5000])
def test_it_is_short_and_printable_whatever_the_target_is_called(name: str) -> None:
    text = plan_summary(replace(small(), target=replace(BUILT_IN["generic"], name=name)))
    assert len(text) < 256
    assert all(32 <= c < 127 for c in text)
    assert text.startswith(b"arena ")
