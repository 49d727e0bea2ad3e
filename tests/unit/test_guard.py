"""`edgemem check`: budgets and baselines of several models."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from click.testing import CliRunner, Result

import edgemem
from edgemem.cli.main import main
from edgemem.errors import ModelError, PlanFileError
from edgemem.formats import Model
from edgemem.guard.check import Checked, CheckedModel
from edgemem.guard.settings import Tolerance, read_settings
from edgemem.guard.text import check_markdown, github_lines, junit_xml
from edgemem.planning.micro_arenas import micro_arenas
from edgemem.records.micro_builds import build_of
from edgemem.records.micro_tail import predicted_tail
from edgemem.targets import BUILT_IN
from models.build import build_tflite
from tests.difference_models import Layers
from tests.skips import needs_checkout
from tests.unit.test_hostile_names import HOSTILE

ARENA = 3 * 8 * 16 * 16 * 4  # a convolution's input and result, and the skip


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(a) for a in arguments])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "models").mkdir()
    Layers(skip=(1, 4)).save(tmp_path / "models" / "a.onnx")
    Layers().save(tmp_path / "models" / "b.onnx")
    return tmp_path


def settings(folder: Path, text: str, name: str = "models.toml") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_each_file_of_a_glob_is_checked_against_the_budget(folder: Path) -> None:
    file = settings(folder, f"[[model]]\npath = 'models/*.onnx'\nbudget = {ARENA - 1}\n")
    done = run("check", file)
    assert done.exit_code == 1
    assert f"FAIL  models/a.onnx: 24.00 KiB of 24.00 KiB, 1 bytes over the budget of {ARENA - 1:,}" in done.output
    assert "ok    models/b.onnx: 16.00 KiB of 24.00 KiB" in done.output
    assert run("check", settings(folder, f"[[model]]\npath = 'models/*.onnx'\nbudget = {ARENA}\n")).exit_code == 0


def test_a_model_that_grows_beyond_its_tolerance_fails(folder: Path) -> None:
    text = "[[model]]\npath = 'models/*.onnx'\ntolerance = '14%'\n"
    file = settings(folder, text)
    assert edgemem.check(file, update=True).is_right
    assert edgemem.check(file).is_right
    Layers(size=17).save(folder / "models" / "b.onnx")  # (17 / 16)**2 is 1.129; with padding 1.131
    assert edgemem.check(file).is_right
    settings(folder, text.replace("14%", "13%"))
    grown = edgemem.check(file)
    assert [m.status for m in grown.models] == ["ok", "grew"]
    assert "more than 13 %" in grown.models[1].text
    assert edgemem.check(file, update=True).is_right
    assert edgemem.check(file).is_right
    Layers().save(folder / "models" / "b.onnx")
    smaller = edgemem.check(file).models[1]
    assert (smaller.status, smaller.text.endswith("--update keeps the gain")) == ("ok", True)


def test_a_model_without_a_baseline_fails_once_there_is_one(folder: Path) -> None:
    file = settings(folder, "[[model]]\npath = 'models/*.onnx'\n")
    assert edgemem.check(file).is_right
    edgemem.check(file, update=True)
    (folder / "models" / "a.onnx").rename(folder / "models" / "c.onnx")
    found = edgemem.check(file)
    assert [m.status for m in found.models] == ["ok", "no baseline"]
    assert found.gone == ("models/a.onnx",)


def test_one_bad_model_ends_nothing(folder: Path) -> None:
    (folder / "models" / "aa.onnx").write_bytes(b"no model")
    (folder / "empty").mkdir()
    paths = ("models/*.onnx", "none/*.onnx", "empty")
    file = settings(folder, "".join(f"[[model]]\npath = '{path}'\n" for path in paths))
    found = edgemem.check(file)
    assert [m.status for m in found.models] == ["ok", "error", "ok", "error", "error"]
    assert not found.models[1].text.startswith(str(folder))
    assert found.models[1].text.startswith("the file ")
    assert [m.text for m in found.models[3:]] == ["there is no such file", "no model is in this folder"]
    edgemem.check(file, update=True)
    assert list(json.loads((folder / "models.baseline.json").read_text())["models"]) == [
        "models/a.onnx",
        "models/b.onnx",
    ]


def test_the_budget_of_a_microcontroller_counts_the_tail(tmp_path: Path) -> None:
    pytest.importorskip("ai_edge_litert")
    model = tmp_path / "m.tflite"
    model.write_bytes(build_tflite("mobilenet_v1_tflite", alpha=0.25, size=32, int8=True))
    planset = edgemem.plan(model)
    loaded = edgemem.load(model)
    best = planset.best_offsets
    assert best is not None
    assert isinstance(loaded, Model)
    arenas = micro_arenas(loaded, planset)
    assert arenas is not None
    needed = arenas.planned.total  # to prepare this model takes more than head and tail
    assert needed > best.size + predicted_tail(loaded.graph(), build_of(BUILT_IN["tflm"]))
    for budget, code in ((needed, 0), (needed - 1, 1)):
        assert run("check", settings(tmp_path, f"[[model]]\npath = 'm.tflite'\nbudget = {budget}\n")).exit_code == code


def test_sizes_that_a_file_leaves_open_are_bound(tmp_path: Path) -> None:
    import onnx

    from models.build import build

    onnx.save(build("dynamic", size="small"), tmp_path / "d.onnx")
    names = [d.dim_param for d in onnx.load(tmp_path / "d.onnx").graph.input[0].type.tensor_type.shape.dim]
    dims = ", ".join(f"{name} = 2" for name in names if name)
    file = settings(tmp_path, f"[[model]]\npath = 'd.onnx'\ndims = {{ {dims} }}\n[[model]]\npath = 'd.onnx'\n")
    found = edgemem.check(file)
    assert [m.status for m in found.models] == ["ok", "error"]
    assert found.models[0].name.startswith("d.onnx (")


def test_pyproject_has_them_in_a_table(folder: Path) -> None:
    file = settings(folder, "[tool.edgemem]\n[[tool.edgemem.model]]\npath = 'models/a.onnx'\n", "pyproject.toml")
    assert [m.name for m in edgemem.check(file).models] == ["models/a.onnx"]
    assert read_settings(file).baseline == folder / "pyproject.baseline.json"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "names no models"),
        ("[[model]]\n", "it needs a path"),
        ("[[model]]\npath = 'a'\nbugdet = 3\n", "unknown key 'bugdet'"),
        ("models = 3\n", "unknown key 'models'"),
        ("[[model]]\npath = 'a'\nbudget = 'much'\n", "'much' is no size"),
        ("[[model]]\npath = 'a'\ntolerance = '2 percent'\n", "is no size"),
        ("[[model]]\npath = 'a'\nbudget = -1\n", "is no text"),
        ("[[model]]\npath = 'a'\ndims = 3\n", "model 1"),
        ("[[model]\n", "is no TOML file"),
        ("baseline = 3\n[[model]]\npath = 'a'\n", "baseline is the name of a file"),
    ],
)
def test_a_wrong_file_of_budgets_is_named(text: str, why: str, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=why):
        edgemem.check(settings(tmp_path, text))


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"schema_version": 2, "models": {}}', '{"schema_version": 1}'])
def test_a_damaged_baseline_is_refused(text: str, folder: Path) -> None:
    file = settings(folder, "[[model]]\npath = 'models/a.onnx'\n")
    (folder / "models.baseline.json").write_text(text)
    with pytest.raises(PlanFileError, match="holds no baselines"):
        edgemem.check(file)


def test_tolerances_are_shares_or_bytes() -> None:
    assert Tolerance(share=0.02).allows(102, 100)
    assert not Tolerance(share=0.02).allows(103, 100)
    assert Tolerance(size=4).allows(104, 100)
    assert not Tolerance().allows(101, 100)
    assert str(Tolerance(share=0.02)) == "2 %"
    assert str(Tolerance(share=0.1)) == "10 %"


def test_every_form_tells_of_every_model(folder: Path) -> None:
    file = settings(folder, f"[[model]]\npath = 'models/*.onnx'\nbudget = {ARENA - 1}\n")
    data = json.loads(run("check", file, "--json").output)
    assert [(m["name"], m["status"], m["memory"]) for m in data["models"]] == [
        ("models/a.onnx", "over budget", ARENA),
        ("models/b.onnx", "ok", ARENA * 2 // 3),
    ]
    shown = run("check", file, "--markdown", "--github", "--junit", folder / "junit.xml").output
    assert "**1 of 2 models fail**" in shown
    assert f"::error file={folder / 'models' / 'a.onnx'},title=edgemem::models/a.onnx: 1 bytes over" in shown
    suite = ET.fromstring((folder / "junit.xml").read_text())
    assert {k: suite.get(k) for k in ("tests", "failures", "errors")} == {"tests": "2", "failures": "1", "errors": "0"}
    assert [case.get("name") for case in suite] == ["models/a.onnx", "models/b.onnx"]


ROOT = Path(__file__).parents[2]


@needs_checkout
@pytest.mark.parametrize(("budget", "code"), [(ARENA, 0), (ARENA - 1, 1)])
def test_the_step_of_the_action_fails_with_the_check(budget: int, code: int, folder: Path) -> None:
    settings(folder, f"[[model]]\npath = 'models/*.onnx'\nbudget = {budget}\n", "my models.toml")
    steps = re.findall(r"run: (.*)", (ROOT / "action.yml").read_text())
    assert len(steps) == 2
    programs = folder / "bin"
    programs.mkdir()
    (programs / "edgemem").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m edgemem "$@"\n')
    (programs / "edgemem").chmod(0o755)
    summary = folder / "summary.md"
    done = subprocess.run(
        ["bash", "-e", "-o", "pipefail", "-c", steps[1]],
        cwd=folder,
        env={
            "PATH": f"{programs}:/usr/bin:/bin",
            "SETTINGS": "my models.toml",
            "GITHUB_STEP_SUMMARY": str(summary),
            "PYTHONPATH": str(ROOT),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code, done.stderr
    assert done.stdout.count("::error file=models/a.onnx,title=edgemem::") == code
    assert "| models/a.onnx |" in summary.read_text()


@needs_checkout
def test_the_hook_runs_the_command_on_the_file_of_budgets(folder: Path) -> None:
    text = (ROOT / ".pre-commit-hooks.yaml").read_text()
    values = dict(re.findall(r"^ *-? *(\w+): (.*)$", text, re.MULTILINE))
    words = [*values["entry"].split(), *values["args"].strip("[]").split(", ")]
    settings(folder, "[[model]]\npath = 'models/*.onnx'\n", words[2])
    assert CliRunner().invoke(main, [words[1], str(folder / words[2])]).exit_code == 0
    watched = [
        n
        for n in ("a/b.onnx", "m.tflite", "models.toml", "models.baseline.json", "x.py")
        if re.search(values["files"], n)
    ]
    assert watched == ["a/b.onnx", "m.tflite", "models.toml", "models.baseline.json"]


def test_names_of_strangers_stay_names(tmp_path: Path) -> None:
    checked = Checked(tuple(CheckedModel(name, tmp_path / "m", "error", name) for name in HOSTILE), ())
    lines = github_lines(checked)
    assert len(lines) == len(HOSTILE)
    assert not any("\n" in line or "\r" in line for line in lines)
    suite = ET.fromstring(junit_xml(checked))
    assert len(suite) == len(HOSTILE)
    assert "<script" not in check_markdown(checked).replace("\\<", "")


@pytest.mark.parametrize("name", ["../home/.bashrc", "/x.baseline.json", "sub/x.baseline.json", ".bashrc", "setup.py"])
def test_a_file_of_budgets_decides_of_no_other_file(name: str, folder: Path) -> None:
    (folder.parent / "home").mkdir(exist_ok=True)
    (folder.parent / "home" / ".bashrc").write_text("precious\n")
    text = "[[model]]\npath = 'models/a.onnx'\n"
    done = run("check", settings(folder, f"baseline = '{name}'\n{text}"), "--update")
    assert (done.exit_code, "baseline is the name of a file beside it" in done.output) == (1, True)
    assert (folder.parent / "home" / ".bashrc").read_text() == "precious\n"
    file = settings(folder, f"baseline = 'mine.baseline.json'\n{text}")
    assert run("check", file, "--update").exit_code == 0
    assert (folder / "mine.baseline.json").is_file()
    (folder / "mine.baseline.json").unlink()
    (folder / "mine.baseline.json").symlink_to(folder.parent / "home" / ".bashrc")
    assert "symbolic link" in run("check", file, "--update").output
    assert (folder.parent / "home" / ".bashrc").read_text() == "precious\n"
    assert run("check", file, "--update", "--baseline", folder / "anywhere.txt").exit_code == 0
    assert json.loads((folder / "anywhere.txt").read_text())["models"]
    assert run("check", file, "--baseline", folder / "anywhere.txt").exit_code == 0


@pytest.mark.parametrize("path", ["../*.onnx", "{top}/*.onnx", "a/../../b.onnx", "**/**/**/x.onnx", "C:\\x.onnx"])
def test_paths_stay_in_the_folder_of_the_settings(path: str, folder: Path) -> None:
    text = f"[[model]]\npath = '{path.format(top=folder.parent)}'\n"
    with pytest.raises(ModelError, match="is no path from the folder of"):
        edgemem.check(settings(folder, text))


def test_no_link_leads_out_of_the_folder(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    outside = tmp_path_factory.mktemp("outside")
    Layers().save(outside / "secret.onnx")
    (folder / "away").symlink_to(outside)
    (folder / "models" / "c.onnx").symlink_to(outside / "secret.onnx")
    (folder / "models" / "d.onnx").symlink_to("a.onnx")
    paths = ("models/c.onnx", "away/secret.onnx", "away/*.onnx", "away", "aw*/**/*.onnx", "*/*.onnx")
    found = edgemem.check(settings(folder, "".join(f"[[model]]\npath = '{path}'\n" for path in paths)))
    assert [m.status for m in found.models] == ["error"] * 5 + ["ok"] * len(found.models[5:])
    assert "link leads out" in found.models[0].text
    assert [m.name for m in found.models[5:]] == ["models/a.onnx", "models/b.onnx"]
    target = f"[[model]]\npath = 'models/a.onnx'\ntarget = '../{outside.name}/t.toml'\n"
    with pytest.raises(ModelError, match="is no file in the folder of the settings"):
        edgemem.check(settings(folder, target))


def test_a_name_in_the_baseline_is_no_command_in_a_log(folder: Path) -> None:
    file = settings(folder, "[[model]]\npath = 'models/a.onnx'\n")
    run("check", file, "--update")
    kept = folder / "models.baseline.json"
    data = json.loads(kept.read_text())
    data["models"]["x\n::error::forged ##[add-mask]o"] = data["models"]["models/a.onnx"]
    kept.write_text(json.dumps(data))
    lines = run("check", file, "--github").output.splitlines()
    (forged,) = (k for k, line in enumerate(lines) if "forged" in line)
    assert not lines[forged].startswith("::")
    token = re.fullmatch("::stop-commands::([0-9a-f]{32})", lines[0])
    assert token is not None
    assert lines[-1] == f"::{token[1]}::"
