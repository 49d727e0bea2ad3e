"""Codes of errors: one a class, each with its section, and each seen by a test."""

from __future__ import annotations

import ast
import pickle
import re
import traceback
from pathlib import Path

import pytest
from click.testing import CliRunner

from edgemem import errors
from edgemem.cli.failures import failure_of
from edgemem.cli.main import main

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "errors.md").read_text(encoding="utf-8")
CLASSES = {name: getattr(errors, name) for name in errors.__all__ if name not in ("EdgememError", "error_named")}
SECTIONS = dict(re.findall(r"^## (E\d{3})\n(.*?)(?=^#|\Z)", PAGE, re.MULTILINE | re.DOTALL))
# Sections whose example the page's own test does not run -> the file of a test that expects the error.
ELSEWHERE = {
    "TilingError": "runtime/test_tiles.py",
    "NumericDifferenceError": "runtime/test_tiles.py",
    "PassError": "runtime/test_pass_lies.py",
    "SolverError": "unit/test_offsets_strategies.py",
    "RecomputationError": "torch/test_rematerialize_unseen.py",
}


def test_every_class_has_a_code_of_its_own() -> None:
    codes = [vars(kind)["code"] for kind in CLASSES.values()]
    assert len(set(codes)) == len(codes)
    assert all(re.fullmatch(r"E[1-6]\d\d", code) for code in codes)


def test_the_tree_has_every_class_below_its_base() -> None:
    drawn = re.findall(r"^ {4}([│ ]*)[├└]── (\w+) +(E\d{3})", errors.__doc__ or "", re.MULTILINE)
    branch = ["EdgememError"]
    for indent, name, code in drawn:
        branch[len(indent) // 4 + 1 :] = [name]
        assert (CLASSES[name].__base__.__name__, CLASSES[name].code) == (branch[-2], code)
    assert {name for _, name, _ in drawn} == set(CLASSES)


def test_the_page_has_a_row_and_a_section_of_each_class() -> None:
    rows = re.findall(r"^\| \[(E\d+)\]\(#(e\d+)\) \| `(\w+)` \| (\d) \|$", PAGE, re.MULTILINE)
    assert {(name, code) for code, _, name, _ in rows} == {(name, kind.code) for name, kind in CLASSES.items()}
    assert [code for code, *_ in rows] == list(SECTIONS)
    for code, anchor, name, status in rows:
        assert anchor == code.lower()
        error = CLASSES[name].__new__(CLASSES[name])
        assert failure_of(error)[1] == int(status)


@pytest.mark.parametrize("name", CLASSES)
def test_every_code_is_seen_by_a_test(name: str) -> None:
    section = SECTIONS[CLASSES[name].code]
    if name in ELSEWHERE:
        tree = ast.parse((ROOT / "tests" / ELSEWHERE[name]).read_text(encoding="utf-8"))
        calls = [n for n in ast.walk(tree) if isinstance(n, ast.Call) and ast.unparse(n.func) == "pytest.raises"]
        assert name in {ast.unparse(n.args[0]) for n in calls}
    else:
        examples = re.findall(r"^```(?:console|text)\n(.*?)^```", section, re.MULTILINE | re.DOTALL)
        assert any(CLASSES[name].code in example for example in examples)


def test_a_command_and_a_traceback_name_the_code() -> None:
    error = errors.PlanFileError("it is damaged")
    assert str(error) == "it is damaged"
    assert failure_of(error)[0] == "it is damaged [E303]"
    for seen in (error, pickle.loads(pickle.dumps(error))):
        *_, message, note = traceback.format_exception(seen)
        assert message.endswith("PlanFileError: it is damaged\n")
        assert note == "E303: `edgemem help E303` says what to do\n"


def test_help_explains_a_code_in_80_columns() -> None:
    done = CliRunner().invoke(main, ["help", "e304"])
    assert done.exit_code == 0
    assert done.output.startswith("E304 NoPlanError\n\nThe file is a model without a plan.")
    prose = done.output.partition("$ ")[0]
    assert max(map(len, prose.splitlines())) < 80
    assert "E401" not in done.output
    refused = CliRunner().invoke(main, ["help", "E999"])
    assert refused.exit_code == 2
    assert "no command 'E999'" in refused.output
