"""`edgemem curve`: what less memory costs in operators, file size and time, or in arithmetic."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

import click

from edgemem.cli.options import FILE, FileCommand, bindings
from edgemem.model.profiles import PROFILES, VERSIONS

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from rich.console import Console

    from edgemem.report.curve import CurvePoint
    from edgemem.report.recompute_curve import RecomputeCurve

__all__ = ["curve"]

_MOST_MACS: Final = 2.0  # with --recompute
_NEAR: Final = 1.001  # a bound without padding


@click.command(cls=FileCommand)
@click.argument("model", type=FILE)
@click.option("-o", "--output", type=FILE, metavar="FILE.svg", help="Write the curve as a picture.")
@click.option(
    "--recompute",
    is_flag=True,
    help="Ways to run operators again, of an .onnx or a .tflite model: the peak against multiply-accumulates.",
)
@click.option(
    "--max-macs",
    type=click.FloatRange(min=1),
    metavar="RATIO",
    help="Most arithmetic of a point, as a multiple, with --recompute.  [default: 2]",
)
@bindings
@click.option("--effort", type=click.Choice(["fast", "default", "max"]), help="Work of every search, with --recompute.")
@click.option(
    "-t",
    "--target",
    help="Rules of the memory; see docs/targets.md.  [default: tflm; with --recompute the format's own]",
)
@click.option(
    "--overlap",
    type=click.Choice(PROFILES),
    help="Let results overlap inputs as far as the kernels of this library allow.  [default: tflm-reference; none "
    "with --recompute]",
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
    recompute: bool,
    max_macs: float | None,
    dims: dict[str, int],
    input_shapes: dict[str, tuple[int, ...]],
    effort: str | None,
    target: str | None,
    overlap: str | None,
    max_ops: int | None,
    points: int,
    measure: bool,
    as_json: bool,
) -> None:
    """Show how small the arena of a .tflite model gets, and what that costs.

    Each row is a way to run the model in stripes, for `edgemem plan --stream STAGES`. No other one found has both a
    smaller arena and fewer operators. The arena is TensorFlow Lite Micro's: head (tensors) and tail (structures).

    With --recompute each row is a way to run operators again, for `edgemem plan --recompute only --order auto --budget
    PEAK`, of an .onnx model, too.
    """
    from edgemem.cli.console import progress as progress_line
    from edgemem.commands.curve import find_curve
    from edgemem.commands.recompute_curve import find_recompute_curve
    from edgemem.formats import Bindings
    from edgemem.report.curve import curve_data, curve_svg
    from edgemem.report.recompute_curve import recompute_curve_data, recompute_curve_svg
    from edgemem.system.files import atomic_write
    from edgemem.targets import find_target

    if output is not None and output.suffix.lower() != ".svg":
        raise click.UsageError("the curve is written as a picture: give -o FILE.svg")
    _check_options(
        recompute,
        {"--max-ops": max_ops, "--measure": measure or None, "--overlap": overlap},
        {"--max-macs": max_macs, "--dim": dims or None, "--input-shape": input_shapes or None, "--effort": effort},
    )
    with progress_line() as progress:
        if recompute:
            again = find_recompute_curve(
                model,
                target,
                max_macs=max_macs or _MOST_MACS,
                points=points,
                bindings=Bindings.of(dims, input_shapes),
                effort=effort,
                progress=progress,
            )
            picture = recompute_curve_svg(again, f"{model.name}: operators that run again")
            data = recompute_curve_data(again)
        else:
            rules = find_target(target or "tflm").changed(kernels=overlap or "tflm-reference", slots=True)
            found = find_curve(model, rules, most=points, operators=max_ops, measure=measure, progress=progress)
            picture = curve_svg(found, f"{model.name} in TensorFlow Lite Micro")
            data = {"points": curve_data(found), "kernels": rules.kernels}
    if output is not None:
        with atomic_write(output) as file:
            file.write(picture.encode())
    if as_json:
        click.echo(json.dumps({"model": str(model), **data}))
        return
    if recompute:
        _show_recompute(again)
    else:
        _show(found)
        if rules.kernels != "none":
            click.echo(f"results overlap inputs: plan with --overlap {rules.kernels}, for the kernels of")
            click.echo(VERSIONS[rules.kernels])
    if output is not None:
        click.echo(f"wrote {output}")


def _check_options(recompute: bool, of_stripes: dict[str, object], of_recompute: dict[str, object]) -> None:
    """Raise UsageError for an option of the other curve."""
    wrong = next((name for name, value in (of_stripes if recompute else of_recompute).items() if value is not None), "")
    if wrong:
        raise click.UsageError(f"{wrong} is {'not for' if recompute else 'for'} curves with --recompute: leave it out")


def _explain(curve: RecomputeCurve, console: Console) -> None:
    """Why nothing that runs again makes the peak lower."""
    from edgemem.cli.console import print_folded
    from edgemem.cli.printable_text import printable
    from edgemem.report.sizes import size_text

    bound = size_text(curve.lower_bound)
    why = "what could run again needs as much memory as it would save"
    if curve.points[0].peak <= curve.lower_bound * _NEAR and curve.widest:
        why = f"operator {printable(repr(curve.widest))} alone needs {bound}"
    print_folded(
        console,
        f"Running operators again does not make this peak lower: {why}. Smaller operators may: edgemem plan MODEL "
        "--tile auto (.onnx), --stream auto (.tflite)",
        indent=2,
    )


def _show_recompute(curve: RecomputeCurve) -> None:
    from edgemem.cli.console import console_for, print_folded, print_table
    from edgemem.report.sizes import ratio_text, size_text

    console = console_for()
    first, least = curve.points[0], curve.points[-1]
    optimal = " (optimal)" if least.peak == curve.lower_bound else f", lower bound {size_text(curve.lower_bound)}"
    print_folded(
        console,
        f"peak {size_text(least.peak)} for {least.macs_ratio:.3f}x the multiply-accumulates, {size_text(first.peak)} "
        f"without, {size_text(curve.given_peak)} in the file's order{optimal}",
        indent=2,
    )
    console.print()
    rows = [
        (f"{p.peak:,}", ratio_text(p.peak, first.peak), f"{p.macs:,}", f"{p.macs_ratio:.3f}x", f"{p.operators:,}")
        for p in curve.points
    ]
    print_table(console, ("peak", "of it", "multiply-accumulates", "ratio", "operators"), rows)
    console.print()
    if len(curve.points) == 1:
        _explain(curve, console)
        return
    print_folded(console, "for each: edgemem plan MODEL --recompute only --order auto --budget PEAK", indent=2)


def _show(points: Sequence[CurvePoint]) -> None:
    from edgemem.cli.console import console_for, print_folded, print_table
    from edgemem.report.sizes import size_text

    console = console_for()
    least, first = points[-1], points[0]
    print_folded(
        console,
        f"arena {size_text(least.arena)} = head {size_text(least.head)} + tail {size_text(least.tail)} with "
        f"{least.operators - first.operators:,} more operators, {least.arena / first.arena:.3f}x of "
        f"{size_text(first.arena)} without",
        indent=2,
    )
    print_folded(console, f"multiply-accumulates {least.macs_ratio:.3f}x", indent=2)
    console.print()
    columns = ["operators", "file", "head", "tail", "arena", ""]
    timed = any(point.latency_ratio is not None for point in points)
    rows = []
    for point in points:
        sizes = [f"{size:,}" for size in (point.head, point.tail, point.arena)]
        ratio = f"{point.arena / first.arena:.3f}x"
        row = [f"{point.operators:,}", f"{point.file / first.file:.3f}x", *sizes, ratio]
        if timed:
            row.append("" if point.latency_ratio is None else f"{point.latency_ratio:.2f}x")
        rows.append(row)
    print_table(console, [*columns, *(["latency"] if timed else [])], rows)
    console.print()
    for point in points:
        if point.stages:
            print_folded(console, f"{point.operators:,}: --stream {point.stages}", indent=2)
    if not any(point.is_measured for point in points):
        console.print("the tail is predicted for a 64-bit build; --measure runs every point")
    elif any(point.exact is False for point in points):
        console.print("some outputs differ from the original's: see `exact` in --json")
    else:
        console.print("all measured outputs equal the original's, bit for bit")
