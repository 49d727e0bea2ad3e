"""What `run`, `size`, `measure` and `record` print: the answer first, then tables."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import click
from rich.table import Table

from edgemem.cli.console import console_for
from edgemem.cli.plan_view import answer
from edgemem.cli.printable import printable
from edgemem.report.sizes import ratio_text, size_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from edgemem.commands.measure import MeasureRow
    from edgemem.commands.outcome import Outcome
    from edgemem.commands.size import ModelSize
    from edgemem.commands.verify import Report
    from edgemem.commands.verify_run import ExecutorRun
    from edgemem.plans import PlanSet

__all__ = ["show_executor_runs", "show_measured", "show_outcome", "show_recorded", "show_report", "show_size"]


def show_recorded(recorded: PlanSet) -> None:
    """What a recording's plan takes."""
    best = recorded.best_offsets
    assert best is not None
    requests = len(recorded.problem)
    click.echo(f"\nrecorded arena {answer(best, recorded.bounds.offsets, recorded.naive)}, {requests} requests")


def show_report(report: Report) -> None:
    """What was examined, a line each, and what was not."""
    lines = []
    for plan in report.plans:
        bound = "the lower bound" if plan["size"] == plan["lower_bound"] else f"lower bound {plan['lower_bound']:,}"
        under = f" under {plan['target']}" if plan["target"] else ""
        what = "arena" if plan["family"] == "offsets" else "shared objects"
        lines.append(("plan", f"of the {plan['of']}{under}: {what} {plan['size']:,} by {plan['strategy']}, {bound}"))
    lines += [("runs in", title) for title in report.runtimes]
    lines += [(leg.name, leg.checked) for leg in report.legs]
    lines += [("unchecked", text) for text in report.not_checked]
    for name, text in lines:
        indent = " " * 13
        click.echo(textwrap.fill(f"  {name:<11}{printable(text)}", 80, subsequent_indent=indent))


def show_executor_runs(runs: Sequence[ExecutorRun]) -> None:
    """A line an executor: the plan that it ran and what it took, or why it did not run it."""
    for run in runs:
        click.echo(f"  {printable(str(run))}")


def show_outcome(outcome: Outcome) -> None:
    """Memory and plan first, then what came out."""
    click.echo(printable(str(outcome.report)))
    if outcome.identical is not None:
        verdict = "identical to a plain run" if outcome.identical else f"DIFFERENT: {', '.join(outcome.different)}"
        click.echo(printable(f"outputs {verdict}"))
    for name, value in outcome.outputs.items():
        shape = "x".join(map(str, getattr(value, "shape", ()))) or "scalar"
        click.echo(f"  {printable(name)}: {getattr(value, 'dtype', type(value).__name__)} {shape}")


def show_size(size: ModelSize) -> None:
    """The arena first, then all parts of RAM and flash."""
    shared = size.runtime == "litert"
    rows: list[tuple[str, int | None, str]] = [
        ("arena", size.arena, "RAM: what LiteRT reserves for tensors and workspace" if shared else "RAM: the smallest"),
        ("activations", size.activations, "sum of all tensors" if shared else "tensors in the arena"),
        ("workspace", size.workspace, "sum of what kernels ask for" if shared else "what kernels ask for besides"),
    ]
    if shared:
        rows += [
            ("persistent", size.persistent, "kept between runs"),
            ("dynamic", size.dynamic, "allocated while it runs"),
        ]
    else:
        rows.append(("tail", size.tail, "structures and state of the interpreter"))
    rows += [("file", size.file, "flash: the whole file"), ("weights", size.weights, "constants in it")]
    for name, value, about in rows:
        shown = f"{'not measured':>14}" if value is None else f"{value:>14,}  {size_text(value):>10}"
        click.echo(f"{name:11} {shown}  {about}" if value is not None else f"{name:11} {shown}")
    click.echo(f"plan        {printable(size.plan)}")
    if size.reason:
        click.echo(f"not measured: {printable(size.reason)}", err=True)


def show_measured(rows: Sequence[MeasureRow]) -> None:
    """One line a configuration."""
    table = Table(box=None, pad_edge=False)
    table.add_column("configuration")
    for column in ("activations", "of default", "arena", "of bound", "outputs", "RSS", "ms", "time", "exact"):
        table.add_column(column, justify="right")
    default = next((row.activation for row in rows if row.configuration == "default"), None)
    for row in rows:
        if row.unavailable:
            table.add_row(row.configuration, f"{row.unavailable}")
            continue
        table.add_row(
            row.configuration,
            _size_or_dash(row.activation),
            ratio_text(row.activation, default) if row.activation is not None and default else "-",
            _size_or_dash(row.planned),
            ratio_text(row.planned, row.bound) if row.planned is not None and row.bound else "-",
            _size_or_dash(row.outputs),
            _size_or_dash(row.rss),
            "-" if row.latency_ms is None else f"{row.latency_ms:.2f}",
            "-" if row.latency_ratio is None else f"{row.latency_ratio:.2f}x",
            "-" if row.exact is None else "yes" if row.exact else "NO",
        )
    console = console_for()
    console.print(table)
    for row in rows:
        if about := "; ".join(filter(None, (row.plan, row.note))):
            console.print(f"{row.configuration}: {printable(about)}", soft_wrap=True)


def _size_or_dash(size: int | None) -> str:
    return "-" if size is None else size_text(size)
