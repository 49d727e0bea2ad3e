"""What `plan` and `show` print: the answer, the peak, the plans, and the tensors that have no place.

Everything fits into 80 columns; long names are folded, and digits are never cut.
"""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from rich.table import Table

from edgemem.bounds import operator_breadths
from edgemem.cli.console import console_for
from edgemem.cli.printable import printable
from edgemem.distribution import requirement
from edgemem.report.peak import find_peak
from edgemem.report.sizes import ratio_text, size_text
from edgemem.strategy.options import summary

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from edgemem.plans import Plan, PlanSet
    from edgemem.strategy.registry import Strategy

__all__ = ["answer", "show_plan", "show_profile", "show_strategies", "show_tensors"]

_BAR = 24  # characters of the longest bar
_ENDED = {
    "bound": "met the lower bound",
    "proof": "proved that nothing is smaller",
    "work": "ended by its work",
    "time": "ended by the time limit",
}


def show_plan(planset: PlanSet, *, elapsed_s: float | None = None, top: int = 5, rows: int | None = 4) -> None:
    """The answer, what is alive at the peak, a table of the best plans, and what is not in the plan.

    Args:
        planset: the plans.
        elapsed_s: seconds that planning took, shown with the answer.
        top: how many tensors to list.
        rows: how many plans of each family to list beside naive, the smallest first; None lists all.
    """
    console = console_for()
    texels = planset.problem.extents is not None
    families = _families(planset)
    for number, (label, plans, bound, proved) in enumerate(families):
        best = min(plans, key=lambda p: p.size)
        took = f", {elapsed_s * 1e3:.0f} ms in all" if elapsed_s is not None and not number else ""
        text = answer(best, bound, planset.naive, proved=proved, texels=texels)
        console.print(f"{label} {text}{took}", soft_wrap=True)
    if planset.target is not None and planset.target.scratch == "unknown":
        console.print("These are the tensors; the workspace of kernels is not in this plan.", soft_wrap=True)
    if planset.input_shapes:
        sizes = "; ".join(f"{name} = {','.join(map(str, shape))}" for name, shape in planset.input_shapes.items())
        console.print(printable(f"Planned for {sizes} (--input-shape gives other sizes)."), soft_wrap=True)
    _show_peak(console, planset, top, texels=texels)
    for family in families:
        _show_family(console, planset, family, rows, texels=texels)
    _show_searches(console, planset, texels=texels)
    _show_unplanned(console, planset, top)


def _families(planset: PlanSet) -> list[tuple[str, Sequence[Plan], int, int]]:
    """Label, plans, lower bound and the best bound proved of each family that has plans."""
    listed: list[tuple[str, Sequence[Plan], int, int]] = [
        ("arena", planset.offsets, planset.bounds.offsets, planset.proved.offsets),
        ("shared objects", planset.shared_objects, planset.bounds.shared_objects, planset.proved.shared_objects),
    ]
    return [family for family in listed if family[1]]


