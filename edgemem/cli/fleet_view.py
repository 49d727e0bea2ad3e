"""What a terminal shows of a fleet: how far it is, the rows, and how many failed."""

from __future__ import annotations

import json
from contextlib import ExitStack
from typing import TYPE_CHECKING, Final, Self

import click
from rich.cells import cell_len, set_cell_size
from rich.table import Table

from edgemem.cli.console import console_for, live_table, print_folded
from edgemem.cli.figures import COLUMNS, cells_of, text_of
from edgemem.cli.printable_text import printable
from edgemem.fleet.task import OK
from edgemem.system.text import abbreviate, count_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from edgemem.fleet.task import FleetRow

__all__ = ["FleetView"]

_MOST_ERROR: Final = 400  # characters
_GAP: Final = 2  # columns between those of a table
_LEAST_TEXT: Final = 30  # columns that texts are folded to
_MOST_LIVE: Final = 8  # rows that are shown while others are made
_MOST_FAILED: Final = 20  # rows that are shown where all are in a file


class FleetView:
    """Shows rows as they come, while it is entered, and all of them at the end."""

    def __init__(self, command: str, doing: str, done: str, rows: Sequence[FleetRow | None]) -> None:
        """The rows are those that are there before the first task is done, or None.

        `command` is its name, `doing` and `done` what becomes of a model.
        """
        self._command, self._doing, self._done = command, doing, done
        self._total = len(rows)
        self._number = self._failed = sum(row is not None for row in rows)
        self._cached = 0
        self._lines: list[str] = []
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        self._live = self._stack.enter_context(live_table())
        self._show(self._doing)
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def show(self, row: FleetRow) -> None:
        """Show a row that is done."""
        self._number += 1
        self._failed += bool(row.code)
        self._cached += row.is_cached
        cells = [_title(row), *filter(None, cells_of(self._command, row.figures)), self._text(row)]
        self._lines = [*self._lines, "  ".join(cells)][-_MOST_LIVE:]
        cached = f", {self._cached} from the cache" if self._cached else ""
        self._show(f"{self._doing}: {count_text(self._number, self._total, self._failed)}{cached}")

    def _show(self, what: str) -> None:
        if self._live is not None:
            width = console_for().width - 1
            self._live(what, [line if cell_len(line) <= width else set_cell_size(line, width) for line in self._lines])

    def _text(self, row: FleetRow) -> str:
        if row.status != OK or row.code:
            return printable(abbreviate(f"FAILED: {row.message or row.status}", most=_MOST_ERROR))
        return printable(text_of(self._command, row.figures))

    def print_json(self, rows: Sequence[FleetRow], outputs: Mapping[str, Path]) -> None:
        """Print an entry a row."""
        entries = [
            {
                "name": row.name,
                "options": row.label,
                "status": row.status,
                "error": row.message or None if row.code else None,
                "result": row.document,
            }
            for row in rows
        ]
        click.echo(json.dumps({"files": entries, **({"written": len(outputs)} if outputs else {})}))

    def print_table(self, rows: Sequence[FleetRow], output: str | None, *, is_short: bool) -> None:
        """Print a row a model, or of a few that failed where all are in a file, and the count."""
        shown = [row for row in rows if row.code][:_MOST_FAILED] if is_short else rows
        if shown:
            self._print_rows(shown)
            click.echo()
        failed = sum(bool(row.code) for row in rows)
        said = [f"{len(rows) - failed} of {len(rows)} {self._done}"]
        said[0] += f" and written to {output}" if output is not None and not is_short else ""
        said += [f"{failed} failed"] * bool(failed) + [f"{self._cached} were in the cache"] * bool(self._cached)
        click.echo(", ".join(said))
        if is_short:
            click.echo(f"wrote {output}")
        unkept = [row.unkept for row in rows if row.unkept]
        if unkept:
            click.echo(f"edgemem: {len(unkept)} rows could not be written to the cache: {unkept[0]}", err=True)

    def _print_rows(self, rows: Sequence[FleetRow]) -> None:
        """A line a row. Where names and figures leave a terminal no room for texts, these stand below each name."""
        console = console_for()
        headings = [heading for heading, _ in COLUMNS[self._command]]
        lines = [(_title(row), *cells_of(self._command, row.figures), self._text(row)) for row in rows]
        table = Table(box=None, pad_edge=False)
        for number, heading in enumerate(("file", *headings, "result")):
            is_text = number in (0, len(headings) + 1)
            table.add_column(heading, justify="left" if is_text else "right", no_wrap=number <= len(headings))
        for line in lines:
            table.add_row(*line)
        widths = [max(map(cell_len, column)) for column in zip(("", *headings, ""), *lines, strict=True)]
        fixed = sum(widths[:-1]) + _GAP * (len(widths) - 1)
        longest = max((cell_len(word) for line in lines for word in line[-1].split()), default=0)
        if not console.is_terminal:
            console.width = max(console.width, fixed + widths[-1])
        elif fixed + max(longest, min(widths[-1], _LEAST_TEXT)) > console.width:
            for name, *figures, text in lines:
                said = [f"{heading} {cell}" for heading, cell in zip(headings, figures, strict=True) if cell]
                print_folded(console, name)
                print_folded(console, "  " + ", ".join(filter(None, (*said, text))), indent=4)
            return
        console.print(table)


def _title(row: FleetRow) -> str:
    return printable(f"{row.name} {row.label}".rstrip())
