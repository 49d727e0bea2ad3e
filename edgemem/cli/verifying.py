"""`edgemem verify`: what is wrong with the plans in a file, by proof and by running them."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from edgemem.cli.options import FILE, FileCommand, feeds, inputs_option, timeout_option
from edgemem.model.profiles import PROFILES

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from edgemem.commands.executor_run import ExecutorRun
    from edgemem.commands.verify import Report
    from edgemem.proof import Violation

__all__ = ["verify"]

EXIT_INVALID = 4


@click.command(cls=FileCommand)
@click.argument("planned", type=FILE)
@click.option("--model", type=FILE, help="The model that a stand-alone .edgemem plan belongs to.")
@click.option("--run", "run_too", is_flag=True, help="Run it in poisoned memory, too, and compare with a plain run.")
@click.option(
    "--overlap",
    "kernels",
    type=click.Choice(PROFILES),
    help="The kernel library of the firmware: prove the plan for it, too. Offsets without a plan name none.",
)
@inputs_option
@timeout_option("End a run (--run) that takes longer, in a process of its own.", "600 for .tflite, none for .onnx")
@click.option("--json", "as_json", is_flag=True, help="Print the violations as JSON.")
def verify(
    planned: Path,
    model: Path | None,
    *,
    run_too: bool,
    kernels: str | None,
    inputs: dict[str, Path],
    timeout: float | None,
    as_json: bool,
) -> None:
    """Prove that a plan is right: exit code 0, or 4 with every violation."""
    from edgemem.cli import view
    from edgemem.cli.console import progress as progress_line
    from edgemem.commands.verify import report_of
    from edgemem.commands.verify_weights import ExaminedWeights, examine_weights
    from edgemem.planning.verification import verdict_of

    if timeout is not None and not run_too:
        raise click.UsageError("--timeout ends a run: give --run, too")
    verdict = verdict_of(planned, model, kernels)
    weights = examine_weights(planned) if planned.suffix.lower() == ".onnx" else ExaminedWeights()
    violations = (*verdict.violations, *weights.violations)
    runs: tuple[ExecutorRun, ...] = ()
    if run_too and not violations:
        with progress_line("running the plans in poisoned memory, and without them"):
            if planned.suffix.lower() == ".tflite":
                from edgemem.commands.verify_run_tflite import verify_run_tflite

                runs = verify_run_tflite(planned, feeds(inputs), timeout_s=timeout)
            elif timeout is not None:
                from edgemem.commands.verify_run_child import verify_run_apart

                runs = verify_run_apart(planned, feeds(inputs), timeout_s=timeout)
            else:
                from edgemem.commands.verify_run import verify_run

                runs = verify_run(planned, feeds(inputs))
        violations = tuple(v for run in runs for v in run.violations)
    report = report_of(planned, verdict, is_run=run_too)
    legs, not_checked = (*report.legs, *weights.legs), (*report.not_checked, *weights.not_checked)
    report = replace(report, legs=legs, not_checked=not_checked)
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
