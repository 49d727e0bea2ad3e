"""Consoles that tables are printed with; none knows markup, and all print texts as `edgemem.cli.printable` has them."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any

from rich.console import Console

from edgemem.cli.printable import PrintableStream, printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rich.text import Text

__all__ = ["console_for", "progress"]

_PIPED_WIDTH = 120  # columns where the output is no terminal


class _PrintableConsole(Console):
    """A console that makes texts printable before it adds escape sequences of its own, for bold headings."""

    def render_str(self, text: str, **options: Any) -> Text:
        return super().render_str(printable(text, keep="\n"), **options)


def _console(stream: IO[str], **options: Any) -> Console:
    file = stream.stream if isinstance(stream, PrintableStream) else stream
    return _PrintableConsole(file=file, highlight=False, markup=False, emoji=False, **options)


def console_for() -> Console:
    """A console on stdout as wide as the terminal, without markup or highlighting."""
    return _console(sys.stdout, width=None if sys.stdout.isatty() else _PIPED_WIDTH)


@contextmanager
def progress(what: str = "planning") -> Iterator[Callable[[str], None]]:
    """A line on stderr that says what runs now; nothing unless stderr is a terminal."""
    console = _console(sys.stderr)
    if not console.is_terminal:
        yield lambda _: None
        return
    with console.status(what) as status:
        yield lambda name: status.update(f"{what}: {printable(name)}")
