"""`edgemem plan`: plan models, and write the plans into them."""

from __future__ import annotations

import json
import shlex
import time
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import click

from edgemem.cli.fleet import FleetCommand
from edgemem.cli.options import (
    FILE,
    feeds,
    inputs_option,
    limits_options,
    parsed_size,
    range_bindings,
    strategy_option,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from numpy.typing import NDArray

    from edgemem.errors import BudgetExceededError
    from edgemem.formats import Bindings, Model
    from edgemem.model.graph import Graph
    from edgemem.model.ranges import Dimension
    from edgemem.plans import PlanSet
    from edgemem.runtime.onnxruntime.weights.packed_files import PackedSize

__all__ = ["plan"]

_SEARCH_S: Final = 5.0  # for changes of a model whose plan does not fit


def _states(_ctx: click.Context, _param: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    pairs = {}
    for value in values:
        past, _, present = value.partition("=")
        if value != "auto" and (not past or not present):
            raise click.BadParameter(f"{value!r} is not PAST=PRESENT, nor `auto`")
        pairs[past] = present
    return pairs


@click.command(cls=FleetCommand, doing="planning", done="planned")
@click.argument("source", type=FILE, metavar="SOURCE...")
@click.option(
    "-o",
    "--output",
    type=FILE,
    metavar="FILE|FOLDER",
    help="Write the planned model, or a plan alone as FILE.edgemem; of several sources, each into FOLDER, or a row "
    "each into FILE.parquet, .csv or .json.",
)
@strategy_option
@click.option("-t", "--target", metavar="NAME|FILE.toml", help="Rules of the memory planned for; see docs/targets.md.")
@click.option("--alignment", type=click.IntRange(min=1), help="Of every offset, in bytes; instead of the target's.")
@range_bindings
@click.option(
    "--budget",
    metavar="SIZE",
    callback=parsed_size,
    help="Fail with exit code 3 if the arena exceeds SIZE, such as 256KiB: in TFLite Micro head and tail, with "
    "--record the session's, too. `edgemem shrink` then shows what would fit.",
)
@limits_options
@click.option(
    "--state",
    "states",
    multiple=True,
    metavar="PAST=PRESENT",
    callback=_states,
    help="Keep a decoder's cache in one buffer: past_key_values.*=present.*; `auto` finds all. Repeatable.",
)
@click.option(
    "--record/--no-record",
    default=None,
    help="Run the ONNX model and store a plan of what ONNX Runtime asks for, which its sessions run.  [default: where "
    "-o is an ONNX model and ONNX Runtime can run it]",
)
@click.option("--android", "for_android", is_flag=True, help="Record as an Android app runs it (docs/mobile.md).")
@inputs_option
@click.option(
    "--weights",
    type=click.Choice(("plain", "mapped")),
    default="plain",
    show_default=True,
    help="mapped: write the weights packed for this processor and ONNX Runtime beside the planned ONNX model, in files "
    "that sessions map and share.",
)
@click.option(
    "--offsets-only",
    is_flag=True,
    help="Write into a TFLite file only the offsets that TFLite Micro reads, to save flash.",
)
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
    threads: int | None,
    states: dict[str, str],
    record: bool | None,
    for_android: bool,
    inputs: dict[str, Path],
    weights: str,
    offsets_only: bool,
    as_json: bool,
) -> None:
    """Plan the memory of a model or of usage records, prove the plan, and write it into the model.

    SOURCE is a file, a folder of models, a glob in quotes, or a URL such as s3://bucket/models (docs/fleet.md). Of
    several, one that cannot be planned ends nothing. --dim, --target and --budget take several values, such as
    batch=1,8,32: a row for each of all combinations.
    """
    from edgemem.formats import Bindings

    if for_android and record is False:
        raise click.UsageError("--android says how to record: leave --no-record out")
    values = feeds(inputs)
    options: dict[str, Any] = {
        "strategy": strategy or "auto",
        "target": target,
        "alignment": alignment,
        "budget": budget,
        "effort": effort,
        "time_limit": time_limit,
        "threads": threads,
    }
    work = partial(
        _planned,
        options=options,
        bindings=Bindings.of(dims, input_shapes),
        states=states,
        record=True if for_android else record,
        for_android=for_android,
        values=values,
        weights=weights,
        offsets_only=offsets_only,
    )
    _plan_one(source, output, work, budget, as_json=as_json)


@dataclass(frozen=True, slots=True)
class _Planned:
    """What planning one file gave: its plans, those of recordings, why there is no recording, and packed weights."""

    planset: PlanSet
    carrier: Model | None
    elapsed_s: float
    plansets: tuple[PlanSet, ...] = ()
    recorded: tuple[PlanSet, ...] = ()
    unrecorded: str = ""
    packed: PackedSize | None = None

    @property
    def graph(self) -> Graph | None:
        """What the plan was proved against; None for usage records."""
        from edgemem.planning.verification import graph_for

        return graph_for(self.planset, self.carrier) if self.carrier is not None else None

    def data(self) -> dict[str, Any]:
        """The plans for JSON."""
        from edgemem.report.document import document

        return document(self.planset, self.graph)


def _plan_one(
    source: Path, output: Path | None, work: Callable[..., _Planned], budget: int | None, *, as_json: bool
) -> None:
    from edgemem.cli import plan_view, view
    from edgemem.cli.console import echo_folded, progress
    from edgemem.planning.micro_arenas import micro_arenas
    from edgemem.runtime.executors import where_it_runs

    with progress() as say:
        made = work(source, output, progress=say, with_remedies=not as_json)
    if as_json:
        click.echo(json.dumps(made.data()))
        return
    arenas = micro_arenas(made.carrier, made.planset)
    view.show_recorded(made.recorded, made.graph, budget)
    of = "graph's " if made.recorded else ""
    plan_view.show_plan(made.planset, elapsed_s=made.elapsed_s, rows=4, note=str(arenas or ""), of=of)
    if made.unrecorded:
        echo_folded(f"\nno recording was added: {made.unrecorded}")
    if made.packed is not None:
        echo_folded(f"\n{made.packed}")
    if output and arenas is not None and arenas.is_larger:
        echo_folded(
            f"wrote {output} without a plan: its head of {arenas.planned.head.total:,} bytes would be larger than the "
            f"{arenas.own.head.total:,} of TensorFlow Lite Micro's own planner"
        )
    elif output:
        runs = where_it_runs((*made.plansets, *made.recorded), output.suffix, made.carrier, output)
        echo_folded(f"wrote {output}: {runs}")


def _planned(
    source: Path,
    output: Path | None,
    *,
    options: dict[str, Any],
    bindings: Bindings,
    states: dict[str, str],
    record: bool | None,
    for_android: bool,
    values: dict[str, NDArray[Any]] | None,
    weights: str,
    offsets_only: bool,
    with_remedies: bool,
    progress: Callable[[str], None],
) -> _Planned:
    """Plan one file, and write it."""
    from edgemem import api
    from edgemem.commands.stateful_model import open_with_states
    from edgemem.errors import BudgetExceededError
    from edgemem.formats import Model
    from edgemem.runtime.onnxruntime.file_recording import add_recording, add_recording_if_possible
    from edgemem.runtime.onnxruntime.weights.packed_files import settle_packed, write_packed, writing_into
    from edgemem.system.files import finished_last, known_names, temporary_folder
    from edgemem.targets import find_target

    if record and (output is None or output.suffix.lower() != ".onnx"):
        raise click.UsageError("--record stores a plan in an ONNX model: give -o PLANNED.onnx")
    if offsets_only and (output is None or output.suffix.lower() != ".tflite"):
        raise click.UsageError("--offsets-only writes offsets into a TFLite model: give -o PLANNED.tflite")
    if weights == "mapped" and for_android:
        raise click.UsageError("--weights mapped is for this processor, and --android for another: leave one out")
    if weights == "mapped" and (output is None or output.suffix.lower() != ".onnx"):
        raise click.UsageError("--weights mapped writes beside an ONNX model: give -o PLANNED.onnx")
    begin = time.perf_counter()
    if values is not None and source.suffix.lower() == ".onnx":
        from edgemem.commands.onnx_file import sized_by_values

        bindings = sized_by_values(source, values, bindings)
    with temporary_folder() as folder:
        model, kept = open_with_states(source, folder, bindings, states, values)
        carrier = model if isinstance(model, Model) else None
        if output and carrier is None and output.suffix != ".edgemem":
            raise click.UsageError("usage records have no model to write the plan into; use -o FILE.edgemem")
        try:
            planset = api.plan(model, states=kept, progress=progress, **options)
        except BudgetExceededError as e:
            has_regions = options["target"] is not None and len(find_target(options["target"]).regions) > 1
            if carrier is None or states or has_regions or not with_remedies:
                raise
            progress("changes that may fit")
            raise _with_remedies(e, source, options["target"], bindings) from None
        elapsed = time.perf_counter() - begin
        recorded: tuple[PlanSet, ...] = ()
        plansets: tuple[PlanSet, ...] = ()
        unrecorded = ""
        packed: PackedSize | None = None
        if output and carrier is not None and output.suffix.lower() == ".onnx":
            if record is not False:
                progress("recording")
            with writing_into(output.parent) if weights == "mapped" else nullcontext():
                with finished_last(output) as file:
                    plansets = api.save(carrier, planset, file)
                    to_run: dict[str, Any] = {"bindings": carrier.bindings, "threads": options["threads"] or 0}
                    if record:
                        recorded = add_recording(file, values, for_android=for_android, **to_run)
                        for made in recorded:
                            api.check_budget(made, options["budget"])
                    elif record is None:
                        recorded, why = add_recording_if_possible(file, values or {}, planset, **to_run)
                        unrecorded = known_names(why)
                    note = write_packed(file) if weights == "mapped" else None
                packed = settle_packed(output, note) if note is not None else None
        elif output:
            plansets = api.save(carrier, planset, output, offsets_only=offsets_only)
    return _Planned(planset, carrier, elapsed, plansets, recorded, unrecorded, packed)


def _with_remedies(
    error: BudgetExceededError, source: Path, target: str | None, bindings: Bindings
) -> BudgetExceededError:
    """The error with what `edgemem shrink` finds in a few seconds."""
    from edgemem.cli.shrink_view import answer_lines, rows_of, table_lines
    from edgemem.errors import BudgetExceededError, EdgememError
    from edgemem.shrinking.candidate import CandidateLimits
    from edgemem.shrinking.search import Search

    limits = CandidateLimits(error.available)
    command = shlex.join(["edgemem", "shrink", str(source), *(["-t", target] if target else []), *bindings.options])
    lines = [f"changes of the model that keep its outputs: {command} --budget {error.available}"]
    try:
        search = Search(source, limits, bindings=bindings, target=target, time_limit=_SEARCH_S)
        found = search.found(runs=False)
    except EdgememError as e:
        lines.append(f"they were not tried: {e}")
    else:
        lines += [*answer_lines(found, limits), *table_lines(rows_of(found, limits))]
    return BudgetExceededError(
        str(error),
        required=error.required,
        available=error.available,
        op=error.op,
        tensors=error.tensors,
        impossible=error.impossible,
        remedies=lines,
    )
