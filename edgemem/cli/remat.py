"""`edgemem remat`: a recorded program under memory budgets."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import click

from edgemem.cli.options import FILE, FileCommand, parsed_size

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["remat"]

_PART = re.compile(r"\d{1,9}\.\d{0,9}|\.\d{1,9}|1")
_MOST_PEAKS = 100


def _budgets(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> tuple[int | float, ...]:
    """Parts of the peak ("0.5") or sizes ("2GiB"); several in one text are separated by commas."""
    found: list[int | float] = []
    for part in ",".join(values).split(","):
        size = float(part) if _PART.fullmatch(part.strip()) else parsed_size(ctx, param, part.strip())
        if not size or (isinstance(size, float) and size > _MOST_PEAKS):
            raise click.BadParameter(f"{part!r} is neither a part of the peak, such as 0.5, nor a size, such as 2GiB")
        found.append(size)
    return tuple(found)


def _names(_ctx: click.Context, _param: click.Parameter, value: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in value.split(",") if name.strip())


@click.command(cls=FileCommand)
@click.argument("log", type=FILE)
@click.option("--policy", default="coop", show_default=True, metavar="NAME", help="What decides what is evicted.")
@click.option(
    "--budget",
    "budgets",
    multiple=True,
    default=["0.9,0.8,0.7,0.6,0.5"],
    show_default="0.9,0.8,0.7,0.6,0.5",
    callback=_budgets,
    metavar="BUDGET,...",
    help="Memory for all values: a part of the program's peak, or a size; repeatable.",
)
@click.option(
    "--compare",
    default="",
    callback=_names,
    metavar="NAME,...",
    help="Other policies to compare with; `all` takes all.",
)
@click.option(
    "--limit",
    default=10.0,
    show_default=True,
    type=click.FloatRange(0, 1000),
    help="Give up when recomputing takes so many times the program's own time.",
)
@click.option("--quick", is_flag=True, help="Do not look for the minimum and the cutoff budget.")
@click.option("-o", "--output", type=FILE, metavar="FILE.svg", help="Draw overhead over budget.")
@click.option("--json", "as_json", is_flag=True, help="Print the figures as JSON (docs/json.md).")
def remat(
    *,
    log: Path,
    policy: str,
    budgets: tuple[int | float, ...],
    compare: tuple[str, ...],
    limit: float,
    quick: bool,
    output: Path | None,
    as_json: bool,
) -> None:
    """Show what less memory costs a training program that recomputes what it evicts.

    LOG is what the program ran: recorded by edgemem.torch.record_operators (.npz), or a log of DTR's prototype (.log,
    .log.gz). It is run under each budget in a simulator with real addresses. Policies: dtr, dte, coop; coop-window,
    coop-partition and coop-in-place are parts of coop (docs/rematerialisation.md).
    """
    from edgemem.cli import remat_view
    from edgemem.cli.console import progress as progress_line
    from edgemem.commands.remat import examine_log
    from edgemem.remat.policies import POLICIES

    if output is not None and output.suffix.lower() != ".svg":
        raise click.UsageError("the picture is written as SVG: give -o FILE.svg")
    others = tuple(POLICIES) if compare == ("all",) else compare
    with progress_line("simulating") as progress:
        report = examine_log(log, (policy, *others), budgets, limit=limit, with_borders=not quick, progress=progress)
    if output is not None:
        remat_view.write_picture(report, output, title=log.name)
    if as_json:
        click.echo(json.dumps({"log": str(log), **report.data()}))
        return
    remat_view.show_report(report, name=log.name)
    if output is not None:
        click.echo(f"wrote {output}")
