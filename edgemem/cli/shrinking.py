"""`edgemem shrink`: what makes a model run in less memory, what that costs, and the changed model."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

import click

from edgemem.cli.fleet import FleetCommand
from edgemem.cli.options import FILE, feeds, inputs_option, parsed_size, range_bindings
from edgemem.model.profiles import PROFILES

if TYPE_CHECKING:
    from pathlib import Path

    from edgemem.model.ranges import Dimension

__all__ = ["shrink"]


# As `edgemem.shrinking.steps.CHANGES`, which loads what help does not need.
_CHANGES: Final = ("fold", "optimize", "order", "stream", "tile", "split", "recompute", "overlap")


def _names(_ctx: click.Context, _param: click.Parameter, value: str | None) -> tuple[str, ...] | None:
    return None if value is None else tuple(filter(None, (name.strip() for name in value.split(","))))


@click.command(cls=FleetCommand, doing="shrinking", done="shrunk")
@click.argument("model", type=FILE)
@click.option("-o", "--output", type=FILE, help="Write the changed model with its plan.")
@click.option(
    "--budget",
    metavar="SIZE",
    callback=parsed_size,
    help="Memory that the runtime may take, such as 256KiB: the head and tail of TensorFlow Lite Micro, or the arena "
    "of LiteRT or of an ONNX Runtime session. Without it the least is found.",
)
@click.option("-t", "--target", metavar="NAME|FILE.toml", help="Rules of the memory; see docs/targets.md.")
@click.option(
    "--kernels",
    type=click.Choice(PROFILES),
    help="The kernel library of the device. Results then overlap inputs as far as it allows, for that library alone.",
)
@range_bindings
@click.option(
    "--allow",
    metavar="NAME,...",
    callback=_names,
    help=f"Choose among these changes alone; all by default: {', '.join(_CHANGES)}.",
)
@click.option(
    "--steps", metavar="STEP,...", help="Apply these changes instead of a search, such as order,stream=0:5:8."
)
@click.option(
    "--max-macs",
    type=click.FloatRange(min=1),
    default=1.15,
    show_default=True,
    metavar="RATIO",
    help="Most arithmetic, as a multiple of the model's.",
)
@click.option("--max-latency", type=click.FloatRange(min=0), metavar="RATIO", help="Most time of a run, as measured.")
@click.option("--max-operators", type=click.IntRange(min=1), help="Most operators of the changed model.")
@click.option("--max-file", metavar="SIZE", callback=parsed_size, help="Largest file, without its plan.")
@click.option("--identical", "outputs", flag_value="identical", help="Keep every bit of the outputs.")
@click.option("--close", "outputs", flag_value="close", help="Allow any difference of the outputs, and say how large.")
@inputs_option
@click.option(
    "--time-limit",
    type=click.FloatRange(min=0),
    metavar="SECONDS",
    help="Look for no other candidate after SECONDS; the result then depends on the machine.",
)
@click.option("--json", "as_json", is_flag=True, help="Print what was found as JSON (docs/json.md).")
def shrink(
    *,
    model: Path,
    output: Path | None,
    budget: int | None,
    target: str | None,
    kernels: str | None,
    dims: dict[str, int | Dimension],
    input_shapes: dict[str, tuple[int, ...]],
    allow: tuple[str, ...] | None,
    steps: str | None,
    max_macs: float,
    max_latency: float | None,
    max_operators: int | None,
    max_file: int | None,
    outputs: Any,
    inputs: dict[str, Path],
    time_limit: float | None,
    as_json: bool,
) -> None:
    """Make a model run in less memory with the same outputs, and say what that costs.

    It looks for the cheapest way within the budget, or for the least memory: in which order operators run, in stripes
    or tiles, which of them run twice, and at which of ONNX Runtime's levels. Nothing is written without -o.
    """
    from edgemem.cli import shrink_view
    from edgemem.cli.console import echo_folded
    from edgemem.cli.printable_text import printable
    from edgemem.errors import BudgetExceededError, UnsupportedError
    from edgemem.formats import Bindings
    from edgemem.runtime.executors import where_it_runs
    from edgemem.shrinking.candidate import CandidateLimits
    from edgemem.shrinking.search import Search

    if output is not None and output.resolve() == model.resolve():
        raise click.UsageError("the changed model would replace the model itself; write it into another file with -o")
    limits = CandidateLimits(budget, max_macs, max_latency, max_operators, max_file, outputs or "as-runtime")
    with shrink_view.live_progress(limits) as progress:
        search = Search(
            model,
            limits,
            bindings=Bindings.of(dims, input_shapes),
            target=target,
            kernels=kernels,
            allow=allow,
            feeds=feeds(inputs),
            time_limit=time_limit,
            progress=progress,
        )
        shrunk = search.by_hand(steps) if steps is not None else None
        found = shrunk.found if shrunk is not None else search.found()
        if shrunk is None and found.best is not None:
            shrunk = search.made(found.best, found)
        plansets = shrunk.save(output) if shrunk is not None and output is not None else ()
    effects = shrunk.steps if shrunk is not None else ()
    if as_json:
        by_step = [asdict(effect) for effect in effects]
        click.echo(json.dumps({"model": str(model), **shrink_view.found_data(found), "steps": by_step}))
    else:
        for line in (*shrink_view.answer_lines(found, limits), *shrink_view.step_lines(effects)):
            echo_folded(line)
        rows = shrink_view.rows_of(found, limits)
        if rows.cells:
            # Commands are not folded, so that they can be copied.
            for line in ("", *shrink_view.table_lines(rows)):
                click.echo(printable(line))
        if output is None and found.best is not None and found.best.steps:
            echo_folded("\nnothing was written: add -o FILE to a command")
    if output is not None and shrunk is not None and not as_json:
        echo_folded(f"wrote {output}: {where_it_runs(plansets, output.suffix, shrunk.model, output)}")
    if found.best is None and limits.budget is None:
        raise UnsupportedError(f"{model.name}: nothing within the limits can be used; the reasons are above")
    if found.best is None:
        least = min(c.memory for c in found.candidates)
        raise BudgetExceededError(
            f"{model.name}: nothing within the limits takes {budget or 0:,} bytes or less",
            required=least,
            available=budget or 0,
        )