def _show_family(
    console: Console,
    planset: PlanSet,
    family: tuple[str, Sequence[Plan], int, int],
    rows: int | None,
    *,
    texels: bool,
) -> None:
    label, plans, bound, proved = family
    table = Table(box=None, pad_edge=False)
    table.add_column(label, overflow="fold")
    unit = "texels" if texels else "bytes"
    for column in (unit, "of bound", "of naive"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_row("lower bound", f"{bound:,}", "", "", "")
    if proved > bound:
        table.add_row(
            f"bound proved by {_prover(plans, proved)}", f"{proved:,}", ratio_text(proved, bound, unit), "", ""
        )
    ordered = sorted(plans, key=lambda p: p.size)
    shown = ordered if rows is None else ordered[:rows]
    naive = [p for p in ordered if p.strategy == "naive" and p not in shown]
    for plan in (*shown, *naive):
        table.add_row(
            _strategy_text(plan),
            f"{plan.size:,}",
            ratio_text(plan.size, bound, unit),
            ratio_text(plan.size, planset.naive, unit),
            "optimal" if plan.optimal else "",
        )
    console.print()
    console.print(table)
    more = len(plans) - len(shown) - len(naive)
    if more:
        console.print(f"and {more} more; --all lists them")


def _strategy_text(plan: Plan) -> str:
    return printable(" ".join([plan.strategy, *(f"{k}={v}" for k, v in plan.options.items())]))


def _prover(plans: Sequence[Plan], bound: int) -> str:
    return printable(next(p.strategy for p in plans if p.search and p.search.bound == bound))


def _show_searches(console: Console, planset: PlanSet, *, texels: bool) -> None:
    """Why each search ended; nothing for a search that met the lower bound."""
    unit = "texels" if texels else "bytes"
    lines = []
    for plan in planset.plans:
        report = plan.search
        if report is None or report.stopped == "bound":
            continue
        seed = "" if report.seed is None else f", seed {report.seed}"
        why = _ENDED.get(report.stopped, report.stopped)
        name = _strategy_text(plan)
        lines.append(f"{name}: {why} after {report.work:,} steps{seed}; no less than {report.bound:,} {unit}")
    if lines:
        console.print()
    for line in lines:
        console.print(line, soft_wrap=True)


def answer(best: Plan, bound: int, naive: int, *, texels: bool = False, proved: int = 0) -> str:
    """The size of the best plan beside its bound, its strategy, and how much less than naive it is."""
    if best.size == bound:
        gap = "= lower bound (optimal)"
    elif best.optimal:
        gap = "(proved optimal)"
    elif proved > bound:
        gap = f"({ratio_text(best.size, proved)} of the bound proved)"
    else:
        gap = f"({ratio_text(best.size, bound)} of the lower bound)"
    saved = f", {naive / best.size:.1f}x less than naive" if best.size else ""
    return f"{size_text(best.size, texels=texels)} {gap}, {_strategy_text(best)}{saved}"


def _show_peak(console: Console, planset: PlanSet, top: int, *, texels: bool) -> None:
    peak = find_peak(planset)
    if not peak.alive or not top:
        return
    size, count = size_text(peak.size, texels=texels), len(peak.alive)
    console.print(
        f"\npeak at {printable(peak.label)} (op {peak.op}): {size} in {count} tensor{'s' * (count != 1)}",
        soft_wrap=True,
    )
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(overflow="fold")
    for name, bytes_or_texels in peak.alive[:top]:
        table.add_row(f"{bytes_or_texels:,}", printable(name))
    console.print(table)


def _show_unplanned(console: Console, planset: PlanSet, top: int) -> None:
    if not planset.unplanned:
        return
    reasons: dict[str, list[str]] = {}
    for name, reason in planset.unplanned:
        reasons.setdefault(printable(reason), []).append(printable(name))
    console.print("\nnot in the plan:")
    for reason, names in reasons.items():
        shown = ", ".join(names[: max(top, 1)])
        more = f" and {len(names) - max(top, 1)} more" if len(names) > max(top, 1) else ""
        console.print(f"  {reason}: {shown}{more}", soft_wrap=True)


def show_tensors(planset: PlanSet) -> None:
    """Every record of the best plans: its offset, its size, the operators it lives through, and its tensors."""
    offsets, objects = planset.best_offsets, planset.best_shared_objects
    table = Table(box=None, pad_edge=False)
    for column in ("offset", "object", "size", "ops"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("tensors", overflow="fold")
    for i, record in enumerate(planset.problem.records):
        size = f"{record.size:,}" if isinstance(record.size, int) else "x".join(map(str, record.size))
        table.add_row(
            f"{int(offsets.offsets[i]):,}" if offsets else "",
            str(int(objects.assignment[i])) if objects else "",
            size,
            f"{record.first_op}-{record.last_op}",
            printable(", ".join(record.tensors or (record.name,))),
        )
    console = console_for()
    console.print()
    console.print(table)


def show_profile(planset: PlanSet) -> None:
    """What is alive at every operator, in bytes or texels, with a bar that is as long as its share of the peak.

    Raises PlanError where operator indices are timestamps.
    """
    breadths = operator_breadths(planset.problem).tolist()
    rows = breadths + [0] * (len(planset.steps) - len(breadths))  # nothing is alive after the last record
    table = Table(box=None, pad_edge=False)
    table.add_column("op", justify="right", no_wrap=True)
    table.add_column("alive", justify="right", no_wrap=True)
    table.add_column("", no_wrap=True, min_width=_BAR)
    table.add_column("operator", overflow="fold")
    peak = max(rows, default=0)
    for op, size in enumerate(rows):
        label = planset.steps[op] if op < len(planset.steps) else ""
        table.add_row(str(op), f"{size:,}", "#" * (size * _BAR // peak if peak else 0), printable(label))
    console = console_for()
    console.print()
    console.print(table)


def show_strategies(strategies: Sequence[Strategy]) -> None:
    """What is registered: two lines a strategy, folded between words where the terminal is narrower."""
    console = console_for()
    family = ""
    for strategy in strategies:
        if strategy.family != family:
            family = strategy.family
            console.print(f"{family.replace('_', ' ')}")
        options = "; ".join(f"{k}={summary(option)}" for k, option in strategy.options.items())
        _print_folded(console, f"  {strategy.name}{f'  {options}' if options else ''}")
        extra = f", needs {requirement(strategy.extra)}" if strategy.extra else ""
        honoured = ", ".join(sorted(strategy.honours))
        _print_folded(console, f"      {strategy.paper}; {strategy.complexity}; honours {honoured}{extra}")
    console.print("The first value of an option is its default.")


def _print_folded(console: Console, text: str) -> None:
    """A line; on a terminal it is folded between words, and the rest is indented."""
    if console.is_terminal:
        text = textwrap.fill(text, console.width, subsequent_indent=" " * 6, break_long_words=False)
    console.print(text, soft_wrap=True)
