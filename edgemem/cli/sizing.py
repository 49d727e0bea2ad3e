"""`edgemem size`: what a model will take, part by part, before it runs."""

from __future__ import annotations

import itertools
import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Final

import click

from edgemem.cli.exit_codes import EXIT_FAILED
from edgemem.cli.options import FILE, FileCommand, parse_pairs, parsed_size, shape_option, timeout_option

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from edgemem.commands.process_size import ProcessSize, SizePoint
    from edgemem.commands.shared_size import Share

__all__ = ["size"]

_COLUMNS: Final = 3  # of sizes beside each other in 80 columns


def _values(_ctx: click.Context, _param: click.Parameter, values: tuple[str, ...]) -> dict[str, tuple[int, ...]]:
    def parse(text: str) -> tuple[int, ...] | None:
        numbers = text.split(",")
        return tuple(map(int, numbers)) if all(number.isdecimal() for number in numbers) else None

    return dict(parse_pairs(values, "NAME=VALUE,... with whole numbers", parse))


@click.command(cls=FileCommand)
@click.argument("models", type=FILE, nargs=-1, required=True, metavar="MODEL...")
@click.option(
    "--runtime", type=click.Choice(["litert", "tflm"]), help="Of a .tflite file.  [default: tflm]", default=None
)
@click.option(
    "--dim",
    "dims",
    multiple=True,
    metavar="NAME=VALUE,...",
    callback=_values,
    help="Bind a dimension of an .onnx file to one value, or to several that are told side by side; repeatable.",
)
@shape_option
@click.option("--threads", type=click.IntRange(min=1), help="Of one operator of an .onnx file.  [default: 1]")
@click.option("--processes", type=click.IntRange(min=1), help="Of an .onnx file, at once.  [default: 1]")
@click.option(
    "--share",
    type=click.Choice(["sequential", "interleaved"]),
    help="Of several models in one arena: one runs after the other, or the outputs of one are kept while others run.",
)
@click.option(
    "--budget",
    metavar="SIZE",
    callback=parsed_size,
    help="Exit code 3 if the model needs more RAM than SIZE, workspace and tail included; all processes of an .onnx "
    "file, also while they load.",
)
@timeout_option("End a process that runs longer.")
@click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")
def size(
    *,
    models: tuple[Path, ...],
    runtime: str | None,
    dims: dict[str, tuple[int, ...]],
    input_shapes: dict[str, tuple[int, ...]],
    threads: int | None,
    processes: int | None,
    share: Share | None,
    budget: int | None,
    timeout: float | None,
    as_json: bool,
) -> None:
    """Tell what a model will take, and for what: flash and RAM of a .tflite model, processes that serve an .onnx model.

    A .tflite model runs in its runtime, with the plan in the file where it can, else as the runtime places everything
    by itself; exit code 1 if something could not be measured. An .onnx model is opened in fresh processes
    and runs at its smallest sizes; other sizes and numbers of processes are computed.

    Of several models it tells the arena that they need together: in TensorFlow Lite Micro with one MicroAllocator,
    predicted; .onnx models in one edgemem.Arena, and .tflite models beside them, or with --runtime litert, in arenas of
    LiteRT's own.
    """
    if share or len(models) > 1:
        if share is None or len(models) == 1:
            raise click.UsageError("several models and --share, which says how they run, belong together")
        if dims or input_shapes or threads or processes:
            raise click.UsageError("--dim, --input-shape, --threads and --processes are for one .onnx model")
        _size_shared(models, share, runtime, budget=budget, timeout=timeout, as_json=as_json)
        return
    model = models[0]
    if model.suffix.lower() == ".tflite":
        if dims or input_shapes or threads or processes:
            raise click.UsageError("--dim, --input-shape, --threads and --processes are for .onnx models")
        _size_tflite(model, runtime or "tflm", budget=budget, timeout=timeout, as_json=as_json)
        return
    if runtime:
        raise click.UsageError("--runtime is for .tflite models; .onnx models run in ONNX Runtime")
    from edgemem.cli.console import progress as progress_line
    from edgemem.commands.process_size import check_processes, process_size, process_size_data

    choices = [dict(zip(dims, values, strict=True)) for values in itertools.product(*dims.values())]
    with progress_line("opening the model in a fresh process"):
        made = process_size(
            model,
            choices,
            input_shapes=input_shapes,
            threads=threads or 1,
            processes=processes or 1,
            timeout_s=timeout,
        )
    if as_json:
        click.echo(json.dumps(process_size_data(made)))
    else:
        _show(made)
    check_processes(made, budget)


