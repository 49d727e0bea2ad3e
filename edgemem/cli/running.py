"""`edgemem run`, `edgemem size` and `edgemem measure`: models inside their plans, in real runtimes."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING

import click

from edgemem.cli.options import FILE, bindings, feeds, inputs_option

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["measure", "run", "size"]

EXIT_FAILED = 1


@click.command()
@click.argument("model", type=FILE)
@inputs_option
@bindings
@click.option("--runtime", type=click.Choice(["litert", "tflm"]), help="For .tflite files.  [default: litert]")
@click.option(
    "--executor",
    type=click.Choice(["replay", "io-binding"]),
    help="For .onnx files: replay runs a plan of a recording, io-binding the plan of the graph.  [default: replay]",
)
@click.option("--threads", default=1, show_default=True, type=click.IntRange(min=1), help="Of one operator.")
@click.option("--runs", default=3, show_default=True, type=click.IntRange(min=1), help="The first one may record.")
@click.option("--compare", is_flag=True, help="Compare with a plain session, bit for bit; exit code 1 if they differ.")
@click.option("--poison", is_flag=True, help="Fill unused arena memory with a pattern first.")
@click.option("-o", "--output", type=click.Path(file_okay=False), help="Write each output to FOLDER/NAME.npy.")
@click.option("--json", "as_json", is_flag=True, help="Print the memory report as JSON.")
def run(
    *,
    model: Path,
    inputs: dict[str, Path],
    dims: dict[str, int],
    input_shapes: dict[str, tuple[int, ...]],
    runtime: str | None,
    executor: str | None,
    threads: int,
    runs: int,
    compare: bool,
    poison: bool,
    output: str | None,
    as_json: bool,
) -> None:
    """Run a model inside its plan, and say which plan it was and what memory it took."""
    from edgemem.cli import view
    from edgemem.commands import outcome

    values = feeds(inputs)
    if model.suffix.lower() == ".tflite":
        from edgemem.commands import trial_tflite

        if dims or input_shapes:
            raise click.UsageError("--dim and --input-shape bind .onnx models here")
        if executor is not None:
            raise click.UsageError(f"--executor {executor} is for .onnx models; .tflite models have --runtime")
        result = trial_tflite.run(
            model, values, runtime=runtime or "litert", threads=threads, runs=runs, compare=compare, poison=poison
        )
    else:
        from edgemem.commands import run as onnx_run
        from edgemem.formats import Bindings

        if runtime is not None:
            raise click.UsageError(f"--runtime {runtime} is for .tflite models; .onnx models have --executor")
        result = onnx_run.run(
            model,
            values,
            bindings=Bindings(dims, input_shapes),
            executor=executor or "replay",
            threads=threads,
            runs=runs,
            compare=compare,
            poison=poison,
        )
    if output:
        outcome.write_outputs(result, output)
    if as_json:
        click.echo(json.dumps(outcome.outcome_data(result)))
    else:
        view.show_outcome(result)
    if result.identical is False:
        click.get_current_context().exit(EXIT_FAILED)


@click.command()
@click.argument("model", type=FILE)
@inputs_option
@bindings
@click.option("--repeats", default=20, show_default=True, type=click.IntRange(min=1), help="Timed runs a process.")
@click.option("--rounds", default=3, show_default=True, type=click.IntRange(min=1), help="Processes of each kind.")
@click.option("--threads", default=1, show_default=True, type=click.IntRange(min=1), help="Of one operator.")
@click.option("--json", "as_json", is_flag=True, help="Print the rows as JSON.")
def measure(
    *,
    model: Path,
    inputs: dict[str, Path],
    dims: dict[str, int],
    input_shapes: dict[str, tuple[int, ...]],
    repeats: int,
    rounds: int,
    threads: int,
    as_json: bool,
) -> None:
    """Measure an ONNX model's real memory and latency: ONNX Runtime as it is, tuned by hand, and inside plans."""
    from edgemem.cli import view
    from edgemem.cli.console import progress as progress_line
    from edgemem.commands.measure import measure as measured
    from edgemem.formats import Bindings

    with progress_line("measuring in fresh processes"):
        rows = measured(
            model,
            feeds(inputs),
            bindings=Bindings(dims, input_shapes),
            repeats=repeats,
            rounds=rounds,
            threads=threads,
        )
    if as_json:
        click.echo(json.dumps([dataclasses.asdict(row) for row in rows]))
    else:
        view.show_measured(rows)


@click.command()
@click.argument("model", type=FILE)
@click.option("--runtime", type=click.Choice(["litert", "tflm"]), default="tflm", show_default=True)
@click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")
def size(*, model: Path, runtime: str, as_json: bool) -> None:
    """Tell how large an arena a .tflite model takes in a runtime by itself, and what it is made of."""
    from edgemem.cli import view
    from edgemem.commands import trial_tflite

    made = trial_tflite.size_of(model, runtime)
    if as_json:
        click.echo(json.dumps(made))
    else:
        view.show_size(made)
