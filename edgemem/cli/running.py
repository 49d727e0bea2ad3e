"""`edgemem run`: a model inside its plan, in a real runtime."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from edgemem.cli.exit_codes import EXIT_FAILED
from edgemem.cli.options import FILE, FileCommand, bindings, feeds, inputs_option, timeout_option
from edgemem.cli.running_gpu import gpu_options, named, run_on_gpu, show_gpu

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["run"]

_timeout = timeout_option("End a .tflite model that runs longer, in the process that it has to itself.")


@click.command(cls=FileCommand)
@click.argument("model", type=FILE)
@inputs_option
@bindings
@click.option(
    "--runtime",
    type=click.Choice(["litert", "tflm", "webgpu"]),
    help="litert and tflm for .tflite files, webgpu for .onnx files, too.  [default: what the plan is for]",
)
@click.option(
    "--executor",
    type=click.Choice(["replay", "io-binding"]),
    help="For .onnx files: replay runs a plan of a recording, io-binding the plan of the graph.  [default: replay]",
)
@click.option("--device", metavar="DEVICE", help="For .onnx files: cuda or cuda:NUMBER.  [default: cpu]")
@click.option("--threads", default=1, show_default=True, type=click.IntRange(min=1), help="Of one operator.")
@click.option("--runs", default=3, show_default=True, type=click.IntRange(min=1), help="The first one may record.")
@click.option("--compare", is_flag=True, help="Compare with a plain session, bit for bit; exit code 1 if they differ.")
@click.option("--poison", is_flag=True, help="Fill unused arena memory with a pattern first (.onnx).")
@gpu_options
@_timeout
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
    device: str | None,
    threads: int,
    runs: int,
    compare: bool,
    poison: bool,
    timeout: float | None,
    output: str | None,
    as_json: bool,
    **of_gpu: Any,
) -> None:
    """Run a model inside its plan, and say which plan it was and what memory it took.

    LiteRT places tensors by itself: its arena is measured, and compared with the plan or with what edgemem predicts.

    With webgpu, --compare compares with a run in which no tensors share memory, and with the CPU.
    """
    from edgemem.cli import view
    from edgemem.cli.console import progress as progress_line
    from edgemem.commands import outcome
    from edgemem.commands.run_gpu import is_for_webgpu

    values = feeds(inputs)
    if runtime == "webgpu" or (runtime is None and executor is None and is_for_webgpu(model)):
        from edgemem.formats import Bindings

        _check_gpu(executor=executor, device=device, threads=threads, timeout=timeout)
        made = run_on_gpu(
            model,
            of_gpu,
            feeds=values,
            bindings=Bindings(dims, input_shapes),
            runs=runs,
            compare=compare,
            poison=poison,
        )
        if output:
            outcome.write_outputs(made.outcome, output)
        show_gpu(made, as_json=as_json)
        if made.outcome.identical is False:
            click.get_current_context().exit(EXIT_FAILED)
        return
    if option := named(of_gpu):
        raise click.UsageError(f"{option} is for GPUs: give --runtime webgpu, too")
    if model.suffix.lower() == ".tflite":
        from edgemem.commands import run_tflite

        if dims:
            raise click.UsageError("TFLite has no symbolic dimensions: bind a whole shape with --input-shape")
        if executor is not None:
            raise click.UsageError(f"--executor {executor} is for .onnx models; .tflite models have --runtime")
        if device is not None:
            raise click.UsageError("--device is for .onnx models, which ONNX Runtime runs")
        if poison:
            raise click.UsageError("--poison is for .onnx models and --runtime webgpu, where edgemem has the memory")
        with progress_line("running the model"):
            result = run_tflite.run(
                model,
                values,
                runtime=runtime,
                input_shapes=input_shapes,
                threads=threads,
                runs=runs,
                compare=compare,
                timeout_s=timeout,
            )
    else:
        from edgemem.commands import run as onnx_run
        from edgemem.formats import Bindings

        if runtime is not None:
            raise click.UsageError(f"--runtime {runtime} is for .tflite models; .onnx models have --executor")
        if timeout is not None:
            raise click.UsageError("--timeout is for .tflite models; Ctrl-C ends an .onnx model")
        with progress_line("running the model"):
            result = onnx_run.run(
                model,
                values,
                bindings=Bindings(dims, input_shapes),
                executor=executor or "replay",
                device=device or "cpu",
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


def _check_gpu(*, executor: str | None, device: str | None, threads: int, timeout: float | None) -> None:
    """Raise UsageError for options that mean nothing on a GPU."""
    if executor is not None:
        raise click.UsageError(f"--executor {executor} is for ONNX Runtime, not for --runtime webgpu")
    if device is not None:
        raise click.UsageError("--device is for ONNX Runtime; --runtime webgpu has --adapter")
    if threads != 1:
        raise click.UsageError("--threads is for CPUs, not for --runtime webgpu")
    if timeout is not None:
        raise click.UsageError("--timeout is for .tflite models on the CPU; Ctrl-C ends a model on a GPU")