def _size_tflite(model: Path, runtime: str, *, budget: int | None, timeout: float | None, as_json: bool) -> None:
    from edgemem.cli import view
    from edgemem.cli.console import progress as progress_line
    from edgemem.commands.size import check_size, size_data, size_of

    with progress_line("running the model to measure its arena"):
        made = size_of(model, runtime, timeout_s=timeout)
    if as_json:
        click.echo(json.dumps(size_data(made)))
    else:
        view.show_size(made)
    check_size(made, budget)
    if made.reason:
        click.get_current_context().exit(EXIT_FAILED)


def _size_shared(
    models: Sequence[Path],
    share: Share,
    runtime: str | None,
    *,
    budget: int | None,
    timeout: float | None,
    as_json: bool,
) -> None:
    from edgemem.cli import view
    from edgemem.cli.console import progress as progress_line
    from edgemem.commands.shared_size import check_shared, shared_size

    is_micro = all(model.suffix.lower() == ".tflite" for model in models) and runtime != "litert"
    if runtime == "tflm" and not is_micro:
        raise click.UsageError("TensorFlow Lite Micro runs .tflite models")
    with progress_line("measuring the arena of each model"):
        made = shared_size(models, share, in_tflm=is_micro, timeout_s=timeout)
    if as_json:
        click.echo(json.dumps(asdict(made)))
    else:
        view.show_shared_size(made)
    check_shared(made, budget)


def _show(size: ProcessSize) -> None:
    """The answer, then the parts of a process, a column for each choice of sizes."""
    from edgemem.cli.console import echo_folded
    from edgemem.report.sizes import size_text

    first, last = size.points[0].together(size.processes), size.points[-1].together(size.processes)
    several = f" to {size_text(last)}" if len(size.points) > 1 else ""
    what = "a process takes" if size.processes == 1 else f"{size.processes} processes take"
    echo_folded(f"{what} {size_text(first)}{several}; loading: up to {size_text(size.load_peak)} each")
    for start in range(0, len(size.points), _COLUMNS):
        _show_points(size, size.points[start : start + _COLUMNS])
    click.echo("\nRuns at the same time need an arena, inputs and outputs each.")


def _show_points(size: ProcessSize, points: Sequence[SizePoint]) -> None:
    from edgemem.cli.console import console_for, print_table
    from edgemem.cli.printable_text import printable
    from edgemem.report.sizes import mib_text

    rows = []
    for parts in zip(*(point.parts for point in points), strict=True):
        known = dict.fromkeys(part.known for part in parts)
        rows.append((parts[0].name, *(mib_text(part.size) for part in parts), "; ".join(known)))
    rows.append(("a process", *(mib_text(point.resident) for point in points), "the sum"))
    if size.processes > 1:
        together = (mib_text(point.together(size.processes)) for point in points)
        rows.append((f"{size.processes} processes", *together, "pages of files once"))
    rows.append(("peak at load", *[mib_text(size.load_peak)] * len(points), "measured here"))
    titles = (printable(" ".join(f"{name}={value}" for name, value in point.dims.items())) for point in points)
    console = console_for()
    console.print()
    print_table(console, ("<MiB", *titles, "<how it is known"), rows)
