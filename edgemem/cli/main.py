"""`edgemem`: plan, show, verify, strategies, export, run, size, measure, bench.

Exit codes: 0 ok, 1 a check failed or the model cannot be planned, 2 usage, 3 over budget, 4 invalid plan, 128 + n ended
by the signal n (130 for Ctrl-C).
Heavy imports stay inside the commands, so that `--help` is quick.
"""

from __future__ import annotations

import json
import sys
import time
from typing import TYPE_CHECKING, Any

import click

from edgemem.cli.bench import bench
from edgemem.cli.options import FILE, FileCommand, bindings, feeds, inputs_option, limits_options, parsed_size
from edgemem.cli.running import measure, run, size

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from edgemem.commands.verify import Report
    from edgemem.commands.verify_run import ExecutorRun
    from edgemem.plans import PlanSet
    from edgemem.proof import Violation

__all__ = ["main"]

EXIT_FAILED, EXIT_USAGE, EXIT_BUDGET, EXIT_INVALID = 1, 2, 3, 4
EXIT_INTERRUPTED = 130


class _Commands(click.Group):
    """Turns edgemem's errors, and signals that end a command, into one line on stderr and an exit code."""

    command_class = FileCommand

    def main(self, *args: Any, **extra: Any) -> Any:
        from edgemem.cli.printable import plain_warnings, printable_output
        from edgemem.cli.signals import ended_by_signals

        with ended_by_signals(), printable_output(), plain_warnings():
            return super().main(*args, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        from edgemem.cli.printable import printable
        from edgemem.cli.signals import received
        from edgemem.errors import (
            BudgetExceededError,
            EdgememError,
            InvalidPlanError,
            PlanFileError,
            UnknownStrategyError,
        )

        codes: dict[type[EdgememError], int] = {
            UnknownStrategyError: EXIT_USAGE,
            BudgetExceededError: EXIT_BUDGET,
            InvalidPlanError: EXIT_INVALID,
            PlanFileError: EXIT_INVALID,
        }
        try:
            return super().invoke(ctx)
        except EdgememError as e:
            message = str(e)
            code = next((code for kind, code in codes.items() if isinstance(e, kind)), EXIT_FAILED)
        except KeyboardInterrupt:
            message, code = "interrupted", EXIT_INTERRUPTED
        except BrokenPipeError:
            raise  # the reader has gone, and click ends quietly
        except OSError as e:
            message = f"{e.filename}: {e.strerror}" if e.filename else str(e)
            code = EXIT_FAILED
        if ended := received():  # the error may have come of it
            message, code = str(ended), ended.code
        click.echo(f"edgemem: {printable(message)}", err=True)
        return ctx.exit(code)


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="edgemem-planner")
def main() -> None:
    """Plan, prove and embed the memory of neural networks (ONNX, TFLite, or usage records as CSV)."""


@main.command("help")
@click.argument("command", required=False)
@click.pass_context
def help_(context: click.Context, command: str | None) -> None:
    """Show the help of edgemem, or of one COMMAND."""
    parent = context.parent
    assert parent is not None
    if command is None:
        click.echo(parent.get_help())
        return
    found = main.get_command(parent, command)
    if found is None:
        raise click.UsageError(f"no command {command!r}; there are {', '.join(main.list_commands(parent))}")
    click.echo(found.get_help(click.Context(found, info_name=command, parent=parent)))


main.add_command(run)
main.add_command(size)
main.add_command(measure)
main.add_command(bench)


