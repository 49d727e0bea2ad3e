"""`edgemem trace`: what a program asked an allocator for, and what a plan saves."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from edgemem.cli.fleet import FleetCommand
from edgemem.cli.options import FILE, limits_options, strategy_option

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["trace"]


@click.command(cls=FleetCommand, doing="planning", done="planned", suffixes=(".pickle", ".npz"), alone=("svg",))
@click.argument("source", type=FILE)
@click.option("-o", "--output", type=FILE, metavar="FILE.edgemem", help="Write the plan.")
@click.option("--device", type=click.IntRange(min=0), help="Which device of a snapshot; needed if it has several.")
@strategy_option
@click.option(
    "--alignment",
    type=click.IntRange(min=1),
    help="Of every offset, in bytes  [default: 512 for a snapshot, 64 for a trace]",
)
@limits_options
@click.option(
    "--dynamic",
    multiple=True,
    metavar="PATTERN",
    help="Sections whose requests differ between iterations, such as '*.experts*'; repeatable.",
)
@click.option(
    "--allocator",
    metavar="NAME:VALUE,...",
    help="Settings of the simulated allocator, as in PYTORCH_CUDA_ALLOC_CONF  [default: the snapshot's]",
)
@click.option("--svg", type=FILE, metavar="FILE.svg", help="Draw what was allocated and reserved.")
@click.option("--top", default=10, show_default=True, type=click.IntRange(min=0), help="Requests at the peak to list.")
@click.option("--json", "as_json", is_flag=True, help="Print the figures as JSON (docs/json.md).")
def trace(
    *,
    source: Path,
    output: Path | None,
    device: int | None,
    strategy: tuple[str, ...],
    alignment: int | None,
    effort: str | None,
    time_limit: float | None,
    threads: int | None,
    dynamic: tuple[str, ...],
    allocator: str | None,
    svg: Path | None,
    top: int,
    as_json: bool,
) -> None:
    """Show where the memory of a training program goes, and plan it.

    SOURCE is a snapshot of PyTorch (torch.cuda.memory._dump_snapshot, as .pickle; nothing in it is run), or a trace
    that edgemem recorded (.npz). Where it has iterations that repeat themselves, one of them is planned; otherwise the
    whole trace is.
    """
    from edgemem.cli import trace_view
    from edgemem.cli.console import progress as progress_line
    from edgemem.commands.trace import examine_trace
    from edgemem.plans import Settings

    if output is not None and output.suffix != ".edgemem":
        raise click.UsageError("the plan of a trace has no model to go into: give -o FILE.edgemem")
    if svg is not None and svg.suffix.lower() != ".svg":
        raise click.UsageError("the picture is written as SVG: give --svg FILE.svg")
    settings = Settings(strategy or ("auto",), effort, None, time_limit, threads, alignment)
    with progress_line() as progress:
        report = examine_trace(source, settings, device=device, allocator=allocator, dynamic=dynamic, progress=progress)
    written = trace_view.write_files(report, output, svg, title=source.name)
    if as_json:
        trace_view.print_json(report, top)
        return
    trace_view.show_trace(report, top=top)
    for path in written:
        click.echo(f"wrote {path}")
