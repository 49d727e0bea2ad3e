"""Texts and consoles that all commands print with."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["console_for", "progress", "ratio_text", "size_text"]

_UNITS = ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"))
_PIPED_WIDTH = 120  # columns where the output is no terminal


def console_for() -> Console:
    """A console on stdout as wide as the terminal, without markup or highlighting."""
    width = None if sys.stdout.isatty() else _PIPED_WIDTH
    return Console(width=width, highlight=False, markup=False, emoji=False)


def size_text(size: int, *, texels: bool = False) -> str:
    """1572864 -> "1.50 MiB"; below 1 KiB in bytes; texels as they are."""
    if texels:
        return f"{size:,} texels"
    for unit, name in _UNITS:
        if size >= unit:
            return f"{size / unit:.2f} {name}"
    return f"{size} B"


def ratio_text(size: int, of: int) -> str:
    """1.234x; where three digits would hide a difference, with the difference in bytes: "1.000x + 40"."""
    if not of:
        return "-"
    text = f"{size / of:.3f}x"
    hidden = size != of and abs(size / of - 1) < 0.0005
    return f"{text} {'+' if size > of else '-'} {abs(size - of):,}" if hidden else text


@contextmanager
def progress(what: str = "planning") -> Iterator[Callable[[str], None]]:
    """A line on stderr that says what runs now; nothing unless stderr is a terminal."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda _: None
        return
    with console.status(what) as status:
        yield lambda name: status.update(f"{what}: {name}")
