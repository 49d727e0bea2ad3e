"""Texts and consoles that all commands print with."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["console_for", "progress"]

_PIPED_WIDTH = 120  # columns where the output is no terminal


def console_for() -> Console:
    """A console on stdout as wide as the terminal, without markup or highlighting."""
    width = None if sys.stdout.isatty() else _PIPED_WIDTH
    return Console(width=width, highlight=False, markup=False, emoji=False)


@contextmanager
def progress(what: str = "planning") -> Iterator[Callable[[str], None]]:
    """A line on stderr that says what runs now; nothing unless stderr is a terminal."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda _: None
        return
    with console.status(what) as status:
        yield lambda name: status.update(f"{what}: {name}")
