"""What the command line prints: the answer first, then tables."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.table import Table

from edgemem.report.peak import find_peak
from edgemem.strategy.options import summary

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from edgemem.commands.measure import MeasureRow
    from edgemem.commands.trial import Trial
    from edgemem.plans import Plan, PlanSet
    from edgemem.replay.recording import RecordedPlan
    from edgemem.strategy.registry import Strategy

__all__ = [
    "progress",
    "show_measured",
    "show_plan",
    "show_recorded",
    "show_size",
    "show_strategies",
    "show_trial",
    "size_text",
]

_UNITS = ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"))


def size_text(size: int, *, texels: bool = False) -> str:
    """1572864 -> "1.50 MiB"; below 1 KiB in bytes; texels as they are."""
    if texels:
        return f"{size:,} texels"
    for unit, name in _UNITS:
        if size >= unit:
            return f"{size / unit:.2f} {name}"
    return f"{size} B"


@contextmanager
def progress() -> Iterator[Callable[[str], None]]:
    """A line on stderr that names what runs now; nothing unless stderr is a terminal."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda _: None
        return
    with console.status("planning") as status:
        yield lambda name: status.update(f"planning: {name}")


def show_plan(planset: PlanSet, *, elapsed_s: float | None = None, top: int = 5) -> None:
    """The answer, the table of strategies, and what is alive at the peak."""
    console = Console(width=None if sys.stdout.isatty() else 120, highlight=False)
    texels = planset.problem.extents is not None
    for label, best, bound, proved in (
        ("arena", planset.best_offsets, planset.bounds.offsets, planset.proved.offsets),
        ("shared objects", planset.best_shared_objects, planset.bounds.shared_objects, planset.proved.shared_objects),
    ):
        if best:
            took = f", {elapsed_s * 1e3:.0f} ms in all" if elapsed_s is not None and label == "arena" else ""
            console.print(f"{label} {_answer(best, bound, planset.naive, proved=proved, texels=texels)}{took}")
    table = Table(box=None, pad_edge=False)
    for column in ("family", "strategy", "options"):
        table.add_column(column)
    for column in ("bytes" if not texels else "texels", "size", "of bound", "of naive"):
        table.add_column(column, justify="right")
    table.add_column()
    for family, plans, bound, proved in (
        ("offsets", planset.offsets, planset.bounds.offsets, planset.proved.offsets),
        ("shared objects", planset.shared_objects, planset.bounds.shared_objects, planset.proved.shared_objects),
    ):
        table.add_row(family, "[dim]lower bound", "", f"{bound:,}", size_text(bound, texels=texels), "", "", "")
        if proved > bound:
            by = f"[dim]bound proved by {_prover(plans, proved)}"
            table.add_row("", by, "", f"{proved:,}", size_text(proved, texels=texels), _ratio(proved, bound), "", "")
        for plan in plans:
            options = " ".join(f"{k}={v}" for k, v in plan.options.items())
            table.add_row(
                "",
                plan.strategy,
                options,
                f"{plan.size:,}",
                size_text(plan.size, texels=texels),
                _ratio(plan.size, bound),
                _ratio(plan.size, planset.naive),
                "optimal" if plan.optimal else "",
            )
    console.print()
    console.print(table)
    _show_searches(console, planset, texels=texels)
    _show_peak(console, planset, top, texels=texels)
    _show_unplanned(console, planset, top)


def _prover(plans: Sequence[Plan], bound: int) -> str:
    return next(p.strategy for p in plans if p.search and p.search.bound == bound)


def _show_searches(console: Console, planset: PlanSet, *, texels: bool) -> None:
    """Why each search ended; nothing where all met the lower bound."""
    ended = {
        "bound": "met the lower bound",
        "proof": "proved that nothing is smaller",
        "work": "ended by its work",
        "time": "ended by the time limit",
    }
    lines = []
    for plan in planset.plans:
        report = plan.search
        if report is None or report.stopped == "bound":
            continue
        options = "".join(f" {k}={v}" for k, v in plan.options.items())
        seed = "" if report.seed is None else f", seed {report.seed}"
        unit = "texels" if texels else "bytes"
        why = ended.get(report.stopped, report.stopped)
        lines.append(
            f"{plan.strategy}{options}: {why} after {report.work:,} steps{seed}; no less than {report.bound:,} {unit}"
        )
    if lines:
        console.print()
    for line in lines:
        console.print(line, soft_wrap=True, markup=False)


def _answer(best: Plan, bound: int, naive: int, *, texels: bool, proved: int = 0) -> str:
    over = best.size - bound
    gap = f"({_ratio(best.size, bound)} of the lower bound)" if over > bound * 0.0005 else f"(lower bound + {over:,})"
    gap = gap if over else "= lower bound (optimal)"
    if best.optimal and best.size > bound:
        gap = "(proved optimal)"
    elif proved > bound:
        gap = f"({_ratio(best.size, proved)} of the bound proved)"
    options = "".join(f" {k}={v}" for k, v in best.options.items())
    saved = f", {naive / best.size:.1f}x less than naive" if best.size else ""
    return f"{size_text(best.size, texels=texels)} {gap}, {best.strategy}{options}{saved}"


