"""The curve of memory against operators: its picture, its data, and the command that prints it."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

import pytest
from click.testing import CliRunner

from edgemem.cli.main import main
from edgemem.commands.curve import _spread, _with, find_curve
from edgemem.passes.streaming.region import StripeStage
from edgemem.passes.streaming.stages import StripeChoice, choose_stages
from edgemem.report.curve import CurvePoint, curve_data, curve_svg
from edgemem.runtime.tflite_file import open_model
from edgemem.targets import BUILT_IN
from models.tflite_networks import mobilenet_v2

if TYPE_CHECKING:
    from pathlib import Path

POINTS = (
    CurvePoint("", 64, 1000, 76_816, 69_168),
    CurvePoint("3:5:2", 75, 1010, 50_656, 71_776, latency_ratio=0.98, is_measured=True, exact=True),
)


def test_data_has_what_each_point_takes_beside_the_first() -> None:
    first, second = curve_data(POINTS)
    assert (first["extra_operators"], first["arena_ratio"], first["file_ratio"]) == (0, 1.0, 1.0)
    assert (second["extra_operators"], second["arena"], second["file_ratio"]) == (11, 122_432, 1.01)
    assert json.loads(json.dumps(second)) == second


@pytest.mark.parametrize("points", [POINTS, POINTS[:1]])
def test_the_picture_is_xml_with_a_mark_for_each_point(points: tuple[CurvePoint, ...]) -> None:
    picture = ET.fromstring(curve_svg(points, "a <model> & its\x00 arena"))
    marks = [element for element in picture.iter() if element.tag.endswith("circle")]
    assert len(marks) == len(points)
    assert any("76,816" in (title.text or "") for title in picture.iter() if title.tag.endswith("title"))


@pytest.mark.full
def test_the_command_prints_a_front_and_writes_a_picture(tmp_path: Path) -> None:
    model, picture = tmp_path / "m.tflite", tmp_path / "m.svg"
    model.write_bytes(mobilenet_v2(alpha=0.3, size=80, int8=True, classes=2))
    answer = CliRunner().invoke(main, ["curve", str(model), "--json", "--points", "4", "-o", str(picture)])
    assert answer.exit_code == 0, answer.output
    points = json.loads(answer.output)["points"]
    assert points[0]["stages"] == ""
    assert points[-1]["arena"] <= 122_096
    assert 2 <= len(points) <= 4
    for one, other in pairwise(points):
        assert other["arena"] < one["arena"]
        assert other["operators"] > one["operators"]
        assert other["macs_ratio"] == 1.0
    assert picture.read_text().startswith("<svg")
    table = CliRunner().invoke(main, ["curve", str(model), "--points", "3"], env={"COLUMNS": "80"})
    assert table.exit_code == 0
    assert all(len(line) <= 80 or line.startswith(("arena", "the tail")) for line in table.output.splitlines())
    assert f"--stream {points[-1]['stages']}" in table.output


def test_a_picture_has_to_be_svg(tmp_path: Path) -> None:
    model = tmp_path / "m.tflite"
    model.write_bytes(b"")
    assert CliRunner().invoke(main, ["curve", str(model), "-o", "curve.png"]).exit_code == 2


@pytest.mark.full
def test_the_curve_ends_at_the_stages_that_plan_chooses(tmp_path: Path) -> None:
    """The plan of stages with the least bound need not be the least plan."""
    rules = BUILT_IN["tflm"].changed(kernels="tflm-reference", slots=True)
    model = tmp_path / "m.tflite"
    model.write_bytes(mobilenet_v2(alpha=0.3, size=80, int8=True, classes=2))
    choice = choose_stages(open_model(model).graph(), rules)
    for most in (2, 3, 8):
        points = find_curve(model, rules, most=most)
        assert len(points) <= most
        assert points[-1].arena <= choice.arena


def test_least_is_among_the_points_in_the_order_of_operators() -> None:
    front = [StripeChoice((StripeStage(0, 1, k),), 1000 - 100 * k, None, 10 * k, k) for k in range(1, 6)]
    other = StripeChoice((StripeStage(0, 2, 9),), 700, 450, 40, 4)
    for most in (2, 3, 5, 9):
        chosen = _with(other, front, most)
        assert len(chosen) <= most
        assert other in chosen
        assert [c.operators for c in chosen] == sorted(c.operators for c in chosen)
        assert _with(front[-1], front, most) == _spread(front, most)


def test_fewer_operators_than_the_model_has(tmp_path: Path) -> None:
    model = tmp_path / "m.tflite"
    model.write_bytes(mobilenet_v2(alpha=0.3, size=80, int8=True, classes=2))
    answer = CliRunner().invoke(main, ["curve", str(model), "--max-ops", "10"])
    assert answer.exit_code == 1
    assert "10 are allowed" in answer.output
