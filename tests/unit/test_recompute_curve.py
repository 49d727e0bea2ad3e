"""`edgemem curve --recompute`: its picture, its data, and what it says where nothing helps."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

import pytest
from click.testing import CliRunner

from edgemem.cli.main import main
from edgemem.report.recompute_curve import RecomputeCurve, RecomputePoint, recompute_curve_data, recompute_curve_svg
from models.tflite_networks import mobilenet_v2
from tests.branchy import wired_tflite

if TYPE_CHECKING:
    from pathlib import Path

POINTS = (RecomputePoint(4096, 1000, 1.0, 10), RecomputePoint(3072, 1200, 1.2, 12))


@pytest.mark.parametrize("points", [POINTS, POINTS[:1]])
def test_the_picture_is_xml_with_a_mark_for_each_point_and_the_bound(points: tuple[RecomputePoint, ...]) -> None:
    picture = ET.fromstring(recompute_curve_svg(RecomputeCurve(points, 2048, 5000), "a <model>\x00"))
    assert sum(element.tag.endswith("circle") for element in picture.iter()) == len(points)
    titles = [element.text or "" for element in picture.iter() if element.tag.endswith("title")]
    assert any("4,096" in title for title in titles)
    assert any("lower bound: 2,048" in title for title in titles)


def test_the_data_has_ratios() -> None:
    data = recompute_curve_data(RecomputeCurve(POINTS, 2048, 5000, "add"))
    assert [point["peak_ratio"] for point in data["points"]] == [1.0, 0.75]
    assert (data["lower_bound"], data["given_peak"], data["widest"]) == (2048, 5000, "add")


@pytest.mark.full
def test_the_command_prints_a_front_and_writes_a_picture(tmp_path: Path) -> None:
    model, picture = tmp_path / "m.tflite", tmp_path / "m.svg"
    model.write_bytes(wired_tflite(16, 2, int8=True))
    options = ("--recompute", "--points", "4", "--effort", "fast")
    answer = CliRunner().invoke(main, ["curve", str(model), *options, "--json", "-o", str(picture)])
    assert answer.exit_code == 0, answer.output
    told = json.loads(answer.output)
    assert len(told["points"]) > 1
    for one, other in pairwise(told["points"]):
        assert told["lower_bound"] <= other["peak"] < one["peak"] <= told["given_peak"]
        assert one["macs_ratio"] <= other["macs_ratio"] <= 2
    assert picture.read_text().startswith("<svg")


def test_where_nothing_helps_the_reason_is_said(tmp_path: Path) -> None:
    model = tmp_path / "m.tflite"
    model.write_bytes(mobilenet_v2(alpha=0.3, size=80, int8=True, classes=2))
    answer = CliRunner().invoke(main, ["curve", str(model), "--recompute", "--effort", "fast"])
    assert answer.exit_code == 0, answer.output
    text = " ".join(answer.output.split())
    assert "Running operators again does not make this peak lower" in text
    assert "--stream auto" in text


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--recompute", "--measure"), "--measure is not for curves with --recompute"),
        (("--recompute", "--overlap", "none"), "--overlap is not for curves with --recompute"),
        (("--max-macs", "1.5"), "--max-macs is for curves with --recompute"),
        (("--recompute", "-o", "curve.png"), "give -o FILE.svg"),
    ],
)
def test_options_of_the_other_curve(options: tuple[str, ...], told: str, tmp_path: Path) -> None:
    model = tmp_path / "m.tflite"
    model.write_bytes(b"")
    answer = CliRunner().invoke(main, ["curve", str(model), *options])
    assert answer.exit_code == 2
    assert told in " ".join(answer.output.split())
