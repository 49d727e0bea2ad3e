"""Consoles that tables are printed with: without markup, every text as `edgemem.cli.printable_text` has it."""

from __future__ import annotations

import logging
import re
import sys
import textwrap
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any, cast

import click
from rich.cells import cell_len
from rich.console import Console, Group
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table

from edgemem.cli.printable_text import PrintableStream, UnescapedStream, printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from rich.text import Text

__all__ = [
    "console_for",
    "echo_folded",
    "echo_labelled",
    "live_table",
    "logged_steps",
    "print_folded",
    "print_table",
    "progress",
]

_UNIT = re.compile(r"(\d) (%|[KMG]iB|B\b)")  # a number and its unit stay on one line
_PIPED_WIDTH = 120  # columns where the output is no terminal
_LABEL = 13  # columns
_GAP = 2  # columns between those of a table


class _PrintableConsole(Console):
    """A console that makes texts printable before it adds escape sequences of its own, for bold headings."""

    def render_str(self, text: str, **options: Any) -> Text:
        return super().render_str(printable(text, keep="\n"), **options)


def _console(stream: IO[str], **options: Any) -> Console:
    file = cast("IO[str]", UnescapedStream(stream)) if isinstance(stream, PrintableStream) else stream
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


@contextmanager
def live_table() -> Iterator[Callable[[str, Sequence[str]], None] | None]:
    """Lines on stderr that are replaced as they change, and end with the block; None unless stderr is a terminal."""
    console = _console(sys.stderr)
    if not console.is_terminal:
        yield None
        return
    with Live(console=console, transient=True) as live:
        spinner = Spinner("dots")

        def show(what: str, lines: Sequence[str]) -> None:
            spinner.update(text=printable(what))
            live.update(Group(spinner, *(printable(line) for line in lines)))

        yield show


@contextmanager
def logged_steps(name: str) -> Iterator[None]:
    """What a logger is told in the block (level INFO), a line each on stderr: for what takes minutes."""

    class _Lines(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            click.echo(f"edgemem: {printable(record.getMessage())} ...", err=True)

    logger, handler = logging.getLogger(name), _Lines(logging.INFO)
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


def print_table(
    console: Console, columns: Sequence[str], rows: Iterable[Sequence[str]], *, has_header: bool = True
) -> None:
    """Rows of cells under their headings, on the right.

    A heading that begins with `<` is one of texts: they stand on the left, and are folded between words where a
    terminal is narrow. Where their words have no room, each of the last texts stands below its row.
    """
    listed = [tuple(row) for row in rows]
    least = _widths(columns, listed, folded=True)
    has_room = sum(least) + _GAP * (len(columns) - 1) <= console.width
    if console.is_terminal and columns[-1].startswith("<") and not has_room:
        *columns, last = columns
        _print_with_texts_below(console, [*columns], listed, last[1:] if has_header else "")
        return
    table = Table(box=None, pad_edge=False, show_header=has_header)
    for column, width in zip(columns, least, strict=True):
        if column.startswith("<"):
            table.add_column(column[1:], overflow="fold", min_width=width if has_room else None)
        else:
            table.add_column(column, justify="right", no_wrap=True)
    for row in listed:
        table.add_row(*row)
    console.print(table)


def _widths(columns: Sequence[str], rows: Sequence[Sequence[str]], *, folded: bool = False) -> list[int]:
    """Of columns; `folded`: of their longest words where they are texts."""
    cells = [[column.removeprefix("<") for column in columns], *rows]
    return [
        max(cell_len(part) for cell in column for part in (cell.split() or [""] if is_text else [cell]))
        for column, is_text in zip(
            zip(*cells, strict=True), (folded and c.startswith("<") for c in columns), strict=True
        )
    ]


def _print_with_texts_below(
    console: Console, columns: Sequence[str], rows: Sequence[Sequence[str]], heading: str
) -> None:
    widths = _widths(columns, [row[:-1] for row in rows])
    head = [column.removeprefix("<") for column in columns]
    for cells, text in [(head, heading)] * bool(heading) + [(list(row[:-1]), row[-1]) for row in rows]:
        lined = [
            f"{cell:<{width}}" if column.startswith("<") else f"{cell:>{width}}"
            for cell, width, column in zip(cells, widths, columns, strict=True)
        ]
        print_folded(console, (" " * _GAP).join(lined).rstrip())
        print_folded(console, f"    {text}", indent=4)


def echo_labelled(lines: Iterable[tuple[str, str]]) -> None:
    """Lines of a label and a text, which is folded at 80 columns."""
    for label, text in lines:
        line = f"  {label:<{_LABEL - 2}}{printable(text)}"
        click.echo(textwrap.fill(line, 80, subsequent_indent=" " * _LABEL, break_on_hyphens=False))


def echo_folded(text: str, indent: int = 2) -> None:
    """`print_folded` on a console of its own."""
    print_folded(console_for(), text, indent)


def print_folded(console: Console, text: str, indent: int = 6) -> None:
    """A line; on a terminal it is folded between words, and the rest is indented."""
    if console.is_terminal:
        text = "\n".join(_folded(line, console.width, indent) for line in text.split("\n"))
    console.print(text, soft_wrap=True)


def _folded(line: str, width: int, indent: int) -> str:
    whole = _UNIT.sub("\\1\0\\2", line)
    folded = textwrap.fill(whole, width, subsequent_indent=" " * indent, break_long_words=False, break_on_hyphens=False)
    return folded.replace("\0", " ")
