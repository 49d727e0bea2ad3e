"""`edgemem plan`: plan a model, change it first where that is asked for, and write the plan into it."""

from __future__ import annotations

import shlex
import time
from typing import TYPE_CHECKING, Any

import click

from edgemem.cli.options import (
    FILE,
    TYPED,
    FileCommand,
    feeds,
    inputs_option,
    limits_options,
    parsed_size,
    range_bindings,
    strategy_option,
)
from edgemem.cli.passes import passes_options, shrinking_options, wanted_passes

if TYPE_CHECKING:
    from pathlib import Path

    from edgemem.model.ranges import Dimension
    from edgemem.plans import PlanSet

__all__ = ["plan"]


@click.command(cls=FileCommand)
@click.argument("source", type=FILE)
@click.option("-o", "--output", type=FILE, help="Write the planned model, or a plan alone as FILE.edgemem.")
@strategy_option
@click.option("-t", "--target", metavar="NAME|FILE.toml", help="Rules of the memory planned for; see docs/targets.md.")
@click.option("--alignment", type=click.IntRange(min=1), help="Of every offset, in bytes; instead of the target's.")
@range_bindings
@click.option(
    "--budget",
    metavar="SIZE",
    callback=parsed_size,
    help="Fail with exit code 3 if the arena exceeds SIZE, such as 256KiB: in TFLite Micro its head, with --record the "
    "session's, too.",
)
@limits_options
@passes_options
@shrinking_options
@click.option(
    "--record/--no-record",
    default=None,
    help="Run the ONNX model and store a plan of what ONNX Runtime asks for, which its sessions run.  [default: where "
    "-o is an ONNX model and ONNX Runtime can run it]",
)
@click.option("--android", "for_android", is_flag=True, help="Record as an Android app runs it (docs/mobile.md).")
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
    dims: dict[str, int | Dimension],
    input_shapes: dict[str, tuple[int, ...]],
    budget: int | None,
    effort: str | None,
    time_limit: float | None,
    seed: int | None,
    threads: int | None,
    record: bool | None,
    for_android: bool,
    inputs: dict[str, Path],
    offsets_only: bool,
    all_plans: bool,
    as_json: bool,
    **changes: Any,
) -> None:
    """Plan the memory of a model or of usage records, prove the plan, and write it into the model."""
    from edgemem import api
    from edgemem.cli import mixture_view, plan_view, view
    from edgemem.cli.console import echo_folded
    from edgemem.cli.console import progress as progress_line
    from edgemem.cli.level_view import level_text
    from edgemem.commands.changed_model import PRICED, change_model, kept_states
    from edgemem.commands.changed_plan import limits_of_plans, plan_changed_model
    from edgemem.commands.cost import price_of
    from edgemem.commands.remedies import Attempt, explain_budget
    from edgemem.errors import BudgetExceededError
    from edgemem.formats import Bindings, Model
    from edgemem.planning.verification import graph_for
    from edgemem.runtime.executors import where_it_runs
    from edgemem.system.files import restored_on_failure, temporary_folder

    if for_android and record is False:
        raise click.UsageError("--android says how to record: leave --no-record out")
    if for_android:
        record = True
    if record and (output is None or output.suffix.lower() != ".onnx"):
        raise click.UsageError("--record stores a plan in an ONNX model: give -o PLANNED.onnx")
    if offsets_only and (output is None or output.suffix.lower() != ".tflite"):
        raise click.UsageError("--offsets-only writes offsets into a TFLite model: give -o PLANNED.tflite")
    limits: dict[str, Any] = {"effort": effort, "seed": seed, "time_limit": time_limit}
    halved = None if time_limit is None else time_limit / 2
    wanted = wanted_passes(changes, budget, threads, {**limits, "time_limit": halved})
    if output and PRICED & wanted.keys() and output.resolve() == source.resolve():
        raise click.UsageError("the changed model would replace the model itself; write it into another file with -o")
    begin = time.perf_counter()
    values = feeds(inputs)
    with temporary_folder() as folder, progress_line() as progress:
        bindings = Bindings.of(dims, input_shapes)
        try:
            prepared = change_model(
                source,
                folder,
                wanted,
                bindings=bindings,
                target=target,
                alignment=alignment,
                kernels=changes["overlap"],
                feeds=values,
                progress=progress,
            )
            if output and not isinstance(prepared.model, Model) and output.suffix != ".edgemem":
                raise click.UsageError("usage records have no model to write the plan into; use -o FILE.edgemem")
            if "order" in wanted or "recompute" in wanted:
                limits = limits_of_plans(strategy, limits, prepared.order_s)
            prepared, planset = plan_changed_model(
                prepared,
                lambda model, rules: api.plan(
                    model,
                    strategy=strategy or "auto",
                    target=rules,
                    alignment=alignment,
                    budget=budget,
                    **limits,
                    threads=threads,
                    states=kept_states(model) if "state" in wanted else None,
                    progress=progress,
                ),
            )
        except BudgetExceededError as e:
            progress("changes that may fit")
            given = {"strategy": strategy or "auto", "effort": effort, "seed": seed, "threads": threads}
            failed = Attempt(source, e.available, wanted, changes["overlap"], target, alignment, bindings, given)
            typed = click.get_current_context().meta[TYPED]
            raise explain_budget(e, failed, f"edgemem plan {shlex.join(typed)}") from None
        carrier = prepared.model if isinstance(prepared.model, Model) else None
        elapsed = time.perf_counter() - begin
        price = None
        if prepared.original is not None and prepared.given and carrier is not None and prepared.target is not None:
            progress("price")
            price = price_of(prepared.given, carrier, prepared.target, source, values)
        recorded: tuple[PlanSet, ...] = ()
        plansets: tuple[PlanSet, ...] = ()
        unrecorded = ""
        if output and carrier is not None and output.suffix.lower() == ".onnx" and record is not False:
            from edgemem.runtime.onnxruntime.file_recording import add_recording, add_recording_if_possible

            progress("recording")
            with restored_on_failure(output):
                plansets = api.save(carrier, planset, output)
                to_run: dict[str, Any] = {"bindings": carrier.bindings, "threads": threads or 0}
                if record:
                    recorded = add_recording(output, values, for_android=for_android, **to_run)
                    for made in recorded:
                        api.check_budget(made, budget)
                else:
                    recorded, unrecorded = add_recording_if_possible(output, values or {}, planset, **to_run)
        elif output:
            plansets = api.save(carrier, planset, output, offsets_only=offsets_only)
    if as_json:
        graph = graph_for(planset, carrier) if carrier is not None else None
        mixture = prepared.mixture, prepared.mixtures
        view.print_json(planset, graph, price, prepared.ordering, mixture, prepared.levels)
        return
    if prepared.mixture is not None and prepared.mixtures is not None:
        mixture_view.show_mixture(prepared.mixture, prepared.mixtures, budget)
    elif prepared.ordering is not None:
        before = "without --order" if PRICED & wanted.keys() else "file's order"
        plan_view.show_order(prepared.ordering, before, texels=planset.problem.extents is not None)
    plan_view.show_plan(planset, elapsed_s=elapsed, rows=None if all_plans else 4, note=level_text(prepared.levels))
    if price is not None:
        plan_view.show_price(price)
    is_told = prepared.original is not None or prepared.mixture is not None
    for name in () if is_told else sorted(PRICED & wanted.keys()):
        click.echo()
        echo_folded(f"--{name} {wanted[name]['stages']} changed nothing: {_why_unchanged(budget)}")
    for planned in recorded:
        view.show_recorded(planned, budget)
    if unrecorded:
        echo_folded(f"\nno recording was added: {unrecorded}")
    if output:
        echo_folded(f"wrote {output}: {where_it_runs((*plansets, *recorded), output.suffix, carrier, output)}")


def _why_unchanged(budget: int | None) -> str:
    """Why a pass left the model as it is; planning raises an error where a budget cannot be met."""
    return "no stages take less memory" if budget is None else "the plan fits the budget as it is"
