"""What `measure` prints: small tables, and a line for each row that needs words."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, TypeAlias

import click

from edgemem.cli.console import console_for, print_table
from edgemem.cli.printable_text import printable
from edgemem.report.sizes import mib_text, ratio_text, size_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from edgemem.commands.measure import MeasureRow
    from edgemem.commands.measure_tflite import TfliteRow
    from edgemem.commands.process_figures import TimeRatio

__all__ = ["show_measured", "show_measured_tflite"]

_WIDTH = 66  # columns of a table right of its first one

# Title, names of the columns, and rows of a label and cells.
_Table: TypeAlias = tuple[str, tuple[str, ...], list[tuple[str, ...]]]


def show_measured(rows: Sequence[MeasureRow], processes: int = 1) -> None:
    """What the plan is about, the process's memory, and time, a line a configuration in each; and what is in memory."""
    default = next((row.activation for row in rows if row.configuration == "default"), None)
    shown = [row for row in rows if not row.unavailable]
    memory: list[tuple[str, ...]] = [
        (
            row.configuration,
            _size_or_dash(row.activation),
            ratio_text(row.activation, default) if row.activation is not None and default else "-",
            _size_or_dash(row.planned),
            ratio_text(row.planned, row.bound) if row.planned is not None and row.bound else "-",
            _size_or_dash(row.outputs),
        )
        for row in shown
    ]
    process: list[tuple[str, ...]] = [
        (r.configuration, *map(_size_or_dash, (r.resident, r.anonymous, r.proportional, r.load_peak, r.peak)))
        for r in shown
    ]
    times: list[tuple[str, ...]] = [(row.configuration, *_times(row)) for row in shown]
    _print_tables(
        [
            ("but weights", ("activations", "of default", "arena", "of bound", "outputs"), memory),
            ("process", ("resident", "anonymous", f"PSS of {processes}", "load peak", "peak"), process),
            ("cpu ms", ("load", "first run", "median", "p99", "of default", "exact"), times),
        ]
    )
    if shown and all(row.parts for row in shown):
        _show_parts(shown)
    for row in rows:
        if about := row.unavailable or "; ".join(filter(None, (row.plan, row.note))):
            _print_line(f"{row.configuration}: {about}")


def _show_parts(rows: Sequence[MeasureRow]) -> None:
    """Where the resident memory of a process comes from, in MiB, a column a configuration."""
    from edgemem.commands.process_parts import UNKNOWN

    lines = [
        (parts[0].name, *("-" if part.known == UNKNOWN else mib_text(part.size) for part in parts))
        for parts in zip(*(row.parts for row in rows), strict=True)
    ]
    lines.append(("resident", *(mib_text(row.resident or 0) for row in rows)))
    console = console_for()
    print_table(console, ("<MiB", *(row.configuration for row in rows)), lines)
    console.print()


def show_measured_tflite(rows: Sequence[TfliteRow]) -> None:
    """Three small tables: the arena, the process's memory, and time; a line a configuration of each file in them."""
    shown = [row for row in rows if not row.unavailable]
    files = {row.number: row.file for row in rows}
    names = [row.configuration if len(files) == 1 else f"{row.number} {row.configuration}" for row in shown]
    if len(files) > 1:
        for number, file in files.items():
            click.echo(f"{number}: {printable(file)}{', compared with 2' if number == 1 else ''}")
        click.echo()

    arena = (
        (
            _size_or_dash(row.arena),
            _ratio_or_dash(row.arena_ratio),
            ratio_text(row.arena, row.bound) if row.arena is not None and row.bound else "-",
            _size_or_dash(row.tail),
        )
        for row in shown
    )
    process = (
        (
            *map(_size_or_dash, (row.imports, row.anonymous)),
            _ratio_or_dash(row.anonymous_ratio),
            *map(_size_or_dash, (row.proportional, row.peak)),
        )
        for row in shown
    )
    _print_tables(
        [
            ("arena", ("tensors", "ratio", "of bound", "tail"), _labelled(names, arena)),
            ("process", ("imports", "anonymous", "ratio", "PSS", "peak"), _labelled(names, process)),
            ("cpu ms", ("load", "first run", "median", "p99", "ratio", "exact"), _labelled(names, map(_times, shown))),
        ]
    )
    for row in rows:
        name = row.configuration if len(files) == 1 else f"{row.number} {row.configuration}"
        is_told = len(files) > 1 and row.compared.startswith(f"{row.configuration} of")
        compared = f"ratios are to {row.compared}" if row.compared and not is_told else ""
        if about := row.unavailable or "; ".join(filter(None, (row.plan, compared))):
            _print_line(f"{name}: {about}")


def _times(row: MeasureRow | TfliteRow) -> tuple[str, ...]:
    """The cells of the table of times."""
    return (
        *(_ms_or_dash(ms) for ms in (row.load_ms, row.first_ms, row.latency_ms, row.p99_ms)),
        _interval_or_dash(row.latency_ratio),
        _yes_or_dash(row.exact),
    )


def _labelled(names: Sequence[str], cells: Iterable[tuple[str, ...]]) -> list[tuple[str, ...]]:
    return [(name, *values) for name, values in zip(names, cells, strict=True)]


def _print_tables(tables: Iterable[_Table]) -> None:
    console = console_for()
    for title, columns, rows in tables:
        widened = [f"{column:>{_WIDTH // len(columns) - 2}}" for column in columns]
        print_table(console, (f"<{title:<11}", *widened), rows)
        console.print()


def _print_line(text: str) -> None:
    click.echo(textwrap.fill(printable(text), 80, subsequent_indent="  ", break_long_words=False))


def _ms_or_dash(ms: float | None) -> str:
    return "-" if ms is None else f"{ms:.2f}"


def _ratio_or_dash(ratio: float | None) -> str:
    return "-" if ratio is None else f"{ratio:.2f}x"


def _interval_or_dash(ratio: TimeRatio | None) -> str:
    return "-" if ratio is None else f"{ratio.low:.2f}-{ratio.high:.2f}x"


def _yes_or_dash(value: bool | None) -> str:
    return "-" if value is None else "yes" if value else "NO"


def _size_or_dash(size: int | None) -> str:
    return "-" if size is None else size_text(size)
