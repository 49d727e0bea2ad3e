"""Names as cells of CSV, where a spreadsheet and a log of CI read them, too."""

from __future__ import annotations

from typing import Final

__all__ = ["cell_text", "name_of_cell"]

_COMMANDS: Final = ("=", "+", "-", "@", "::", "##[")  # of spreadsheets, and of logs of GitHub Actions


def cell_text(name: str) -> str:
    """A name as a cell: it ends no line, is no formula in a spreadsheet and no command in a log of CI.

    What is not printable is escaped, for good. What begins as a formula or a command, behind any spaces and
    apostrophes, has an apostrophe before it, which `name_of_cell` takes away.
    """
    text = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in name)
    return f"'{text}" if _is_command(text) else text


def name_of_cell(text: str) -> str:
    """The name that a cell has."""
    return text[1:] if text.startswith("'") and _is_command(text) else text


def _is_command(text: str) -> bool:
    return text.lstrip(" '").startswith(_COMMANDS)
