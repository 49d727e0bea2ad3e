"""The documentation as a site: every link leads somewhere, and pages load nothing from elsewhere."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.scripts import loaded_script
from tests.snippets.blocks import blocks
from tests.snippets.test_examples import NEEDS as EXAMPLES
from tests.snippets.test_pages import PAGES

SCRIPT = Path(__file__).parents[2] / "docs" / "site" / "build.py"


@pytest.fixture(scope="module")
def site() -> Any:
    return loaded_script(SCRIPT)


def test_links_lead_to_where_pages_lie_in_the_site(site: Any, tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    for file in (tmp_path / "README.md", docs / "a.md", docs / "index.md"):
        file.write_text("")
    places = {
        (tmp_path / "README.md").resolve(): Path("index.md"),
        (docs / "a.md").resolve(): Path("a.md"),
        (docs / "index.md").resolve(): Path("guide.md"),
    }
    (tmp_path / "README.md").write_text(
        "[a](docs/a.md#b) [all](docs/index.md) [out](https://example.org/x)\n```sh no-ci: x\n"
    )
    text = site.page(Path("index.md"), tmp_path / "README.md", places)
    assert text == "[a](a.md#b) [all](guide.md) [out](https://example.org/x)\n```sh\n"


def test_every_block_of_a_tutorial_is_run() -> None:
    nav = (SCRIPT.parent / "mkdocs.yml").read_text(encoding="utf-8")
    listed = re.search(r"^  - Tutorials:.*\n((?: {6}.*\n)+)", nav, re.MULTILINE)
    assert listed is not None
    tutorials = [SCRIPT.parents[1] / name for name in re.findall(r"- (\S+)", listed[1])]
    assert len(tutorials) > 6
    for page in tutorials:
        assert page in PAGES or page.parent.name in EXAMPLES
        left_out = {b.reason for b in blocks(page.read_text(encoding="utf-8")) if b.reason and b.language != "text"}
        assert left_out <= {"needs Gradle and the Android SDK"}, page


@pytest.mark.full
def test_the_site_is_built_without_a_warning(site: Any, tmp_path: Path) -> None:
    pytest.importorskip("mkdocs")
    pytest.importorskip("material")
    site.build(tmp_path / "html")
    made = {file.relative_to(tmp_path / "html").parent.as_posix() for file in tmp_path.rglob("index.html")}
    places = [place for place in site.pages() if place.suffix == ".md" and place.stem != "index"]
    assert made >= {(p.parent if p.stem == "README" else p.with_suffix("")).as_posix() for p in places}
    example = (tmp_path / "html" / "examples" / "strategy" / "index.html").read_text(encoding="utf-8")
    assert re.sub("<[^>]*>", "", example).count("def longest_first(problem") == 1, "the site shows an example's files"
    home = (tmp_path / "html" / "index.html").read_text(encoding="utf-8")
    assert "What do you want to do?" in home
    loaded = re.findall(r"<(?:script|link|img)[^>]*(?:src|href)=\"(https?:[^\"]+)", home)
    assert loaded == []
