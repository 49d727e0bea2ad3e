"""`edgemem run --runtime webgpu`: its options, and what it prints."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from edgemem.commands.run_gpu import GpuOptions, GpuOutcome

__all__ = ["GPU_OPTIONS", "gpu_options", "named", "run_on_gpu", "show_gpu"]

_Command = TypeVar("_Command", bound="Callable[..., Any]")

GPU_OPTIONS = ("storage", "precision", "adapter", "profile", "cpu_ops", "timings")


def gpu_options(command: _Command) -> _Command:
    """The options of webgpu alone, given to the command as `GPU_OPTIONS` has them; None or False if absent."""
    made = (
        click.option(
            "--storage",
            type=click.Choice(["buffer", "texture2d", "texture-linear", "texture-array"]),
            help="webgpu: what holds the tensors.  [default: as the plan says]",
        ),
        click.option(
            "--precision", type=click.Choice(["fp32", "fp16"]), help="webgpu: of stored tensors.  [default: as planned]"
        ),
        click.option("--adapter", metavar="NAME", help="webgpu: a part of the GPU's name.  [default: the first GPU]"),
        click.option(
            "--profile",
            type=click.Choice(["portable", "adapter"]),
            help="webgpu: limits that every device has, or all that this one has.  [default: portable]",
        ),
        click.option("--cpu-ops", is_flag=True, help="webgpu: run operators without a kernel on the CPU."),
        click.option("--timings", is_flag=True, help="webgpu: print the time of each operator."),
    )
    for option in reversed(made):
        command = option(command)
    return command


def named(values: Mapping[str, Any]) -> str:
    """The first option of webgpu alone that was given, as it is typed; "" if there is none."""
    return next((f"--{name.replace('_', '-')}" for name in GPU_OPTIONS if values[name]), "")


def run_on_gpu(model: Path, values: Mapping[str, Any], *, poison: bool, **given: Any) -> GpuOutcome:
    """Run a model on a GPU.

    Args:
        model: the file.
        values: by the names of `GPU_OPTIONS`.
        poison: fill the memory with NaN first.
        given: further arguments of `edgemem.commands.run_gpu.run_gpu`.
    """
    from edgemem.cli.console import progress
    from edgemem.commands.run_gpu import GpuOptions, run_gpu

    options: GpuOptions = GpuOptions(
        storage=values["storage"],
        precision=values["precision"],
        adapter=values["adapter"],
        profile=values["profile"] or "portable",
        cpu_ops=values["cpu_ops"],
        poison=poison,
    )
    with progress("running the model"):
        return run_gpu(model, options=options, timings=values["timings"], **given)


def show_gpu(made: GpuOutcome, *, as_json: bool) -> None:
    """Memory and plan first, then the time, how near it is to other runs, and what came out."""
    from edgemem.cli import view
    from edgemem.cli.console import console_for, print_folded
    from edgemem.commands.run_gpu import gpu_data

    if as_json:
        click.echo(json.dumps(gpu_data(made)))
        return
    console = console_for()
    print_folded(console, str(made.outcome.report), indent=2)
    print_folded(console, _allocated(made), indent=2)
    of = f", the median of {len(made.runs_ms) - 1} after the first" if len(made.runs_ms) > 2 else ""
    print_folded(console, f"{made.run_ms:.1f} ms a run{of}, on {made.adapter}", indent=2)
    if made.outcome.identical is not None:
        different = ", ".join(made.outcome.different)
        verdict = f"DIFFERENT: {different}" if different else "identical to a run in which no tensors share memory"
        print_folded(console, f"outputs {verdict}", indent=2)
    if made.reference is not None:
        print_folded(console, _nearness(made), indent=2)
    view.show_outputs(made.outcome)
    if made.times:
        _show_times(made)


def _allocated(made: GpuOutcome) -> str:
    from edgemem.report.sizes import size_text

    report = made.outcome.report
    textures, cpu_ops = report.details.get("textures", 0), report.details["cpu_ops"]
    whole = "one array of textures" if "texture_arrays" in report.details else "one buffer"
    what = f"{textures} texture{'s' * (textures != 1)}" if textures else whole
    beside = f"beside {size_text(report.details['weights'])} of weights"
    on_cpu = f"; {cpu_ops} operators on the CPU" if cpu_ops else ""
    return f"allocated {size_text(report.reserved)} as {what}, {beside}{on_cpu}"


def _nearness(made: GpuOutcome) -> str:
    reference = made.reference
    assert reference is not None
    if reference.reason:
        return f"not compared with {reference.runtime}: {reference.reason}"
    worst = reference.worst
    if worst is None:
        return f"not compared with {reference.runtime}: every output is constant there"
    return (
        f"from {reference.runtime} on the CPU: {worst.largest:.2g} at most in {worst.name}, "
        f"{worst.largest / worst.spread:.1e} of its spread"
    )


def _show_times(made: GpuOutcome) -> None:
    from edgemem.cli.console import console_for, print_table
    from edgemem.cli.printable_text import printable

    whole = sum(t.ms for t in made.times) or 1.0
    console = console_for()
    kinds = [(printable(kind), str(number), f"{ms:.3f}", f"{ms / whole:.1%}") for kind, number, ms in made.by_type()]
    each = [
        (str(t.number), f"{t.ms:.3f}", f"{t.ms / whole:.1%}", t.where, printable(t.type), printable(t.name))
        for t in made.times
    ]
    console.print()
    in_all = ("in all", str(len(made.times)), f"{whole:.3f}", "")
    print_table(console, ("<type", "operators", "ms", "share"), [*kinds, in_all])
    console.print()
    print_table(console, ("op", "ms", "share", "<", "<type", "<operator"), each)
