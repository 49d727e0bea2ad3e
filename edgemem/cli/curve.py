"""`edgemem curve`: what less memory costs in operators, file size and time."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from edgemem.cli.options import FILE, FileCommand
from edgemem.model.profiles import PROFILES

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from edgemem.report.curve import CurvePoint

__all__ = ["curve"]


@click.command(cls=FileCommand)
@click.argument("model", type=FILE)
@click.option("-o", "--output", type=FILE, metavar="FILE.svg", help="Write the curve as a picture.")
@click.option("-t", "--target", default="tflm", show_default=True, help="Rules of the memory; see docs/targets.md.")
@click.option(
    "--overlap",
    type=click.Choice(PROFILES),
    default="tflm-reference",
    show_default=True,
    help="Let results overlap inputs as far as the kernels of this library allow.",
)
@click.option("--max-ops", type=click.IntRange(min=1), help="Most operators of a streamed model.")
@click.option("--points", default=8, show_default=True, type=click.IntRange(min=2), help="Most points of the curve.")
@click.option(
    "--measure", is_flag=True, help="Run every point in TensorFlow Lite Micro: arena, latency, equal outputs."
)
@click.option("--json", "as_json", is_flag=True, help="Print the points as JSON.")
def curve(
    *,
    model: Path,
    output: Path | None,
    target: str,
    overlap: str,
    max_ops: int | None,
    points: int,
    measure: bool,
    as_json: bool,
) -> None:
    """Show how small the arena of a .tflite model gets, and what that costs.

    Each row is a way to run the model in stripes, for `edgemem plan --stream STAGES`. No other one found has both a
    smaller arena and fewer operators. The arena is TensorFlow Lite Micro's: head (tensors) and tail (structures).
    """
    from edgemem.cli.console import progress as progress_line
    from edgemem.commands.curve import find_curve
    from edgemem.files import atomic_write
    from edgemem.report.curve import curve_data, curve_svg
    from edgemem.targets import find_target

    if output is not None and output.suffix.lower() != ".svg":
        raise click.UsageError("the curve is written as a picture: give -o FILE.svg")
    rules = find_target(target).changed(kernels=overlap, slots=True)
    with progress_line() as progress:
        found = find_curve(model, rules, most=points, operators=max_ops, measure=measure, progress=progress)
    if output is not None:
        with atomic_write(output) as file:
            file.write(curve_svg(found, f"{model.name} in TensorFlow Lite Micro").encode())
    if as_json:
        click.echo(json.dumps({"model": str(model), "points": curve_data(found)}))
        return
    _show(found)
    if output is not None:
        click.echo(f"wrote {output}")


def _show(points: Sequence[CurvePoint]) -> None:
    from rich.table import Table

    from edgemem.cli.console import console_for
    from edgemem.report.sizes import size_text

    console = console_for()
    least, first = points[-1], points[0]
    console.print(
        f"arena {size_text(least.arena)} = head {size_text(least.head)} + tail {size_text(least.tail)} with "
        f"{least.operators - first.operators:,} more operators, {least.arena / first.arena:.3f}x of "
        f"{size_text(first.arena)} without",
        soft_wrap=True,
    )
    console.print(f"multiply-accumulates {least.macs_ratio:.3f}x", soft_wrap=True)
    console.print()
    table = Table(box=None, pad_edge=False)
    columns = ["operators", "file", "head", "tail", "arena", ""]
    timed = any(point.latency_ratio is not None for point in points)
    for column in [*columns, *(["latency"] if timed else [])]:
        table.add_column(column, justify="right", no_wrap=True)
    for point in points:
        sizes = [f"{size:,}" for size in (point.head, point.tail, point.arena)]
        ratio = f"{point.arena / first.arena:.3f}x"
        row = [f"{point.operators:,}", f"{point.file / first.file:.3f}x", *sizes, ratio]
        if timed:
            row.append("" if point.latency_ratio is None else f"{point.latency_ratio:.2f}x")
        table.add_row(*row)
    console.print(table)
    console.print()
    for point in points:
        if point.stages:
            console.print(f"{point.operators:,}: --stream {point.stages}", soft_wrap=True, highlight=False)
    if not any(point.is_measured for point in points):
        console.print("the tail is predicted for a 64-bit build; --measure runs every point")
    elif any(point.exact is False for point in points):
        console.print("some outputs differ from the original's: see `exact` in --json")
    else:
        console.print("all measured outputs equal the original's, bit for bit")
