"""The commands in the README of each example in docs/examples do what they say, in a copy of its folder."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from models.fetch import cache_folder
from tests.installed import install
from tests.snippets.page import ROOT, STUBS, Page

if TYPE_CHECKING:
    from pathlib import Path

EXAMPLES = ROOT / "docs" / "examples"
# What an example needs that the extra `test` installs, or PyTorch.
NEEDS = {
    "converter": (),
    "embedding-worker": ("onnxruntime",),
    "language-model": ("onnxruntime",),
    "microcontroller": ("ai_edge_litert", "tflite_micro"),
    "phone": ("ai_edge_litert",),
    "server": ("onnxruntime",),
    "strategy": (),
    "training": ("torch",),
}
LANGUAGES = {".py": "#", ".cpp": "//"}


@pytest.fixture
def example(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of an example's folder, in a folder that has models/ where the checkout has it."""
    cache = tmp_path / "cache"
    cache.mkdir()
    (cache / "models").symlink_to(cache_folder())
    monkeypatch.setenv("EDGEMEM_CACHE", str(cache))
    for name in ("PYTEST_CURRENT_TEST", "PYTEST_ADDOPTS"):
        monkeypatch.delenv(name, raising=False)
    checkout = tmp_path / "checkout"
    folder = checkout / "docs" / "examples" / str(request.param)
    shutil.copytree(EXAMPLES / str(request.param), folder, ignore=shutil.ignore_patterns("__pycache__"))
    (checkout / "models").symlink_to(ROOT / "models")
    (folder / "tflite-micro").symlink_to(STUBS)
    return folder


@pytest.mark.full
@pytest.mark.parametrize("example", sorted(NEEDS), indirect=True)
def test_an_example_does_what_it_says(example: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for package in NEEDS[example.name]:
        pytest.importorskip(package, exc_type=ImportError)
    if list(example.glob("*.cpp")) and not (shutil.which("cc") and shutil.which("c++")):
        pytest.skip("needs gcc and g++")
    project = example / "pyproject.toml"
    if project.exists():
        site = tmp_path / "site"
        install(project.read_text(), {p.stem: p.read_text() for p in example.glob("*.py")}, site)
        monkeypatch.setenv("PYTHONPATH", str(site))
    Page(example / "README.md", example).run()


def test_every_folder_is_an_example() -> None:
    assert sorted(p.name for p in EXAMPLES.iterdir()) == sorted(NEEDS)


@pytest.mark.parametrize("name", sorted(NEEDS))
def test_the_code_of_an_example_is_short(name: str) -> None:
    """At most 60 lines, without empty ones and comments."""
    lines = [
        line.strip()
        for file in (EXAMPLES / name).iterdir()
        if (mark := LANGUAGES.get(file.suffix))
        for line in file.read_text().splitlines()
        if line.strip() and not line.strip().startswith(mark)
    ]
    assert len(lines) <= 60, len(lines)