@main.command()
@click.argument("source", type=FILE)
@click.option("-o", "--output", type=FILE, help="Write the planned model, or a plan alone as FILE.edgemem.")
@click.option(
    "-s",
    "--strategy",
    "strategy",
    multiple=True,
    metavar="NAME",
    help="auto (default), or [FAMILY/]NAME[:OPTION=VALUE,...]; repeatable. See `edgemem strategies`.",
)
@click.option("-t", "--target", metavar="NAME|FILE.toml", help="Rules of the memory planned for; see docs/targets.md.")
@click.option("--alignment", type=click.IntRange(min=1), help="Of every offset, in bytes; instead of the target's.")
@bindings
@click.option(
    "--budget",
    metavar="SIZE",
    callback=parsed_size,
    help="Fail with exit code 3 if the arena exceeds SIZE, such as 256KiB.",
)
@limits_options
@click.option("--fold", is_flag=True, help="Store float16 and sparse constants of a TFLite file plain.")
@click.option("--reorder", is_flag=True, help="Run operators in an order with a lower peak, where there is one.")
@click.option(
    "--optimize",
    type=click.Choice(["none", "basic", "extended", "all"]),
    help="Plan and write ONNX Runtime's optimised graph of this level; an order of ONNX holds only there.",
)
@click.option("--record", is_flag=True, help="Run the ONNX model and store a plan of what ONNX Runtime asks for.")
@inputs_option
@click.option(
    "--offsets-only",
    is_flag=True,
    help="Write into a TFLite file only the offsets that TFLite Micro reads, to save flash.",
)
@click.option("--all", "all_plans", is_flag=True, help="List all plans, not only the smallest ones.")
@click.option("--json", "as_json", is_flag=True, help="Print the plans as JSON (docs/json.md).")
def plan(
    *,
    source: Path,
    output: Path | None,
    strategy: tuple[str, ...],
    target: str | None,
    alignment: int | None,
    dims: dict[str, int],
    input_shapes: dict[str, tuple[int, ...]],
    budget: int | None,
    effort: str | None,
    time_limit: float | None,
    seed: int | None,
    threads: int | None,
    fold: bool,
    reorder: bool,
    optimize: str | None,
    record: bool,
    inputs: dict[str, Path],
    offsets_only: bool,
    all_plans: bool,
    as_json: bool,
) -> None:
    """Plan the memory of a model or of usage records, prove the plan, and write it into the model."""
    from edgemem import api
    from edgemem.cli import plan_view, view
    from edgemem.cli.console import progress as progress_line
    from edgemem.commands.executors import where_it_runs
    from edgemem.commands.prepare import prepare
    from edgemem.files import restored_on_failure, temporary_folder
    from edgemem.formats import Bindings, Model

    if record and (output is None or output.suffix.lower() != ".onnx"):
        raise click.UsageError("--record stores a plan in an ONNX model: give -o PLANNED.onnx")
    if offsets_only and (output is None or output.suffix.lower() != ".tflite"):
        raise click.UsageError("--offsets-only writes offsets into a TFLite model: give -o PLANNED.tflite")
    begin = time.perf_counter()
    values = feeds(inputs)
    with temporary_folder() as folder, progress_line() as progress:
        wanted: dict[str, dict[str, str]] = {name: {} for name, on in (("fold", fold), ("reorder", reorder)) if on}
        if optimize:
            wanted["optimize"] = {"level": optimize}
        model = prepare(source, folder, wanted, bindings=Bindings(dims, input_shapes), target=target, feeds=values)
        carrier = model if isinstance(model, Model) else None
        if output and carrier is None and output.suffix != ".edgemem":
            raise click.UsageError("usage records have no model to write the plan into; use -o FILE.edgemem")
        planset = api.plan(
            model,
            strategy=strategy or "auto",
            target=target,
            alignment=alignment,
            budget=budget,
            effort=effort,
            seed=seed,
            time_limit=time_limit,
            threads=threads,
            progress=progress,
        )
        elapsed = time.perf_counter() - begin
        recorded: PlanSet | None = None
        plansets: tuple[PlanSet, ...] = ()
        if record and output:
            from edgemem.commands.record import add_recording

            progress("recording")
            with restored_on_failure(output):
                plansets = api.save(carrier, planset, output)
                recorded = add_recording(output, values, bindings=Bindings(dims, input_shapes), threads=threads or 1)
        elif output:
            plansets = api.save(carrier, planset, output, offsets_only=offsets_only)
    if as_json:
        _print_json(planset)
    else:
        plan_view.show_plan(planset, elapsed_s=elapsed, rows=None if all_plans else 4)
        if recorded:
            view.show_recorded(recorded)
        if output:
            written = (*plansets, *([recorded] if recorded else ()))
            click.echo(f"wrote {output}: {where_it_runs(written, output.suffix)}")


@main.command()
@click.argument("planned", type=FILE)
@click.option("--top", default=10, show_default=True, type=click.IntRange(min=0), help="Live tensors to list.")
@click.option("--all", "all_plans", is_flag=True, help="List all plans, not only the smallest ones.")
@click.option("--tensors", is_flag=True, help="List every tensor with its offset, size and operators.")
@click.option("--profile", is_flag=True, help="List what is alive at every operator.")
@click.option("--json", "as_json", is_flag=True, help="Print the plans as JSON (docs/json.md).")
def show(planned: Path, top: int, *, all_plans: bool, tensors: bool, profile: bool, as_json: bool) -> None:
    """Show the plan in a planned model or .edgemem file; a wrong plan is refused."""
    from edgemem.cli import plan_view
    from edgemem.verification import right_plan

    planset = right_plan(planned)[0].planset
    if as_json:
        _print_json(planset)
    else:
        plan_view.show_plan(planset, top=top, rows=None if all_plans else 4)
        if tensors:
            plan_view.show_tensors(planset)
        if profile:
            plan_view.show_profile(planset)


