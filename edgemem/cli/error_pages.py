"""What `edgemem help CODE` prints: the section of docs/errors.md, which a wheel has beside this file."""

from __future__ import annotations

import re
from pathlib import Path

import click

from edgemem import errors

__all__ = ["error_text"]

_WIDTH = 78


def error_text(code: str) -> str:
    """What an error means and what to do, for a terminal of 80 columns; "" for a code that there is not."""
    here = Path(__file__).resolve()
    file = here.with_name("errors.md")
    page = (file if file.is_file() else here.parents[2] / "docs" / "errors.md").read_text(encoding="utf-8")
    found = re.search(rf"^## {re.escape(code)}\n(.*?)(?=^# |^## |\Z)", page, re.MULTILINE | re.DOTALL)
    if found is None:
        return ""
    name = next(n for n in errors.__all__ if getattr(getattr(errors, n), "code", "") == code)
    parts = re.split(r"^```.*\n", found[1], flags=re.MULTILINE)  # text and examples by turns
    parts[::2] = [click.wrap_text(part.strip(), _WIDTH, preserve_paragraphs=True) for part in parts[::2]]
    return "\n\n".join([f"{code} {name}", *(part.rstrip() for part in parts if part)])
