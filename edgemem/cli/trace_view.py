"""What `trace` prints: the answer first, then what the memory went to, and what lay in it at the peak."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from edgemem.cli.console import console_for, print_folded, print_table
from edgemem.cli.plan_view import answer
from edgemem.cli.printable_text import printable
from edgemem.errors import ModelError
from edgemem.report.fragmentation import fragmentation_data, fragmentation_svg
from edgemem.report.sizes import size_text

if TYPE_CHECKING:
    from pathlib import Path

    from rich.console import Console

    from edgemem.commands.trace import TraceReport

__all__ = ["print_json", "show_trace", "write_files"]


def write_files(report: TraceReport, output: Path | None, svg: Path | None, *, title: str) -> list[Path]:
    """Write the plan and the picture, where they are wanted; the files written."""
    if svg is not None:
        from edgemem.system.files import atomic_write

        if report.simulation is None:
            raise ModelError(f"the picture needs a simulation: {report.not_simulated}; give --allocator others")
        measured = None if report.history is None else report.history.reserved
        with atomic_write(svg) as file:
            picture = fragmentation_svg(report.simulation, title, measured=measured, planned=report.planned)
            file.write(picture.encode())
    if output is not None:
        from edgemem import api

        api.save(None, report.planset, output)
    return [path for path in (output, svg) if path is not None]


def show_trace(report: TraceReport, *, top: int) -> None:
    """The figures, and the largest requests at the peak."""
    console = console_for()
    best = report.planset.best_offsets
    assert best is not None
    said = answer(best, report.lower_bound, report.planset.naive, proved=report.planset.proved.offsets)
    print_folded(console, f"arena {said}", indent=2)
    _show_saving(console, report)
    console.print()
    rows = [(name, f"{size:,}", size_text(size), about) for name, size, about in _rows(report)]
    print_table(console, ("<memory", "bytes", "", "<"), rows)
    _show_notes(console, report)
    _show_largest(console, report, top)


def _show_saving(console: Console, report: TraceReport) -> None:
    held = report.reserved
    if not held:
        return
    who = "PyTorch reserved" if report.history is not None else "PyTorch's caching allocator would reserve"
    change = (report.planned / held - 1) * 100
    print_folded(console, f"{who} {size_text(held)}: {change:+.1f} % with the plan", indent=2)


def _rows(report: TraceReport) -> list[tuple[str, int, str]]:
    """Name, bytes, and what to know of them."""
    rows = [("requested at the peak", report.trace.peak, f"{len(report.trace.requests):,} requests in all")]
    if report.history is not None:
        held = report.history.reserved_peak
        rows.append(("reserved by PyTorch", held, _efficiency(report.trace.peak, held)))
        at_peak = int(report.history.reserved[report.peak_event or 0])
        rows.append(("  lost at the peak", max(at_peak - report.trace.peak, 0), "fragments, rounding, cache"))
        for failure in report.history.failures[:1]:
            used, stranded = report.history.at_failure(failure)
            about = f"beside {size_text(used)} in use"
            rows.append(("  lost at the failure", stranded, about))
    if report.simulation is not None:
        held = report.simulation.reserved_peak
        rows.append(("caching allocator", held, f"simulated, {_efficiency(report.trace.peak, held)}"))
        rows.append(("  fragmentation", report.simulation.fragmentation, "beyond what it gave out"))
    rows.append(("lower bound", report.lower_bound, ""))
    what = "of one iteration" if report.cycle is not None else "of the whole trace"
    rows.append(("planned arena", report.arena, what))
    if report.outside:
        rows.append(("outside of the plan", report.outside, "kept, dynamic, in between"))
    return rows


def _efficiency(peak: int, held: int) -> str:
    return f"{peak / held:.1%} used at the peak" if held else "nothing"


def _show_notes(console: Console, report: TraceReport) -> None:
    notes = []
    if report.not_cyclic:
        notes.append(f"the whole trace is planned, not an iteration: {report.not_cyclic}")
    if report.not_simulated:
        notes.append(f"not simulated: {report.not_simulated}")
    if report.simulation is not None and report.simulation.out_of_memory is not None:
        notes.append(f"the simulated allocator runs out of memory at event {report.simulation.out_of_memory:,}")
    if report.cycle is not None and any(cycle.is_dynamic.any() for cycle in report.cycle.cycles):
        notes.append("dynamic requests count as outside; some of them will find room in the arena")
    for failure in report.history.failures[:1] if report.history is not None else ():
        count = len(report.history.failures) if report.history is not None else 0
        more = f", the first of {count}" if count > 1 else ""
        used, stranded = report.history.at_failure(failure) if report.history is not None else (0, 0)
        notes.append(
            f"a request of {size_text(failure.size)} failed with {size_text(failure.free)} free on the device{more}"
        )
        notes.append(f"{size_text(used)} were in use then, and {size_text(stranded)} were reserved and not in use")
    if notes:
        console.print()
    for note in notes:
        print_folded(console, printable(note), indent=2)


def _show_largest(console: Console, report: TraceReport, top: int) -> None:
    shown = report.largest[:top]
    if not shown:
        return
    alive = sum(row.count for row in report.largest)
    console.print(f"\nlargest of the {alive:,} requests alive at the peak (event {report.peak_event:,})")
    rows = [(f"{r.size * r.count:,}", size_text(r.size), f"{r.count:,}", printable(r.place)) for r in shown]
    print_table(console, ("bytes", "each", "count", "<place"), rows)
    left = len(report.largest) - len(shown)
    if left:
        console.print(f"and {left:,} more sizes or places; --top lists them")


def print_json(report: TraceReport, top: int) -> None:
    """The figures as JSON."""
    best = report.planset.best_offsets
    assert best is not None
    history, simulation = report.history, report.simulation
    data: dict[str, Any] = {
        "device": None if history is None else history.device,
        "requests": len(report.trace.requests),
        "requested_peak": report.trace.peak,
        "peak_event": report.peak_event,
        "reserved_peak": None if history is None else history.reserved_peak,
        "simulated": None if simulation is None else fragmentation_data(simulation),
        "not_simulated": report.not_simulated,
        "planned": "iteration" if report.cycle is not None else "trace",
        "not_cyclic": report.not_cyclic,
        "strategy": best.strategy,
        "arena": report.arena,
        "lower_bound": report.lower_bound,
        "optimal": best.size == report.lower_bound or best.optimal,
        "outside": report.outside,
        "failures": [] if history is None else [{"size": f.size, "free": f.free} for f in history.failures],
        "at_failures": []
        if history is None
        else [
            dict(zip(("used", "stranded"), history.at_failure(failure), strict=True)) for failure in history.failures
        ],
        "largest": [{"size": r.size, "count": r.count, "place": r.place} for r in report.largest[:top]],
    }
    click.echo(json.dumps(data))