@main.command()
@click.argument("planned", type=FILE)
@click.option("--model", type=FILE, help="The model that a stand-alone .edgemem plan belongs to.")
@click.option("--run", "run_too", is_flag=True, help="Run it in poisoned memory, too, and compare with a plain run.")
@inputs_option
@click.option("--json", "as_json", is_flag=True, help="Print the violations as JSON.")
def verify(planned: Path, model: Path | None, *, run_too: bool, inputs: dict[str, Path], as_json: bool) -> None:
    """Prove that a plan is right: exit code 0, or 4 with every violation."""
    from edgemem.cli import view
    from edgemem.cli.console import progress as progress_line
    from edgemem.commands.verify import report_of
    from edgemem.verification import verdict_of

    verdict = verdict_of(planned, model)
    violations = verdict.violations
    runs: tuple[ExecutorRun, ...] = ()
    if run_too and not violations:
        with progress_line("running the plans in poisoned memory, and without them"):
            if planned.suffix.lower() == ".tflite":
                from edgemem.commands.verify_run_tflite import verify_run_tflite

                runs = verify_run_tflite(planned, feeds(inputs))
            else:
                from edgemem.commands.verify_run import verify_run

                runs = verify_run(planned, feeds(inputs))
        violations = tuple(v for run in runs for v in run.violations)
    report = report_of(planned, verdict, is_run=run_too)
    if as_json:
        _print_verified_json(violations, report, runs)
    elif violations:
        click.echo(f"{planned}: {len(violations)} violation{'s' if len(violations) > 1 else ''}")
        for violation in violations:
            click.echo(f"  {violation}")
    else:
        click.echo(f"{planned}: right")
        view.show_report(report)
    if not as_json:
        view.show_executor_runs(runs)
    sys.exit(EXIT_INVALID if violations else 0)


def _print_verified_json(violations: Sequence[Violation], report: Report, runs: Sequence[ExecutorRun]) -> None:
    """The violations, what was examined, and what came of each executor."""
    from edgemem.runtime.memory import as_data

    listed = [
        {
            "cause": v.cause.name.lower(),
            "strategy": v.strategy,
            "records": list(v.records),
            "op": v.op,
            "message": v.message,
        }
        for v in violations
    ]
    executors = [
        {
            "executor": run.executor,
            "report": as_data(run.report) if run.report else None,
            "refusal": run.refusal,
            "note": run.note,
        }
        for run in runs
    ]
    data = {"right": not violations, "violations": listed, **report.as_data(), "runs": executors}
    click.echo(json.dumps(data, indent=1))


@main.command()
@click.option("--json", "as_json", is_flag=True, help="Print them as JSON.")
def strategies(*, as_json: bool) -> None:
    """List the strategies, with their options, paper and complexity."""
    from edgemem.cli import plan_view
    from edgemem.strategy.catalogue import registered
    from edgemem.strategy.options import as_data

    if as_json:
        keys = ("name", "family", "paper", "complexity", "extra", "limit")
        entries = [
            {
                **{k: getattr(s, k) for k in keys},
                "options": {k: as_data(v) for k, v in s.options.items()},
                "honours": sorted(s.honours),
            }
            for s in registered()
        ]
        click.echo(json.dumps(entries, indent=1))
    else:
        plan_view.show_strategies(registered())


@main.command()
@click.argument("planned", type=FILE)
@click.option(
    "-f",
    "--format",
    "form",
    required=True,
    type=click.Choice(["json", "csv", "c-array", "c-header", "svg", "tflm-bufferplan", "tflm-metadata"]),
    help="What to write.",
)
@click.option("-o", "--output", type=FILE, help="Write to a file instead of the terminal.")
def export(planned: Path, form: str, output: Path | None) -> None:
    """Write the plan in a planned model or .edgemem file in a form other tools read; a wrong plan is refused."""
    from edgemem import api
    from edgemem.files import atomic_write
    from edgemem.formats import MicroPlanned
    from edgemem.report.export import export as export_text
    from edgemem.verification import right_plan

    proved, model = right_plan(planned)
    name = planned.name.split(".")[0]
    if form == "c-array":
        from edgemem.commands.c_array import c_array_of

        data = c_array_of(planned, name).encode()
    elif form == "tflm-metadata":
        data = api.offline_metadata(model)
    else:
        graph = model.graph() if isinstance(model, MicroPlanned) else None
        data = export_text(proved, form, name=name, graph=graph).encode()
    if output is None:
        click.echo(data, nl=False)
        return
    with atomic_write(output) as file:
        file.write(data)
    click.echo(f"wrote {output}", err=not output.is_file())  # what is no file may be stdout


def _print_json(planset: PlanSet) -> None:
    from edgemem.report.document import document

    click.echo(json.dumps(document(planset)))
