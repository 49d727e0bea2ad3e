"""`edgemem verify`: what is wrong with the plans in a file, by proof and by running them."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from edgemem.cli.exit_codes import EXIT_INVALID
from edgemem.cli.fleet import FleetCommand
from edgemem.cli.options import FILE, feeds, inputs_option, timeout_option
from edgemem.errors import UnsupportedError
from edgemem.model.profiles import PROFILES

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from numpy.typing import NDArray

    from edgemem.commands.executor_run import ExecutorRun
    from edgemem.commands.verify import Report
    from edgemem.proof import Violation

__all__ = ["verify"]


@click.command(
    cls=FleetCommand, doing="verifying", done="right", suffixes=(".onnx", ".tflite", ".edgemem"), alone=("model",)
)
@click.argument("planned", type=FILE, metavar="PLANNED...")
@click.option("--model", type=FILE, help="The model that a stand-alone .edgemem plan belongs to.")
@click.option(
    "--run",
    "run_too",
    is_flag=True,
    help="Run it in memory that is not clean, too, and compare with a run without sharing.",
)
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
    """Prove that a plan is right: exit code 0, or 4 with every violation.

    PLANNED is a file, a folder of planned models, or a glob in quotes. Of several, one that is wrong ends nothing.
    """
    from edgemem.cli import view
    from edgemem.cli.console import progress as progress_line

    if timeout is not None and not run_too:
        raise click.UsageError("--timeout ends a run: give --run, too")
    work = partial(
        _verified,
        model=model,
        run_too=run_too,
        kernels=kernels,
        values=feeds(inputs) if run_too else None,
        timeout=timeout,
    )
    with progress_line("verifying") as progress:
        done = work(planned, progress=progress)
    violations = done.violations
    if as_json:
        click.echo(json.dumps(done.data(), indent=1))
    elif violations:
        click.echo(f"{planned}: {len(violations)} violation{'s' if len(violations) > 1 else ''}")
        for violation in violations:
            click.echo(f"  {violation}")
    else:
        click.echo(f"{planned}: right")
        view.show_report(done.report)
    if not as_json:
        view.show_executor_runs(done.runs)
    sys.exit(EXIT_INVALID if violations else 0)


@dataclass(frozen=True, slots=True)
class _Verified:
    """What came of one file: what is wrong, what was examined, and what came of each executor."""

    violations: tuple[Violation, ...]
    report: Report
    runs: tuple[ExecutorRun, ...]

    def data(self) -> dict[str, Any]:
        """For JSON."""
        from edgemem.runtime.memory import as_data

        listed = [
            {
                "cause": v.cause.name.lower(),
                "strategy": v.strategy,
                "records": list(v.records),
                "op": v.op,
                "message": v.message,
            }
            for v in self.violations
        ]
        executors = [
            {
                "executor": run.executor,
                "report": as_data(run.report) if run.report else None,
                "refusal": run.refusal,
                "note": run.note,
                "compared": run.compared,
            }
            for run in self.runs
        ]
        return {"right": not self.violations, "violations": listed, **self.report.as_data(), "runs": executors}


def _verified(
    planned: Path,
    *,
    model: Path | None,
    run_too: bool,
    kernels: str | None,
    values: dict[str, NDArray[Any]] | None,
    timeout: float | None,
    progress: Callable[[str], None],
) -> _Verified:
    """Prove the plans in one file, and run them."""
    from edgemem.commands.verify import check_runs_here, report_of
    from edgemem.commands.verify_weights import ExaminedWeights, examine_weights
    from edgemem.planning.verification import verdict_of

    progress("the proof")
    verdict = verdict_of(planned, model, kernels)
    if run_too and verdict.vela is not None:
        raise UnsupportedError(f"{planned.name}: only an Arm Ethos-U runs its commands; verify it without --run")
    weights = examine_weights(planned) if planned.suffix.lower() == ".onnx" else ExaminedWeights()
    violations = (*verdict.violations, *weights.violations)
    runs: tuple[ExecutorRun, ...] = ()
    if not violations:
        check_runs_here(planned)
    if run_too and not violations:
        progress("running the plans, and without them")
        if planned.suffix.lower() == ".tflite":
            from edgemem.commands.verify_run_tflite import verify_run_tflite

            runs = verify_run_tflite(planned, values, timeout_s=timeout, progress=progress)
        elif timeout is not None:
            from edgemem.commands.verify_run_child import verify_run_apart

            runs = verify_run_apart(planned, values, timeout_s=timeout)
        else:
            from edgemem.commands.verify_run import verify_run

            runs = verify_run(planned, values, progress=progress)
        violations = tuple(v for run in runs for v in run.violations)
    report = report_of(planned, verdict, is_run=run_too)
    legs, not_checked = (*report.legs, *weights.legs), (*report.not_checked, *weights.not_checked)
    return _Verified(violations, replace(report, legs=legs, not_checked=not_checked), runs)
