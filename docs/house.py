"""Draws docs/house.svg: the packages of edgemem, and which imports which.

    python docs/house.py            write the picture
    python docs/house.py --check    exit status 1 if the picture differs from the sources, or an arrow points up

A package stands one row below everything that it imports. An arrow that follows from other arrows is left out.
"""

from __future__ import annotations

import ast
import sys
from collections import defaultdict
from pathlib import Path

from drawing import Drawing

ROOT = Path(__file__).parents[1]
LIBRARY = ROOT / "edgemem"
_BOX, _GAP, _SPACE = (96, 30), 16, 40  # pixels: a box, between boxes of a row, between rows


def package_of(file: Path) -> str:
    """The package, or the module at the top of edgemem, that a source file belongs to."""
    return file.relative_to(LIBRARY).parts[0].removesuffix(".py")


def imported_packages(file: Path) -> set[str]:
    """Packages of edgemem that a file imports, also inside functions and for types alone."""
    found = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        found |= {name.split(".")[1] for name in names if name.startswith("edgemem.")}
    return found


def imports() -> dict[str, set[str]]:
    """Package -> the packages that it imports."""
    files = [f for f in LIBRARY.rglob("*.py") if f.parent != LIBRARY or not f.name.startswith("__")]
    packages = {package_of(f) for f in files}
    found: dict[str, set[str]] = defaultdict(set)
    for file in files:
        found[package_of(file)] |= imported_packages(file) & packages
    return {name: needs - {name} for name, needs in found.items()}


def depths(needs: dict[str, set[str]]) -> dict[str, int]:
    """Package -> its row: 0 for a package that imports none. Raises ValueError if packages import each other."""
    rows: dict[str, int] = {}
    while len(rows) < len(needs):
        free = {name for name in needs.keys() - rows.keys() if needs[name] <= rows.keys()}
        if not free:
            raise ValueError(f"these packages import each other: {', '.join(sorted(needs.keys() - rows.keys()))}")
        rows |= {name: 1 + max((rows[n] for n in needs[name]), default=-1) for name in free}
    return rows


def direct(needs: dict[str, set[str]]) -> set[tuple[str, str]]:
    """The arrows that do not follow from others."""
    reach: dict[str, set[str]] = {}
    for name in sorted(needs, key=depths(needs).__getitem__):
        reach[name] = needs[name].union(*(reach[n] for n in needs[name]))
    return {(a, b) for a in needs for b in needs[a] if not any(b in reach[c] for c in needs[a])}


def picture() -> Drawing:
    """The packages in rows, and an arrow from each to those that it needs."""
    needs = imports()
    rows = depths(needs)
    levels = [sorted(n for n in rows if rows[n] == level) for level in range(max(rows.values()) + 1)]
    (wide, high), columns = _BOX, max(map(len, levels))
    size = (columns * (wide + _GAP) + _GAP, len(levels) * (high + _SPACE) - _SPACE + 2 * _GAP)
    drawing = Drawing(*size, label="Packages of edgemem; each imports packages above it alone")
    place = {
        name: ((columns - len(level)) * (wide + _GAP) / 2 + column * (wide + _GAP) + _GAP, _GAP + row * (high + _SPACE))
        for row, level in enumerate(levels)
        for column, name in enumerate(level)
    }
    for user, used in sorted(direct(needs)):
        (x, y), (to_x, to_y) = place[user], place[used]
        drawing.line([(x + wide / 2, y), (to_x + wide / 2, to_y + high)], "#89a")
    for name, (x, y) in sorted(place.items()):
        drawing.rect(x, y, wide, high, "#e8eff6")
        drawing.text(x + wide / 2, y + high / 2 + 4, name)
    return drawing


def main() -> None:
    """Write the picture, or compare it with the sources."""
    drawing = picture()
    if "--check" not in sys.argv[1:]:
        drawing.save("house.svg")
    elif (ROOT / "docs" / "house.svg").read_text(encoding="utf-8") != drawing.svg():
        sys.exit("docs/house.svg is not as the sources are: run python docs/house.py")


if __name__ == "__main__":
    main()
