"""The distribution's name and version, and that every hint names the distribution that is ours."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from edgemem.errors import MissingDependencyError
from edgemem.system.distribution import DISTRIBUTION, VERSION, requirement

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_name_and_version_are_those_of_the_project() -> None:
    assert PROJECT["name"] == DISTRIBUTION
    assert PROJECT["version"] == VERSION


def test_every_extra_that_a_hint_names_exists() -> None:
    sources = [*(ROOT / "edgemem").rglob("*.py"), *(ROOT / "converters").rglob("*.py")]
    named = {extra for f in sources for extra in re.findall(r'extra="(\w+)"', f.read_text(encoding="utf-8"))}
    assert named
    assert named <= PROJECT["optional-dependencies"].keys()
    assert str(MissingDependencyError("scipy", extra="solvers", purpose="mip")).endswith(requirement("solvers"))


def test_no_text_tells_users_to_install_the_other_project() -> None:
    texts = [
        *(ROOT / "edgemem").rglob("*.py"),
        *(ROOT / "converters").rglob("*.py"),
        *(ROOT / "docs").rglob("*.md"),
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
    ]
    wrong = re.compile(r"pip install[^\n`]*?['\" ]edgemem(?![-\w/])|reinstall edgemem(?!-)|edgemem\[")
    found = [f"{f.relative_to(ROOT)}: {m[0]}" for f in texts for m in wrong.finditer(f.read_text(encoding="utf-8"))]
    assert not found
