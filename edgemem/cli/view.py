"""What `run`, `size`, `verify` and `record` print: the answer first, then tables."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from edgemem.cli.console import console_for, echo_folded, echo_labelled, print_table
from edgemem.cli.plan_view import answer
from edgemem.cli.printable_text import printable
from edgemem.report.document import document
from edgemem.report.recorded_memory import recorded_memory
from edgemem.report.sizes import size_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from edgemem.commands.executor_run import ExecutorRun
    from edgemem.commands.outcome import Outcome
    from edgemem.commands.shared_size import SharedSize
    from edgemem.commands.size import ModelSize
    from edgemem.commands.verify import Report
    from edgemem.model.graph import Graph
    from edgemem.plans import PlanSet
    from edgemem.shrinking.note import ShrinkNote

__all__ = [
    "print_json",
    "show_executor_runs",
    "show_outcome",
    "show_outputs",
    "show_recorded",
    "show_report",
    "show_shared_size",
    "show_size",
]


def print_json(
    planset: PlanSet,
    graph: Graph | None = None,
    notes: Sequence[ShrinkNote] = (),
) -> None:
    """The plans as JSON, and how `shrink` made the model that they are in."""
    shrunk = {"shrunk": [asdict(note) for note in notes]} if notes else {}
    click.echo(json.dumps({**document(planset, graph), **shrunk}))


def show_recorded(recordings: Sequence[PlanSet], graph: Graph | None, budget: int | None = None) -> None:
    """What the plan of each recording takes, with the results beside it, and whether it is more than the budget."""
    for recorded in recordings:
        best, memory = recorded.best_offsets, recorded_memory([recorded], graph)
        if best is None or memory is None:
            continue
        said = f"{answer(best, recorded.bounds.offsets, recorded.naive)}, {len(recorded.problem)} requests"
        echo_folded("; ".join(filter(None, (f"recorded arena {said}", memory.results_text))), indent=2)
        if budget is not None and best.size > budget:
            echo_folded(f"sessions exceed the budget by {size_text(best.size - budget)}; --record makes that an error")


def show_report(report: Report) -> None:
    """What was examined, a line each, and what was not."""
    lines = []
    for plan in report.plans:
        bound = "the lower bound" if plan["size"] == plan["lower_bound"] else f"lower bound {plan['lower_bound']:,}"
        if plan["claimed_bound"] is not None:
            bound += f", claimed (not proved here) {plan['claimed_bound']:,}"
        under = f" under {plan['target']}" if plan["target"] else ""
        what = "arena" if plan["family"] == "offsets" else "shared objects"
        size = f"{plan['size']:,}{' texels' * (plan['unit'] == 'texels')}"
        lines.append(("plan", f"of the {plan['of']}{under}: {what} {size} by {plan['strategy']}, {bound}"))
    lines += [("runs in", title) for title in report.runtimes]
    lines += [(leg.name, leg.checked) for leg in report.legs]
    lines += [("unchecked", text) for text in report.not_checked]
    echo_labelled(lines)


def show_executor_runs(runs: Sequence[ExecutorRun]) -> None:
    """A line an executor: the plan that it ran and what it took, or why it did not run it."""
    for run in runs:
        echo_folded(f"  {printable(str(run))}", indent=4)


def show_outcome(outcome: Outcome) -> None:
    """Memory and plan first, then what came out."""
    echo_folded(printable(str(outcome.report)))
    if outcome.identical is not None:
        found = "identical to" if outcome.identical else f"DIFFERENT: {', '.join(outcome.different)}: compared with"
        echo_folded(printable(f"outputs {found} a plain run of {outcome.compared}"))
    show_outputs(outcome)


def show_outputs(outcome: Outcome) -> None:
    """A line an output: its name, dtype and shape."""
    for name, value in outcome.outputs.items():
        shape = "x".join(map(str, getattr(value, "shape", ()))) or "scalar"
        click.echo(f"  {printable(name)}: {getattr(value, 'dtype', type(value).__name__)} {shape}")


def show_size(size: ModelSize) -> None:
    """The arena first, then all parts of RAM and flash."""
    shared = size.runtime == "litert"
    rows: list[tuple[str, int | None, str]] = [
        ("arena", size.arena, "RAM: what LiteRT reserves for tensors and workspace" if shared else "RAM: the smallest"),
        ("activations", size.activations, "sum of all tensors" if shared else "tensors in the arena"),
        ("workspace", size.workspace, "sum of what kernels ask for" if shared else "what kernels ask for besides"),
    ]
    if size.own_head is not None and size.planned is not None:
        rows.insert(1, ("own head", size.own_head, "activations and workspace without the plan in the file"))
    if shared:
        rows += [
            ("persistent", size.persistent, "kept between runs"),
            ("dynamic", size.dynamic, "allocated while it runs"),
        ]
    else:
        rows += [
            ("tail", size.tail, "structures and state of the interpreter, with 64-bit pointers"),
            ("device tail", size.device_tail, "the same with 32-bit pointers, predicted"),
            ("device", size.device_arena, "the arena there, predicted"),
        ]
    rows += [("file", size.file, "flash: the whole file"), ("weights", size.weights, "constants in it")]
    for name, value, about in rows:
        shown = f"{'not measured':>14}" if value is None else f"{value:>14,}  {size_text(value):>10}"
        click.echo(f"{name:11} {shown}  {about}" if value is not None else f"{name:11} {shown}")
    click.echo(f"plan        {printable(size.plan)}")
    if size.reason:
        click.echo(f"not measured: {printable(size.reason)}", err=True)


def show_shared_size(size: SharedSize) -> None:
    """The arena of all models, then each alone."""
    what = "one arena" if size.share == "sequential" else "arenas of all"
    where = "" if size.computer is None else f" with 32-bit pointers, {size.computer:,} with 64-bit ones, predicted"
    parts = "" if size.head is None else f": the largest head, {size.head:,}, and {size.tail:,} of tails"
    echo_folded(f"{what} {size.arena:,} bytes{where}{parts}")
    alone = sum(model.arena for model in size.models)
    rows = [(m.name, m.arena, m.head, m.tail) for m in size.models]
    rows.append(("all, alone", alone, None, None))
    cells = [(printable(name), *("" if n is None else f"{n:,}" for n in numbers)) for name, *numbers in rows]
    console = console_for()
    console.print()
    print_table(console, ("<model", "arena", "head", "tail"), cells)
