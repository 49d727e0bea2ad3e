"""Tables of Markdown, and their places in a page: between `<!-- table: NAME -->` and `<!-- end of the table -->`."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["measured_with", "put", "table"]

END = "<!-- end of the table -->"


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table whose first column is text and whose others are numbers."""
    lines = [f"| {' | '.join(columns)} |", "|---" + "|--:" * (len(columns) - 1) + "|"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)])


def measured_with(*packages: str) -> str:
    """A line with the versions of packages."""
    return f"Measured with {', '.join(f'{p} {version(p)}' for p in packages)} on x86-64."


def put(page: str | Path | None, name: str, text: str) -> None:
    """Print a text, and put it into a page if there is one. Raises ValueError for a page without the marks."""
    print(f"\n{text}", flush=True)
    if page is None:
        return
    path = Path(page)
    before, mark, rest = path.read_text(encoding="utf-8").partition(f"<!-- table: {name} -->")
    _, end, after = rest.partition(END)
    if not (mark and end):
        raise ValueError(f"{page} has no place for the table {name}")
    path.write_text(f"{before}{mark}\n{text}\n{END}{after}", encoding="utf-8")
