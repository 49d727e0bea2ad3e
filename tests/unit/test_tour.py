"""The files and folders that the tour and the pages of decisions name are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.skips import needs_checkout

pytestmark = needs_checkout

DOCS = Path(__file__).parents[2] / "docs"
PAGES = [DOCS / "tour.md", *sorted((DOCS / "decisions").glob("*.md"))]
NAMED = re.compile(r"`((?:edgemem|converters|kernels|tests)/[\w/.]+)`")


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_named_files_exist(page: Path) -> None:
    missing = [name for name in NAMED.findall(page.read_text(encoding="utf-8")) if not (DOCS.parent / name).exists()]
    assert missing == []


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links_lead_to_pages(page: Path) -> None:
    links = re.findall(r"\]\(([^)#\s]+)", page.read_text(encoding="utf-8"))
    assert [link for link in links if not (page.parent / link).exists()] == []


def test_the_tour_has_twelve_stops() -> None:
    assert len(re.findall(r"^\d+\. ", PAGES[0].read_text(encoding="utf-8"), flags=re.MULTILINE)) == 12


def test_the_index_names_every_decision() -> None:
    index = (DOCS / "decisions" / "index.md").read_text(encoding="utf-8")
    assert [p.name for p in PAGES[1:] if p.name != "index.md" and f"]({p.name})" not in index] == []
