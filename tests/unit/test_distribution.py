"""The distribution's name and version, and that every hint names the distribution that is ours."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest
from click.testing import CliRunner
from onnx import parser

import edgemem
from edgemem import _kernels
from edgemem.cli.main import main
from edgemem.errors import MissingDependencyError
from edgemem.system.distribution import DISTRIBUTION, PACKAGES, VERSION, requirement
from tests.skips import needs_checkout

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_name_and_version_are_those_of_the_project() -> None:
    assert PROJECT["name"] == DISTRIBUTION
    assert version(DISTRIBUTION) == VERSION == edgemem.__version__
    assert CliRunner().invoke(main, ["--version"]).output == f"edgemem, version {VERSION}\n"


@needs_checkout
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
    assert str(error) == "mip needs scipy: pip install 'scipy>=1.15'"
    assert str(MissingDependencyError("unknown", purpose="this")).endswith("pip install unknown")
    assert requirement("solvers") == "'ortools>=9.15.6755' 'scipy>=1.15'"


@needs_checkout
def test_what_hosted_ci_runs_stands_at_a_commit_or_a_version() -> None:
    """A tag can be moved to other code, which would then build and publish."""
    for file in (ROOT / ".github/workflows").glob("*.yml"):
        text = file.read_text(encoding="utf-8")
        for action in re.findall(r"uses: (\S+)", text):
            assert re.search(r"@[0-9a-f]{40}$", action), f"{file.name}: {action}"
        for packages in re.findall(r"pip install ([\w= .-]+)$", text, re.MULTILINE):
            named = [word for word in packages.split() if not word.startswith("-")]
            assert all("==" in word for word in named), f"{file.name}: {packages}"


@needs_checkout
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


# The child finds modules in folders only: an editable installation has a finder of its own, which finds ours first.
IMPORT = """
import runpy, sys
from importlib.machinery import BuiltinImporter, FrozenImporter, PathFinder
sys.meta_path[:] = [BuiltinImporter, FrozenImporter, PathFinder]
sys.path.insert(0, sys.argv.pop(1))
runpy.run_module(sys.argv[1], run_name="ran", alter_sys=True)
"""


@pytest.mark.parametrize("module", ["edgemem.plans", "edgemem.api", "edgemem.__main__"])
def test_a_package_of_that_name_over_ours_is_told(module: str, tmp_path: Path) -> None:
    copy = tmp_path / "edgemem"
    shutil.copytree(Path(edgemem.__file__).parent, copy, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(_kernels.__file__, copy)
    command = [sys.executable, "-P", "-c", IMPORT, str(tmp_path), module]
    whole = subprocess.run(command, capture_output=True, text=True, check=False)
    assert whole.returncode == 0, whole.stderr
    (copy / "__init__.py").write_text('"""Theirs."""', encoding="utf-8")
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert found.returncode == 1
    assert "another project was installed over edgemem-planner" in found.stderr.splitlines()[-1]
    assert ("Traceback" in found.stderr) == (module != "edgemem.__main__")


def test_shrink_says_that_onnxruntime_is_missing(tmp_path: Path) -> None:
    text = '<ir_version: 8, opset_import: ["" : 17]> g (float[4] x) => (float[4] y) { a = Exp (x) y = Relu (a) }'
    (tmp_path / "m.onnx").write_bytes(parser.parse_model(text).SerializeToString())
    hidden = "import sys; sys.modules['onnxruntime'] = None; from edgemem.__main__ import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", hidden, "shrink", "m.onnx"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "needs onnxruntime" in done.stderr
    assert done.stderr.endswith("[E501]\n")
