"""The distribution's name and version, and that every hint names the distribution that is ours."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from edgemem.errors import MissingDependencyError
from edgemem.system.distribution import DISTRIBUTION, PACKAGES, VERSION, requirement

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_name_and_version_are_those_of_the_project() -> None:
    assert PROJECT["name"] == DISTRIBUTION
    assert PROJECT["version"] == VERSION


def test_every_extra_that_an_error_names_exists() -> None:
    sources = [*(ROOT / "edgemem").rglob("*.py"), *(ROOT / "converters").rglob("*.py")]
    named = {extra for f in sources for extra in re.findall(r'extra="(\w+)"', f.read_text(encoding="utf-8"))}
    assert named
    assert named <= PROJECT["optional-dependencies"].keys()


def test_hints_name_packages_as_the_extras_do() -> None:
    extras = PROJECT["optional-dependencies"]
    listed = {
        r.split(";")[0].strip() for name in extras if name not in ("test", "test-torch", "dev") for r in extras[name]
    }
    assert {f"{package}{versions}" for package, versions in PACKAGES.items()} <= listed
    error = MissingDependencyError("scipy", purpose="mip")
    assert str(error) == "mip needs scipy: pip install 'scipy>=1.11'"
    assert str(MissingDependencyError("unknown", purpose="this")).endswith("pip install unknown")
    assert requirement("solvers") == "'ortools>=9.10' 'scipy>=1.11'"
    assert requirement() == DISTRIBUTION


def test_no_text_tells_users_to_install_what_is_not_there() -> None:
    texts = [
        *(ROOT / "edgemem").rglob("*.py"),
        *(ROOT / "converters").rglob("*.py"),
        *(ROOT / "docs").rglob("*.md"),
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
    ]
    wrong = re.compile(r"pip install[^\n`]*?['\" ]edgemem(?![-\w/])|reinstall edgemem(?!-)|edgemem(?:-planner)?\[")
    found = [f"{f.relative_to(ROOT)}: {m[0]}" for f in texts for m in wrong.finditer(f.read_text(encoding="utf-8"))]
    assert not found
