"""`edgemem measure`: memory and latency of a model in fresh processes."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from edgemem.cli.options import FILE, FileCommand, feeds
from edgemem.cli.options import bindings as bindings_options

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from edgemem.formats import Bindings

__all__ = ["measure"]


def _ranges(_ctx: click.Context, _param: click.Parameter, values: tuple[str, ...]) -> dict[str, tuple[int, int]]:
    pairs = {}
    for value in values:
        name, _, text = value.rpartition("=")
        first, _, last = text.partition("..")
        if not name or not first.isdecimal() or not last.isdecimal() or int(first) > int(last):
            raise click.BadParameter(f"{value!r} is not NAME=FIRST..LAST with two whole numbers")
        pairs[name] = (int(first), int(last))
    return pairs


def _requests(_ctx: click.Context, _param: click.Parameter, values: tuple[str, ...]) -> list[dict[str, Path]]:
    """The files of each request: those of an input in turn, and the only one of an input for all."""
    files: dict[str, list[Path]] = {}
    for value in values:
        name, _, file = value.rpartition("=")
        if not name or not file:
            raise click.BadParameter(f"{value!r} is not INPUT=FILE.npy")
        files.setdefault(name, []).append(Path(file))
    count = max(map(len, files.values()), default=0)
    if odd := [name for name, given in files.items() if len(given) not in (1, count)]:
        given = len(files[odd[0]])
        raise click.BadParameter(f"{odd[0]!r} has {given} files where another input has {count}; give it 1 or {count}")
    return [{name: given[k % len(given)] for name, given in files.items()} for k in range(count)]


@click.command(cls=FileCommand)
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
    as_json: bool,
) -> None:
    """Measure a model's real memory and latency, as its runtime has it and inside plans.

    An .onnx model runs in ONNX Runtime as it is, tuned by hand, and inside plans; a .tflite model in LiteRT and in
    TensorFlow Lite Micro, each as it is and inside a plan. The requests are served in turn by fresh processes, three
    runs before the timed ones.
    """
    from edgemem.formats import Bindings

    is_tflite = model.suffix.lower() == ".tflite"
    if is_tflite and (dims or vary):
        raise click.UsageError("the dimensions of .tflite models have no names; give --input-shape INPUT=D0,D1,...")
    if not is_tflite and (against or runtime or xnnpack):
        raise click.UsageError("--against, --runtime and --xnnpack are for .tflite models")
    if requests and vary:
        raise click.UsageError("--vary makes up inputs; leave out --input")
    given: list[dict[str, NDArray[Any]]] = [found for files in requests if (found := feeds(files))]
    limits: dict[str, Any] = {"seed": seed, "repeats": repeats, "rounds": rounds, "threads": threads}
    if is_tflite:
        chosen = [*(["litert", "edgemem"] if runtime != "tflm" else []), *(["xnnpack"] if xnnpack else [])]
        chosen += ["tflm", "tflm_planned"] if runtime != "litert" else []
        _in_tflite_runtimes(model, against, given, input_shapes, chosen, limits, as_json=as_json)
    else:
        _in_onnxruntime(model, given, Bindings(dims, input_shapes), vary, limits, as_json=as_json)


def _in_onnxruntime(
    model: Path,
    given: Sequence[Mapping[str, NDArray[Any]]],
    bindings: Bindings,
    vary: Mapping[str, tuple[int, int]],
    limits: Mapping[str, Any],
    *,
    as_json: bool,
) -> None:
    from edgemem.cli.console import progress as progress_line
    from edgemem.cli.measured_view import show_measured
    from edgemem.commands.measure import measure as measured

    with progress_line("measuring in fresh processes"):
        rows = measured(model, given, bindings=bindings, vary=vary, **limits)
    if as_json:
        click.echo(json.dumps([dataclasses.asdict(row) for row in rows]))
    else:
        show_measured(rows)


def _in_tflite_runtimes(
    model: Path,
    against: Path | None,
    given: Sequence[Mapping[str, NDArray[Any]]],
    input_shapes: Mapping[str, tuple[int, ...]],
    configurations: Sequence[str],
    limits: Mapping[str, Any],
    *,
    as_json: bool,
) -> None:
    from edgemem.cli.console import progress as progress_line
    from edgemem.cli.measured_view import show_measured_tflite
    from edgemem.commands.measure_tflite import measure_tflite

    with progress_line("measuring in fresh processes"):
        rows = measure_tflite(
            model, given, against=against, input_shapes=input_shapes, configurations=configurations, **limits
        )
    if as_json:
        click.echo(json.dumps([dataclasses.asdict(row) for row in rows]))
    else:
        show_measured_tflite(rows)
