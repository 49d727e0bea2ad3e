"""README.md and every page of docs/ do what they say."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import pytest

from models.build import build
from models.fetch import FetchError, cache_folder, fetch
from tests.skips import needs_checkout
from tests.snippets.blocks import blocks, indented
from tests.snippets.page import ROOT, STUBS, Page, fetched_models
from tests.tflite_models import M, O, S, T
from tests.tflite_models import build as build_tflite
from tests.webgpu_adapters import need_adapter

EXAMPLES = sorted((ROOT / "docs" / "examples").glob("*/README.md"))
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
# What a page needs that the extra `test` installs.
NEEDS = {
    "android.md": ("onnxruntime",),
    "llm.md": ("onnxruntime",),
    "server.md": ("onnxruntime",),
    "training.md": ("torch",),
    "training-budget.md": ("torch",),
    "recompute.md": ("onnxruntime", "ai_edge_litert"),
    "mobile.md": ("ai_edge_litert", "onnxruntime"),
    "microcontroller.md": ("tflite_micro", "ai_edge_litert"),
    "below-the-bound.md": ("ai_edge_litert", "tflite_micro"),
    "errors.md": ("onnxruntime", "wgpu"),
    "first-steps.md": ("onnxruntime", "ai_edge_litert"),
    "gpu.md": ("onnxruntime", "wgpu"),
    "onnxruntime.md": ("onnxruntime",),
    "tflite.md": ("ai_edge_litert", "tflite_micro"),
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with what every page may use: the checkout's models and headers, one ONNX and one TFLite model."""
    cache = tmp_path / "cache"
    cache.mkdir()
    (cache / "models").symlink_to(cache_folder())
    monkeypatch.setenv("EDGEMEM_CACHE", str(cache))
    for name in ("PYTEST_CURRENT_TEST", "PYTEST_ADDOPTS"):
        monkeypatch.delenv(name, raising=False)
    work = tmp_path / "work"
    work.mkdir()
    for name in ("models", "kernels"):
        (work / name).symlink_to(ROOT / name)
    (work / "tflite-micro").symlink_to(STUBS)
    (work / "model.onnx").write_bytes(build("mobilenet_v2", size="small").SerializeToString(deterministic=True))
    (work / "model.tflite").write_bytes(small_tflite())
    return work


def small_tflite() -> bytes:
    """Four elementwise operators in a chain, with a branch that lives across it."""
    tensors = [T(f"t{i}", shape=(1, 64)) for i in range(5)]
    ops = [O("RELU", (0,), (1,)), O("RELU", (1,), (2,)), O("RELU", (2,), (3,)), O("MAXIMUM", (1, 3), (4,))]
    return build_tflite(M([S(tensors, ops, (0,), (4,))]))


@pytest.mark.full
@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_a_page_does_what_it_says(page: Path, folder: Path) -> None:
    for package in NEEDS.get(page.name, ()):
        pytest.importorskip(package, exc_type=ImportError)
    if page.name == "gpu.md":
        need_adapter()
    text = page.read_text(encoding="utf-8")
    if any(b.language in ("c", "cpp") and not b.reason for b in blocks(text)) and not (
        shutil.which("cc") and shutil.which("c++")
    ):
        pytest.skip("needs gcc and g++")
    for name in fetched_models(text):
        try:
            fetch(name)
        except FetchError as e:
            pytest.skip(str(e))
    # .ci/run runs the README's own commands, in the checkout.
    Page(page, folder, shell=page.name != "README.md").run()


@pytest.mark.parametrize("page", PAGES + EXAMPLES, ids=lambda p: f"{p.parent.name}/{p.name}")
def test_code_is_in_fences_and_what_ci_cannot_run_says_why(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert indented(text) == (), "code without a fence is not run"
    assert [b.line for b in blocks(text) if b.reason == "?"] == [], "no-ci: REASON"


@needs_checkout
@pytest.mark.parametrize("page", PAGES + EXAMPLES, ids=lambda p: f"{p.parent.name}/{p.name}")
def test_links_lead_somewhere(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    links = re.findall(r"\]\(([^)#\s]+)(?:#([\w-]+))?\)", re.sub(r"```.*?```", "", text, flags=re.DOTALL))
    for link, anchor in links:
        if "://" in link:
            continue
        target = page.parent / link
        assert target.exists(), link
        assert not anchor or anchor in anchors(target.read_text(encoding="utf-8")), f"{link}#{anchor}"


def anchors(text: str) -> set[str]:
    headings = re.findall(r"^#+ (.*)$", text, flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in headings}


def test_the_index_names_every_page() -> None:
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    missing = [p.name for p in PAGES[1:] if p.name != "index.md" and f"]({p.name})" not in index]
    missing += [p.parent.name for p in EXAMPLES if f"]({p.relative_to(ROOT / 'docs')})" not in index]
    assert missing == []


def test_few_blocks_are_not_run() -> None:
    found = [b for page in PAGES for b in blocks(page.read_text(encoding="utf-8"))]
    left_out = [b for b in found if b.reason and b.language != "text"]
    assert len(left_out) * 8 <= len(found), f"{len(left_out)} of {len(found)}"


def test_the_folder_of_a_page_is_not_the_checkout(folder: Path) -> None:
    assert Path(os.environ["EDGEMEM_CACHE"]).is_relative_to(folder.parent)
