"""`edgemem measure`: memory and latency of a model in fresh processes."""

from __future__ import annotations

import dataclasses
import json
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from edgemem.cli.exit_codes import EXIT_FAILED
from edgemem.cli.fleet import FleetCommand
from edgemem.cli.options import FILE, feeds, parse_files, parse_pairs
from edgemem.cli.options import bindings as bindings_options

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from edgemem.commands.measure import MeasureRow
    from edgemem.commands.measure_tflite import TfliteRow

__all__ = ["measure"]


def _ranges(_ctx: click.Context, _param: click.Parameter, values: tuple[str, ...]) -> dict[str, tuple[int, int]]:
    def parse(text: str) -> tuple[int, int] | None:
        first, _, last = text.partition("..")
        is_range = first.isdecimal() and last.isdecimal() and int(first) <= int(last)
        return (int(first), int(last)) if is_range else None

    return dict(parse_pairs(values, "NAME=FIRST..LAST with two whole numbers", parse))


def _requests(_ctx: click.Context, _param: click.Parameter, values: tuple[str, ...]) -> list[dict[str, Path]]:
    """The files of each request: those of an input in turn, and the only one of an input for all."""
    files: dict[str, list[Path]] = {}
    for name, file in parse_files(values):
        files.setdefault(name, []).append(file)
    count = max(map(len, files.values()), default=0)
    if odd := [name for name, given in files.items() if len(given) not in (1, count)]:
        given = len(files[odd[0]])
        raise click.BadParameter(f"{odd[0]!r} has {given} files where another input has {count}; give it 1 or {count}")
    return [{name: given[k % len(given)] for name, given in files.items()} for k in range(count)]


@click.command(cls=FleetCommand, doing="measuring", done="measured", alone=("against",))
@click.argument("model", type=FILE)
@click.option(
    "--input",
    "requests",
    multiple=True,
    metavar="INPUT=FILE.npy",
    callback=_requests,
    help="Feed an input from a file. Repeatable: each further file of an input is a further request.",
)
@bindings_options
@click.option(
    "--vary",
    multiple=True,
    metavar="NAME=A..B",
    callback=_ranges,
    help="Draw a dimension from A to B inclusive for every request. Repeatable.",
)
@click.option(
    "--against",
    type=FILE,
    metavar="FILE.tflite",
    help="Measure a second .tflite file by turns, and compare MODEL with it.",
)
@click.option(
    "--runtime", type=click.Choice(["litert", "tflm"]), help="Measure a .tflite file in this one alone; default: both."
)
@click.option("--xnnpack", is_flag=True, help="Measure LiteRT with XNNPACK, too.")
@click.option("--seed", default=0, show_default=True, type=click.IntRange(min=0), help="Of made-up inputs.")
@click.option("--repeats", default=20, show_default=True, type=click.IntRange(min=1), help="Timed runs a process.")
@click.option("--rounds", default=3, show_default=True, type=click.IntRange(min=1), help="Processes of each kind.")
@click.option("--threads", default=1, show_default=True, type=click.IntRange(min=1), help="Of one operator.")
@click.option(
    "--processes", default=1, show_default=True, type=click.IntRange(min=1), help="That serve an .onnx model at once."
)
@click.option("--json", "as_json", is_flag=True, help="Print the rows as JSON.")
def measure(
    *,
    model: Path,
    requests: list[dict[str, Path]],
    dims: dict[str, int],
    input_shapes: dict[str, tuple[int, ...]],
    vary: dict[str, tuple[int, int]],
    against: Path | None,
    runtime: str | None,
    xnnpack: bool,
    seed: int,
    repeats: int,
    rounds: int,
    threads: int,
    processes: int,
    as_json: bool,
) -> None:
    """Measure a model's real memory and latency, as its runtime has it and inside plans.

    An .onnx model runs in ONNX Runtime as it is, tuned by hand, and inside plans; a .tflite model in LiteRT and in
    TensorFlow Lite Micro, each as it is and inside a plan, all in fresh processes. Times are processor time. Timed runs
    alternate with those of another process, which runs what they are compared with, and their ratio is an interval.
    With --processes as many of them as a server has run at once when their memory is read.
    """
    from edgemem.cli import measured_view
    from edgemem.cli.console import progress
    from edgemem.commands.measure import measure as measure_onnx
    from edgemem.commands.measure_tflite import measure_tflite
    from edgemem.formats import Bindings

    is_tflite = model.suffix.lower() == ".tflite"
    if is_tflite and (dims or vary):
        raise click.UsageError("the dimensions of .tflite models have no names; give --input-shape INPUT=D0,D1,...")
    if not is_tflite and (against or runtime or xnnpack):
        raise click.UsageError("--against, --runtime and --xnnpack are for .tflite models")
    if is_tflite and processes > 1:
        raise click.UsageError("--processes is for .onnx models")
    if requests and vary:
        raise click.UsageError("--vary makes up inputs; leave out --input")
    given: list[dict[str, NDArray[Any]]] = [found for files in requests if (found := feeds(files))]
    limits: dict[str, Any] = {"seed": seed, "repeats": repeats, "rounds": rounds, "threads": threads}
    rows: Sequence[MeasureRow] | Sequence[TfliteRow]
    with progress("measuring in fresh processes"):
        if is_tflite:
            chosen = [*(["litert"] if runtime != "tflm" else []), *(["xnnpack"] if xnnpack else [])]
            chosen += ["tflm", "tflm_planned"] if runtime != "litert" else []
            rows = measure_tflite(
                model, given, against=against, input_shapes=input_shapes, configurations=chosen, **limits
            )
            show: Callable[[Any], None] = measured_view.show_measured_tflite
        else:
            rows = measure_onnx(
                model, given, bindings=Bindings(dims, input_shapes), vary=vary, processes=processes, **limits
            )
            show = partial(measured_view.show_measured, processes=processes)
    if as_json:
        click.echo(json.dumps([dataclasses.asdict(row) for row in rows]))
    else:
        show(rows)
    if all(row.unavailable for row in rows):
        click.get_current_context().exit(EXIT_FAILED)
