"""Builds the documentation as a site of HTML pages; a warning, such as of a broken link, fails.

    python docs/site/build.py FOLDER

README.md becomes the home page, and docs/index.md the page `guide`. Needs mkdocs-material (the extra `dev`).
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
_TOP: Final = {"README.md": "index.md", "SECURITY.md": "", "CONTRIBUTING.md": "", "CHANGELOG.md": ""}
_LINK: Final = re.compile(r"(\]\()(?P<file>[^):#]+)((?:#[^)]*)?\))")
_FENCE: Final = re.compile(r"^(```\w+) .*$", re.MULTILINE)  # what follows the language is for the tests of pages
_FILES: Final = {".svg", ".png", ".json"}  # pictures and schemas


def pages() -> dict[Path, Path]:
    """Where each page and other file lies in the site -> its file."""
    found = {Path(new or old): ROOT / old for old, new in _TOP.items()}
    docs = ROOT / "docs"
    for file in sorted(docs.rglob("*")):
        if file.suffix in {".md", *_FILES} and file.parent != docs / "site":
            found[file.relative_to(docs)] = file
    found[Path("guide.md")] = docs / "index.md"
    found[Path("index.md")] = ROOT / "README.md"
    return found


def page(place: Path, file: Path, places: dict[Path, Path]) -> str:
    """The text of a page, with links between pages as they lie in the site."""

    def link(found: re.Match[str]) -> str:
        target = places.get((file.parent / found["file"]).resolve())
        if target is None:
            raise ValueError(f"{file.relative_to(ROOT)} links to {found['file']}, which the site does not have")
        return f"{found[1]}{os.path.relpath(target, place.parent)}{found[3]}"

    return _FENCE.sub(r"\1", _LINK.sub(link, file.read_text(encoding="utf-8"))) + sources(file)


def sources(file: Path) -> str:
    """The other files of an example's folder, to show them under its README."""
    if file.parent.parent != ROOT / "docs" / "examples":
        return ""
    others = (f for f in sorted(file.parent.iterdir()) if f != file and f.is_file())
    return "".join(f"\n## {f.name}\n\n```{f.suffix[1:]}\n{f.read_text(encoding='utf-8')}```\n" for f in others)


def build(folder: Path) -> None:
    """Build the site in a folder that is made, or is the site of an earlier build."""
    found = pages()
    places = {file.resolve(): place for place, file in found.items()}
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        shutil.copy(Path(__file__).with_name("mkdocs.yml"), work)
        for place, file in found.items():
            copy = work / "pages" / place
            copy.parent.mkdir(parents=True, exist_ok=True)
            if file.suffix == ".md":
                copy.write_text(page(place, file, places), encoding="utf-8")
            else:
                shutil.copy(file, copy)
        command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "-f", str(work / "mkdocs.yml")]
        subprocess.run([*command, "-d", str(folder.resolve())], check=True)  # noqa: S603 -- its own command


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    build(Path(sys.argv[1]))
