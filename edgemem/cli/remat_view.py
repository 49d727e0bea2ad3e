"""What `remat` prints: the overhead of the chosen policy first, then tables of all policies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.table import Table

from edgemem.cli.console import console_for, print_folded
from edgemem.cli.printable import printable
from edgemem.report.remat_svg import OverheadCurve, overhead_svg
from edgemem.report.sizes import size_text

if TYPE_CHECKING:
    from pathlib import Path

    from rich.console import Console

    from edgemem.commands.remat import RematReport
    from edgemem.remat.simulation import Simulation

__all__ = ["show_report", "write_picture"]

_IN_ROW = 5  # budgets in one table, so that it fits into 80 columns


def write_picture(report: RematReport, path: Path, *, title: str) -> None:
    """Write overhead over budget as SVG. Raises OSError if the file cannot be written."""
    from edgemem.system.files import atomic_write

    peak = max(report.log.peak, 1)
    curves = [
        OverheadCurve(
            result.policy.name,
            tuple((run.budget / peak, run.overhead if run.is_done else None) for run in result.runs),
            None if result.minimum is None else result.minimum / peak,
        )
        for result in report.results
    ]
    with atomic_write(path) as file:
        file.write(overhead_svg(curves, title).encode())


def show_report(report: RematReport, *, name: str) -> None:
    """The answer, and the tables."""
    console = console_for()
    log, first = report.log, report.results[0]
    for run in first.runs:
        print_folded(console, f"{first.policy.name} in {_budget(run, log.peak)}: {_told(run)}", indent=2)
    print_folded(
        console,
        f"{printable(name)}: {len(log.cost):,} calls, {len(log.size):,} values, {log.total_cost / 1e6:,.1f} ms, "
        f"peak {size_text(log.peak)}",
        indent=2,
    )
    for begin in range(0, len(report.budgets), _IN_ROW):
        _show_overheads(console, report, slice(begin, begin + _IN_ROW), is_last=begin + _IN_ROW >= len(report.budgets))
    _show_details(console, report)


def _show_overheads(console: Console, report: RematReport, part: slice, *, is_last: bool) -> None:
    peak = report.log.peak
    with_borders = is_last and report.results[0].minimum is not None
    table = _table(
        "overhead",
        *(f"{_ratio(budget, peak)}" for budget in report.budgets[part]),
        *(["minimum", "cutoff"] * with_borders),
    )
    for result in report.results:
        cells = [f"{run.overhead:.1%}" if run.is_done else _SHORT[run.ended] for run in result.runs[part]]
        if with_borders:
            cells += [_ratio(result.minimum or 0, peak), _ratio(result.cutoff or 0, peak)]
        table.add_row(result.policy.name, *cells)
    console.print()
    console.print(table)
    if with_borders:
        console.print("budgets as parts of the peak; minimum: runs to its end; cutoff: evicts nothing")


_SHORT = {"out of memory": "oom", "thrashing": "thrash"}


def _show_details(console: Console, report: RematReport) -> None:
    table = _table("", "budget", "evicted", "fragments", "searches", "evaluated", "us")
    for at in range(len(report.budgets)):
        for result in report.results:
            run = result.runs[at]
            table.add_row(
                result.policy.name,
                _ratio(run.budget, report.log.peak),
                f"{run.evictions:,}",
                f"{run.fragmentation:.1%}",
                f"{run.searches:,}",
                f"{run.evaluations_per_shortage:,.0f}",
                f"{run.search_us_per_shortage:,.1f}",
            )
    console.print()
    console.print(table)
    console.print(
        "fragments: free bytes / budget when a request does not fit\n"
        "evaluated, us: heuristics and microseconds of search for such a request",
    )


def _table(first: str, *columns: str) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column(first, no_wrap=True)
    for column in columns:
        table.add_column(column, justify="right", no_wrap=True)
    return table


def _ratio(size: int, peak: int) -> str:
    return f"{size / peak:.3f}" if peak else "-"


def _budget(run: Simulation, peak: int) -> str:
    return f"{size_text(run.budget)} ({_ratio(run.budget, peak)} of the peak)"


def _told(run: Simulation) -> str:
    if run.is_done:
        return f"{run.overhead:.1%} overhead, {run.recomputed_calls:,} calls run again"
    if run.ended == "thrashing":
        return f"recomputing takes too long, at event {run.event:,}"
    return f"out of memory at event {run.event:,}, for a request of {size_text(run.short_of)}"
