"""`edgemem remat`: its figures are those of the simulator; its picture shows them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from click.testing import CliRunner, Result

from edgemem.cli.main import main
from edgemem.remat.budgets import cutoff_budget, minimum_budget
from edgemem.remat.policies import POLICIES
from edgemem.remat.simulation import simulate
from edgemem.report.remat_svg import OverheadCurve, overhead_svg
from edgemem.trace.operator_log_file import save_operator_log
from tests.operator_logs import chain

LOG = chain(24)
SVG = "{http://www.w3.org/2000/svg}"


def edgemem(*args: object) -> Result:
    return CliRunner().invoke(main, [str(a) for a in args])


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "chain.npz"
    save_operator_log(LOG, path)
    return path


def test_the_figures_are_those_of_the_simulator(file: Path) -> None:
    done = edgemem("remat", file, "--budget", "0.5", "--budget", "8MiB,.75", "--compare", "dtr,coop", "--json")
    assert done.exit_code == 0, done.output
    data: dict[str, Any] = json.loads(done.output)
    assert (data["calls"], data["cost"], data["peak"]) == (len(LOG.cost), LOG.total_cost, LOG.peak)
    assert [row["policy"] for row in data["policies"]] == ["coop", "dtr"]
    for row in data["policies"]:
        assert row["minimum_budget"] == minimum_budget(LOG, row["policy"])
        assert row["cutoff_budget"] == cutoff_budget(LOG, row["policy"])
        assert [run["budget"] for run in row["budgets"]] == [LOG.peak // 2, 8 << 20, LOG.peak * 3 // 4]
        for run in row["budgets"]:
            own = simulate(LOG, run["budget"], row["policy"])
            assert (run["overhead"], run["evictions"], run["ended"]) == (own.overhead, own.evictions, own.ended)


def test_all_keys_are_documented(file: Path) -> None:
    data = json.loads(edgemem("remat", file, "--budget", "0.5", "--json").output)
    page = (Path(__file__).parents[2] / "docs" / "json.md").read_text(encoding="utf-8")
    section = page.partition("## `edgemem remat --json`")[2].partition("\n## ")[0]
    for keys in (data, data["policies"][0], data["policies"][0]["budgets"][0]):
        assert [key for key in keys if f"`{key}`" not in section] == []


def test_the_first_line_is_the_answer_and_all_fits_into_80_columns(file: Path) -> None:
    done = edgemem("remat", file, "--compare", "all")
    run = simulate(LOG, int(0.9 * LOG.peak), "coop")
    lines = done.output.splitlines()
    assert done.exit_code == 0
    told = f"{run.overhead:.1%} overhead, {run.recomputed_calls} calls run again"
    assert lines[0] == f"coop in 23.40 MiB (0.900 of the peak): {told}"
    assert all(name in done.output for name in POLICIES)
    assert max(map(len, lines)) <= 80


def test_many_budgets_are_shown_in_several_tables(file: Path) -> None:
    budgets = ",".join(f"0.{n}" for n in range(40, 96, 5))
    done = edgemem("remat", file, "--budget", budgets)
    assert max(map(len, done.output.splitlines())) <= 80
    assert [line.split()[:1] for line in done.output.splitlines()].count(["overhead"]) == 3


def test_what_does_not_run_is_said(file: Path) -> None:
    done = edgemem("remat", file, "--budget", "2MiB,6MiB", "--limit", "0.1", "--quick")
    assert "out of memory at event" in done.output
    assert "recomputing takes too long, at event" in done.output
    assert "oom" in done.output
    assert "minimum" not in done.output


@pytest.mark.parametrize(
    ("options", "code", "told"),
    [
        (("--budget", "0"), 2, "neither a part of the peak"),
        (("--budget", "0.0"), 2, "neither a part of the peak"),
        (("--budget", "1000.0"), 2, "neither a part of the peak"),
        (("--budget", "much"), 2, "is no size"),
        (("--budget", "-1"), 2, "is no size"),
        (("--policy", "lru"), 2, "no policy of rematerialisation 'lru'"),
        (("--compare", "dtr,lru"), 2, "no policy of rematerialisation 'lru'"),
        (("--limit", "-1"), 2, "--limit"),
        (("-o", "curve.png"), 2, "FILE.svg"),
    ],
)
def test_wrong_options_are_refused(options: tuple[str, ...], code: int, told: str, file: Path) -> None:
    done = edgemem("remat", file, *options)
    assert done.exit_code == code
    assert told in done.output


def test_files_that_are_no_logs_are_refused(tmp_path: Path) -> None:
    assert edgemem("remat", tmp_path / "none.npz").exit_code == 1
    (tmp_path / "run.log").write_text("{}")
    done = edgemem("remat", tmp_path / "run.log")
    assert done.exit_code == 1
    assert "run.log: line 1: INSTRUCTION is None" in done.output


def test_the_picture_has_a_line_for_each_policy(file: Path, tmp_path: Path) -> None:
    picture = tmp_path / "curve.svg"
    done = edgemem("remat", file, "--compare", "dtr,dte", "--budget", "0.9,0.7,0.5,0.05", "-o", picture)
    assert f"wrote {picture}" in done.output
    root = ET.fromstring(picture.read_text())
    assert len(root.findall(f"{SVG}polyline")) == 3
    assert len(root.findall(f"{SVG}circle")) == 9
    assert len(root.findall(f"{SVG}path")) == 3  # crosses at 0.05


def test_points_stand_where_their_figures_say() -> None:
    curve = OverheadCurve("<a>", ((0.5, 0.02), (1.0, 0.0), (0.25, None)), minimum=0.25)
    root = ET.fromstring(overhead_svg([curve], "t\x00itle"))
    (low, high) = ((float(c.attrib["cx"]), float(c.attrib["cy"])) for c in root.findall(f"{SVG}circle"))
    cross, _ = root.findall(f"{SVG}path")[0].attrib["d"][1:].split(maxsplit=1)
    assert float(cross) < low[0] < high[0]
    assert low[1] < high[1]  # more overhead stands higher
    assert "<a>" in {text.text for text in root.iter(f"{SVG}text")}


def test_a_picture_of_nothing_is_one() -> None:
    assert ET.fromstring(overhead_svg([], "nothing")).tag == f"{SVG}svg"
    assert (
        ET.fromstring(overhead_svg([OverheadCurve("a", ((0.5, 0.0),))], "one point")).find(f"{SVG}circle") is not None
    )
