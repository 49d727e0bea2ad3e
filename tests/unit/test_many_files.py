"""`plan` and `verify` on several files, folders and globs: one bad model ends nothing."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from pathlib import Path, PurePath

import pytest
from click.testing import CliRunner, Result

import edgemem
from edgemem.cli.main import main
from edgemem.records.problem import Problem, UsageRecord
from edgemem.system.found_files import found_files, names_several
from tests.difference_models import Layers
from tests.terminal import in_terminal

RECORDS = Problem([UsageRecord(f"t{k}", k % 7, k % 7 + k % 5 + 1, 16 * (k * 37 % 23 + 1)) for k in range(40)])
CSV = "tensor,first_op,last_op,size\na,0,1,16\nb,1,2,24\n"
LONG = "a_rather_long_name_of_a_model_that_somebody_exported_on_a_morning_in_november.onnx"


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(a) for a in arguments])


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with models/a.onnx, models/bad.onnx and models/sub/b.onnx."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EDGEMEM_CACHE", str(tmp_path / ".cache"))
    (tmp_path / "models" / "sub").mkdir(parents=True)
    Layers().save(tmp_path / "models" / "a.onnx")
    Layers(skip=(1, 4)).save(tmp_path / "models" / "sub" / "b.onnx")
    (tmp_path / "models" / "bad.onnx").write_bytes(b"no model")
    return tmp_path


def arena(path: Path | str) -> int:
    best = edgemem.plan(path).best_offsets
    assert best is not None
    return best.size


def rows(output: str) -> dict[str, str]:
    """The text behind each name of a file that begins a line."""
    found = [line.split(maxsplit=1) for line in output.splitlines() if line and not line.startswith(" ")]
    return {words[0]: words[1] for words in found if len(words) > 1}


def test_one_bad_model_ends_nothing(folder: Path) -> None:
    done = run("plan", "models", "--no-record", "-o", "out")
    assert done.exit_code == 1
    assert list(rows(done.output)) == ["file", "models/a.onnx", "models/bad.onnx", "models/sub/b.onnx", "2"]
    assert "FAILED: the file " in rows(done.output)["models/bad.onnx"]
    assert rows(done.output)["models/a.onnx"].startswith("16.00 KiB")
    assert rows(done.output)["models/sub/b.onnx"].startswith("24.00 KiB")
    assert done.output.endswith("\n2 of 3 planned and written to out, 1 failed\n")
    assert sorted(p.relative_to(folder / "out").as_posix() for p in (folder / "out").rglob("*.onnx")) == [
        "a.onnx",
        "sub/b.onnx",
    ]
    for name in ("a.onnx", "sub/b.onnx"):
        assert not edgemem.verify(folder / "out" / name)
        single = run("plan", folder / "models" / name, "--no-record", "-o", "single.onnx")
        assert single.exit_code == 0
        assert (folder / "out" / name).read_bytes() == (folder / "single.onnx").read_bytes()


@pytest.mark.usefixtures("folder")
def test_the_exit_code_is_the_largest_that_a_file_would_have_alone() -> None:
    small = arena("models/a.onnx")
    assert run("plan", "models/*.onnx").exit_code == 1
    done = run("plan", "models", "--budget", small)
    assert done.exit_code == 3
    assert "bytes required" in rows(done.output)["models/sub/b.onnx"]
    assert run("plan", "models/a.onnx", "models/sub", "--budget", 2 * small).exit_code == 0


@pytest.mark.usefixtures("folder")
def test_verify_has_a_row_for_every_file() -> None:
    run("plan", "models", "--no-record", "-o", "out")
    shutil.copy("models/a.onnx", "out/unplanned.onnx")
    edgemem.save(None, edgemem.plan("models/a.onnx"), "out/alone.edgemem")
    done = run("verify", "out")
    assert done.exit_code == 4
    found = rows(done.output)
    assert [found[f"out/{name}"].split()[-1] for name in ("a.onnx", "alone.edgemem", "sub/b.onnx")] == ["right"] * 3
    assert "FAILED: unplanned.onnx carries no plan" in found["out/unplanned.onnx"]
    assert done.output.endswith("\n3 of 4 right, 1 failed\n")
    assert run("verify", "out/a.onnx", "out/sub").exit_code == 0


def test_a_wrong_plan_among_right_ones_is_found(folder: Path) -> None:
    run("plan", "models", "--no-record", "-o", "out")
    stale = Path("out/a.onnx").read_bytes()
    Layers(size=17).save(folder / "other.onnx")
    from edgemem.formats import load_model

    plan = load_model(Path("out/a.onnx")).plan()
    assert plan is not None
    load_model(folder / "other.onnx").with_plan(plan, edgemem.plan("models/a.onnx")).save(Path("out/a.onnx"))
    assert Path("out/a.onnx").read_bytes() != stale
    done = run("verify", "out", "--json")
    assert done.exit_code == 4
    wrong, right = json.loads(done.output)["files"]
    assert (right["result"]["right"], right["error"]) == (True, None)
    assert wrong["error"]
    assert (wrong["result"] or {}).get("right") is not True
    assert "FAILED" in rows(run("verify", "out").output)["out/a.onnx"]


@pytest.mark.usefixtures("folder")
def test_json_has_an_entry_for_every_file() -> None:
    done = run("plan", "models", "nosuch.onnx", "--json")
    assert done.exit_code == 1
    a, bad, b, none = json.loads(done.output)["files"]
    alone = json.loads(run("plan", "models/a.onnx", "--json").output)
    assert a["result"]["lower_bounds"] == alone["lower_bounds"]
    assert (a["error"], b["error"]) == (None, None)
    assert bad["error"]
    no_file = {"status": "no file", "error": "there is no such file", "result": None}
    assert none == {"name": "nosuch.onnx", "options": "", **no_file}


def test_an_output_that_is_or_looks_like_a_file_is_refused(folder: Path) -> None:
    (folder / "file").write_bytes(b"kept")
    for output, why in (("file", "is a file"), ("planned.onnx", "looks like a file")):
        done = run("plan", "models", "-o", output)
        assert (done.exit_code, why in done.output) == (2, True), done.output
    assert (folder / "file").read_bytes() == b"kept"
    alone = run("plan", "models/a.onnx", "-o", "models")
    assert (alone.exit_code, "is a directory" in alone.output) == (2, True)


def test_two_plans_of_one_name_are_refused_before_anything_is_planned(folder: Path) -> None:
    shutil.copy("models/a.onnx", "a.onnx")
    done = run("plan", "a.onnx", "models/a.onnx", "-o", "out")
    assert done.exit_code == 2
    assert "a.onnx and models/a.onnx would both be written to out/a.onnx" in done.output.replace("\n", " ")
    assert not (folder / "out").exists()
    assert run("plan", "models/a.onnx", "./models/a.onnx", "-o", "out", "--no-record").exit_code == 0  # one file


@pytest.mark.parametrize("output", ["models", "link", "models/../models"])
def test_no_plan_replaces_a_file_that_is_planned(output: str, folder: Path) -> None:
    (folder / "link").symlink_to("models")
    before = Path("models/a.onnx").read_bytes()
    done = run("plan", "models", "-o", output)
    assert (done.exit_code, "would replace models/a.onnx" in done.output) == (2, True)
    os.link("models/a.onnx", "models/sub/a.onnx")
    assert run("plan", "models/a.onnx", "models/bad.onnx", "-o", "models/sub").exit_code == 2
    assert Path("models/a.onnx").read_bytes() == before


def test_what_was_written_is_not_planned_again(folder: Path) -> None:
    first, second = (run("plan", ".", "-o", "planned", "--no-record") for _ in range(2))
    assert list(rows(first.output)) == list(rows(second.output))
    assert not (folder / "planned" / "planned").exists()


def test_usage_records_become_plans_alone(folder: Path) -> None:
    (folder / "r.csv").write_text(CSV)
    assert run("plan", "r.csv", "models/a.onnx", "--no-record", "-o", "out").exit_code == 0
    assert sorted(p.name for p in (folder / "out").iterdir()) == ["a.onnx", "r.edgemem"]


@pytest.mark.usefixtures("folder")
def test_a_model_option_belongs_to_one_plan() -> None:
    assert run("verify", "models", "--model", "models/a.onnx").exit_code == 2
    assert run("plan", "nosuch.onnx").output == "edgemem: no file nosuch.onnx [E101]\n"


def test_what_a_folder_and_a_glob_name(folder: Path) -> None:
    for name in ("models/.hidden/h.onnx", "models/notes.txt", "models/T.TFLITE", "models/x[1].onnx"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(b"")
    assert [f.name for f in found_files(["models"])] == [
        f"models/{n}" for n in ("T.TFLITE", "a.onnx", "bad.onnx", "sub/b.onnx", "x[1].onnx")
    ]
    assert [(f.name, f.inside) for f in found_files(["models/s*/*.onnx"])] == [
        ("models/sub/b.onnx", PurePath("sub/b.onnx"))
    ]
    assert [f.name for f in found_files([f"{folder}/models/**/b.onnx"])] == [f"{folder}/models/sub/b.onnx"]
    assert [f.name for f in found_files(["models/x[1].onnx"])] == ["models/x[1].onnx"]
    assert not names_several("models/x[1].onnx")
    assert [f.path for f in found_files(["models/none*", "none", ""])] == [None] * 3
    assert [f.name for f in found_files(["sub/../*/b.onnx"], folder=folder / "models")] == ["sub/../sub/b.onnx"]


def shown_at(columns: int, *arguments: str) -> str:
    """What a terminal shows on stdout, without escape sequences."""
    got = in_terminal(*arguments, columns=columns, with_errors=False)
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", got).replace("\r\n", "\n")


@pytest.mark.skipif(sys.platform != "linux", reason="signals come another way there")
@pytest.mark.parametrize(
    ("command", "is_long"),
    [
        ("plan models", False),
        ("plan models", True),
        ("plan models/a.onnx -o p.onnx", False),
        ("verify models", True),
        ("diff models/a.onnx LONG", True),
    ],
)
def test_no_word_is_broken_at_80_columns(command: str, is_long: bool, folder: Path) -> None:
    if is_long:
        Layers().save(folder / "models" / LONG)
    arguments = command.replace("LONG", f"models/{LONG}").split()
    wide, shown = (shown_at(columns, *arguments) for columns in (400, 80))
    words = {word for word in wide.split() if not re.search(r"\d", word)}
    # In a narrow terminal the headings stand in the rows; a time is in seconds in one run and not in the other.
    others = {"arena", "lower", "bound", "plans", "were", "in", "cache", "ms", "s"}
    allowed = words | {f"{word}," for word in words} | others
    assert {word for word in shown.split() if not re.search(r"\d", word)} <= allowed
    assert all(len(line) <= 80 for line in shown.splitlines() if LONG not in line)


@pytest.mark.skipif(sys.platform != "linux", reason="signals come another way there")
def test_no_name_of_a_tensor_is_broken_at_80_columns(tmp_path: Path) -> None:
    name = "model/encoder/stage_two/a_block_with_a_long_name_in_it/"
    model = Layers(names=name).save(tmp_path / "m.onnx")
    assert run("plan", model, "--no-record", "-o", tmp_path / "planned.onnx").exit_code == 0
    shown = shown_at(80, "show", str(tmp_path / "planned.onnx"), "--tensors", "--profile")
    for label in (*(f"conv{k}" for k in range(6)), "add"):
        assert len(re.findall(rf"{name}{label}(?:,|\s)", shown)) >= 2 - (label == "conv5")
    assert shown.count(name) == shown.count("a_block_with_a_long")
    assert max(map(len, shown.splitlines())) <= 80


@pytest.mark.usefixtures("folder")
def test_nothing_is_said_of_progress_in_a_pipe() -> None:
    assert run("plan", "models/a.onnx", "models/sub").stderr == ""


@pytest.mark.skipif(sys.platform != "linux", reason="signals come another way there")
@pytest.mark.parametrize(
    ("command", "line"),
    [
        ("plan models", "planning: 3 of 3, 1 failed"),
        ("verify models", "verifying: 3 of 3, 3 failed"),
        ("check models.toml", "planning: 3 of 3, 1 failed: models/sub/b.onnx"),
    ],
)
def test_a_terminal_sees_how_far_it_is(command: str, line: str, folder: Path) -> None:
    (folder / "models.toml").write_text("[[model]]\npath = 'models'\n")
    assert line in in_terminal(*command.split(), columns=200)


def test_planning_says_the_best_so_far() -> None:
    lines: list[str] = []
    planset = edgemem.plan(RECORDS, strategy="auto", progress=lines.append)
    best = min(plan.size for plan in planset.offsets)
    said = [re.fullmatch(r"\S.*; best so far ([\d,]+), no less than ([\d,]+)", line) for line in lines]
    figures = [tuple(int(figure.replace(",", "")) for figure in match.groups()) for match in said if match]
    assert said[0] is None  # nothing is planned before the first strategy
    assert figures
    offsets = figures[: len(planset.offsets) - 1]
    assert all(bound <= best <= size for size, bound in offsets)
    assert [size for size, _ in offsets] == sorted((size for size, _ in offsets), reverse=True)
