"""`edgemem report`: a page about the memory of a model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from edgemem.cli.options import FILE, FileCommand, bindings, parsed_size

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["report"]

_OPEN_WITH: Final = {
    ".html": ": open it in a browser",
    ".pftrace": ": open it at ui.perfetto.dev",
    ".json": ": load it into Model Explorer, beside the model",
}


@click.command(cls=FileCommand)
@click.argument("source", type=FILE)
@click.option("-o", "--output", type=FILE, required=True, help="The file to write; its suffix says the form.")
@click.option("-t", "--target", metavar="NAME|FILE.toml", help="Plan for it; see docs/targets.md.")
@bindings
@click.option("--budget", metavar="SIZE", callback=parsed_size, help="Show it beside what the model takes.")
@click.option("--against", type=FILE, help="An older model, plan or page: show what changed, and switch between both.")
@click.option("--run", is_flag=True, help="Run an .onnx model in ONNX Runtime, and show how long each layer takes.")
@click.option("--shrink", "with_shrink", is_flag=True, help="Look for ways to need less (seconds to minutes).")
@click.option(
    "--time-limit", type=click.FloatRange(min=0), metavar="SECONDS", help="With --shrink: look for SECONDS at most."
)
def report(
    *,
    source: Path,
    output: Path,
    target: str | None,
    dims: dict[str, int | str],
    input_shapes: dict[str, tuple[int, ...]],
    budget: int | None,
    against: Path | None,
    run: bool,
    with_shrink: bool,
    time_limit: float | None,
) -> None:
    """Show where the memory of a model or a plan goes: a page to look at, or a form of another tool.

    .html is one page that loads nothing else, with the memory map, the peak, layers and the proof; .pftrace a trace
    for Perfetto; .json node data for Model Explorer; .svg and .png a picture; .md a section of Markdown.
    """
    from edgemem.cli.console import echo_folded
    from edgemem.cli.console import progress as progress_line
    from edgemem.commands.report_page import REPORT_SUFFIXES, save_report
    from edgemem.formats import Bindings
    from edgemem.shrinking.candidate import CandidateLimits
    from edgemem.shrinking.search import Search

    suffix = output.suffix.lower()
    if suffix not in REPORT_SUFFIXES:
        raise click.UsageError(f"{output.name}: a report ends in {', '.join(REPORT_SUFFIXES)}")
    if suffix != ".html" and (budget is not None or against is not None or run or with_shrink):
        raise click.UsageError("--budget, --against, --run and --shrink are shown on a page: give -o FILE.html")
    if time_limit is not None and not with_shrink:
        raise click.UsageError("--time-limit is for --shrink")
    with progress_line("reporting") as progress:
        found = None
        if with_shrink:
            found = Search(
                source,
                CandidateLimits(budget),
                bindings=Bindings.of(dims, input_shapes),
                target=target,
                time_limit=time_limit,
                progress=lambda p: progress(str(p)),
            ).found()
        save_report(
            source,
            output,
            target=target,
            dims=dims,
            input_shapes=input_shapes,
            budget=budget,
            against=against,
            found=found,
            run=run,
            progress=progress,
        )
    echo_folded(f"wrote {output} ({output.stat().st_size:,} bytes){_OPEN_WITH.get(suffix, '')}")
