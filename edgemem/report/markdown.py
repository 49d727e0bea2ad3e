"""Tables and names in Markdown. A name out of a model stays text: it makes no link, no image, no element."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["code", "escaped", "table"]


def code(text: str) -> str:
    """The text as code, whatever is in it."""
    plain = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
    longest = max((len(run) for run in re.findall("`+", plain)), default=0)
    fence = "`" * (longest + 1)
    space = " " if longest or not plain.strip() else ""
    return f"{fence}{space}{plain}{space}{fence}"


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Lines of a table; the first column stands left, the others right. Cells are plain text, headings are code."""
    heads = [code(c).replace("|", "\\|") if c.strip() else " " for c in columns]
    lines = [f"| {' | '.join(heads)} |", f"|---|{'---:|' * (len(columns) - 1)}"]
    return lines + [f"| {' | '.join(escaped(c) for c in row)} |" for row in rows]


def escaped(text: str) -> str:
    """The text as it is, in a sentence or a cell: none of its characters means anything to Markdown or to GitHub."""
    shown = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
    shown = re.sub(r"([\\`*_{}\[\]<>()!|~&])", r"\\\1", shown)
    # GitHub looks for mentions, issues and addresses in what was rendered, where a backslash is gone.
    return re.sub(r"(@|#|:(?=//)|www(?=\.))", "\\1\N{ZERO WIDTH SPACE}", shown)
