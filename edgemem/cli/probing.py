"""`edgemem probe`: whether kernels read and write in the order that a kernel profile says."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

import click

from edgemem.cli.options import FileCommand
from edgemem.model.profiles import PROFILES

if TYPE_CHECKING:
    from edgemem.commands.probe import ProbeReport

__all__ = ["probe"]

_EXIT_FAILED: Final = 1


@click.command(cls=FileCommand)
@click.option(
    "--runtime",
    type=click.Choice(["tflm"]),
    default="tflm",
    show_default=True,
    help="Whose kernels to try; they must be installed.",
)
@click.option(
    "--profile",
    type=click.Choice([name for name in PROFILES if name != "none"]),
    default="tflm-reference",
    show_default=True,
    help="The kernel profile whose distances to try.",
)
@click.option("--json", "as_json", is_flag=True, help="Print every case as JSON.")
@click.pass_context
def probe(context: click.Context, *, runtime: str, profile: str, as_json: bool) -> None:
    """Try whether the installed kernels keep a profile's overlap distances.

    Models of one operator run with their input at every distance from their output, and are compared with a run where
    the two are apart. That can show that a plan made with `shrink --kernels` would be wrong in this runtime: exit code
    1. It proves nothing about other shapes, builds and processors.
    """
    from edgemem.cli.console import progress
    from edgemem.commands.probe import probe_kernels

    with progress(f"probing {runtime}"):
        report = probe_kernels(profile)
    if as_json:
        rows = [
            {
                "case": row.name,
                "dtype": row.dtype,
                "operator": row.type,
                "verdict": row.verdict,
                "claimed": row.claimed,
                "observed": row.observed,
                "disjoint": row.disjoint,
                "step": row.step,
                "reason": row.reason,
            }
            for row in report.rows
        ]
        answer = {"runtime": report.runtime, "profile": report.profile, "counts": dict(report.counts), "cases": rows}
        click.echo(json.dumps(answer, indent=1))
    else:
        _show(report)
    if report.counts["contradicted"]:
        context.exit(_EXIT_FAILED)


def _show(report: ProbeReport) -> None:
    from edgemem.cli.console import console_for, print_table

    counts = report.counts
    tried = sum(counts.values()) - counts["not run"]
    held = "contradicts" if counts["contradicted"] else "does not contradict"
    parts = [f"{counts[v]} {v}" for v in ("contradicted", "exact", "slack", "disjoint", "not run") if counts[v]]
    click.echo(f"{report.runtime} {held} {report.profile}: {tried} cases, {', '.join(parts)}")
    rows = []
    for row in report.rows:
        claimed, observed = ("-" if value is None else str(value) for value in (row.claimed, row.observed))
        rows.append((row.name, row.dtype, claimed, observed, str(row.disjoint), row.verdict))
    console = console_for()
    console.print()
    print_table(console, ("<case", "type", "claimed", "observed", "disjoint from", "verdict"), rows)
    click.echo("\nbytes from the output's offset to the input's; `claimed` is the least that plans use")
    for row in report.rows:
        if row.reason:
            click.echo(f"{row.name}, {row.dtype}: {row.reason}")