def _ratio(size: int, of: int) -> str:
    """1.234x; a difference too small for three digits is shown in bytes."""
    if not of:
        return "-"
    near = size != of and abs(size / of - 1) < 0.0005
    return f"{size - of:+,}" if near else f"{size / of:.3f}x"


def _show_peak(console: Console, planset: PlanSet, top: int, *, texels: bool) -> None:
    peak = find_peak(planset)
    if not peak.alive or not top:
        return
    count = len(peak.alive)
    console.print(f"\npeak at {peak.label} (op {peak.op}): {size_text(peak.size, texels=texels)} in {count} tensors")
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(justify="right")
    table.add_column(overflow="fold")
    for name, size in peak.alive[:top]:
        table.add_row(f"{size:,}", name)
    console.print(table)


def _show_unplanned(console: Console, planset: PlanSet, top: int) -> None:
    if not planset.unplanned:
        return
    reasons: dict[str, list[str]] = {}
    for name, reason in planset.unplanned:
        reasons.setdefault(reason, []).append(name)
    console.print("\nnot in the plan:")
    for reason, names in reasons.items():
        shown = ", ".join(names[: max(top, 1)])
        more = f" and {len(names) - max(top, 1)} more" if len(names) > max(top, 1) else ""
        console.print(f"  {reason}: {shown}{more}", soft_wrap=True, markup=False)


def show_strategies(strategies: Sequence[Strategy]) -> None:
    """A table of what is registered."""
    table = Table(box=None, pad_edge=False)
    for column in ("family", "strategy", "options (default first)", "complexity", "from"):
        table.add_column(column, overflow="fold")
    for s in strategies:
        options = "; ".join(f"{k}={summary(option)}" for k, option in s.options.items())
        extra = f" [dim](edgemem-planner\\[{s.extra}])" if s.extra else ""
        table.add_row(s.family, s.name, options, s.complexity, f"{s.paper}{extra}")
    Console(width=None if sys.stdout.isatty() else 140, highlight=False).print(table)


def show_recorded(recorded: RecordedPlan) -> None:
    """What a recorded plan takes."""
    bound = recorded.planset.bounds.offsets
    requests = len(recorded.planset.problem)
    plan = recorded.plan
    click.echo(f"\nrecorded arena {_answer(plan, bound, recorded.planset.naive, texels=False)}, {requests} requests")


def show_trial(trial: Trial) -> None:
    """Memory first, then what came out."""
    from edgemem.runtime.tflm.size import TflmSize

    memory = trial.memory
    planned = memory.head if isinstance(memory, TflmSize) else memory.planned
    bound = 0 if isinstance(memory, TflmSize) else memory.bound
    near = f" {_over_bound(planned, bound)}" if 0 < bound <= planned else ""
    how = getattr(memory, "mode", "")
    click.echo(", ".join(filter(None, (f"arena {size_text(planned)}{near}", how, getattr(memory, "reason", "")))))
    if trial.identical is not None:
        verdict = "identical to a plain run" if trial.identical else f"DIFFERENT: {', '.join(trial.different)}"
        click.echo(f"outputs {verdict}")
    for name, value in trial.outputs.items():
        shape = "x".join(map(str, getattr(value, "shape", ()))) or "scalar"
        click.echo(f"  {name}: {getattr(value, 'dtype', type(value).__name__)} {shape}")


def _over_bound(size: int, bound: int) -> str:
    return "= lower bound" if size == bound else f"({_ratio(size, bound)} of the lower bound)"


def show_size(made: Mapping[str, int | str | None]) -> None:
    """The arena first, then its parts."""
    for name, value in made.items():
        if isinstance(value, int):
            click.echo(f"{name:10} {value:>14,}  {size_text(value)}")
        elif name != "note":
            click.echo(f"{name:10} {'not measured':>14}")
    if made.get("note"):
        click.echo(str(made["note"]))


def show_measured(rows: Sequence[MeasureRow]) -> None:
    """One line a configuration."""
    table = Table(box=None, pad_edge=False)
    table.add_column("configuration")
    for column in ("activations", "of default", "arena", "of bound", "outputs", "RSS", "ms", "time", "exact"):
        table.add_column(column, justify="right")
    default = next((row.activation for row in rows if row.configuration == "default"), None)
    for row in rows:
        if row.unavailable:
            table.add_row(row.configuration, f"[dim]{row.unavailable}")
            continue
        table.add_row(
            row.configuration,
            _size_or_dash(row.activation),
            _ratio(row.activation, default) if row.activation is not None and default else "-",
            _size_or_dash(row.planned),
            _ratio(row.planned, row.bound) if row.planned is not None and row.bound else "-",
            _size_or_dash(row.outputs),
            _size_or_dash(row.rss),
            "-" if row.latency_ms is None else f"{row.latency_ms:.2f}",
            "-" if row.latency_ratio is None else f"{row.latency_ratio:.2f}x",
            "-" if row.exact is None else "yes" if row.exact else "NO",
        )
    console = Console(width=None if sys.stdout.isatty() else 120, highlight=False)
    console.print(table)
    for row in rows:
        if row.note:
            console.print(f"{row.configuration}: {row.note}", soft_wrap=True, markup=False)


def _size_or_dash(size: int | None) -> str:
    return "-" if size is None else size_text(size)
