"""What `plan` and `show` print: the answer, the peak, the plans, and the tensors that have no place.

Everything fits into 80 columns; long names are folded, and digits are never cut.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from edgemem.cli.console import console_for, print_folded, print_table
from edgemem.cli.printable_text import printable
from edgemem.cli.region_view import cost_text, show_regions
from edgemem.cli.texture_view import TFLITE_RULES, are_textures, show_textures, textures_text
from edgemem.plans import DEPENDS_ON_DATA, SharedObjectsPlan
from edgemem.report.peak import find_peak
from edgemem.report.sizes import ratio_text, size_text
from edgemem.strategy.bounds import operator_sections
from edgemem.strategy.options import summary
from edgemem.system.distribution import requirement
from edgemem.system.text import join_names

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.console import Console

    from edgemem.plans import Plan, PlanSet
    from edgemem.schedule.registry import Solver
    from edgemem.strategy.options import Option
    from edgemem.strategy.registry import Strategy

__all__ = [
    "answer",
    "show_plan",
    "show_profile",
    "show_strategies",
    "show_tensors",
]

_BAR = 24  # characters of the longest bar
_ENDED = {
    "bound": "met the lower bound",
    "proof": "proved that nothing is smaller",
    "work": "ended by its work",
    "time": "ended by the time limit",
}


def show_plan(
    planset: PlanSet,
    *,
    elapsed_s: float | None = None,
    top: int = 5,
    rows: int | None = 4,
    note: str = "",
    of: str = "",
) -> None:
    """The answer, what is alive at the peak, a table of the best plans, and what is not in the plan.

    Args:
        planset: the plans.
        elapsed_s: seconds that planning took, shown with the answer.
        top: how many tensors to list.
        rows: how many plans of each family to list beside naive, the smallest first; None lists all.
        note: what to say of the graph below the answer.
        of: what the plan is of, before the answer; "" where nothing else is shown.
    """
    console = console_for()
    texels = planset.problem.extents is not None
    families = _families(planset)
    if cost := cost_text(planset):
        print_folded(console, cost, indent=2)
    for number, (label, plans, bound, proved, claimed) in enumerate(families):
        best = min(plans, key=lambda p: p.size)
        took = f", {_time_text(elapsed_s)} in all" if elapsed_s is not None and not number else ""
        size = textures_text(planset, best) if are_textures(planset) and isinstance(best, SharedObjectsPlan) else ""
        text = answer(best, bound, planset.naive, proved=proved, claimed=claimed, texels=texels, size=size)
        print_folded(console, f"{of}{label} {text}{took}", indent=2)
    if note:
        print_folded(console, note, indent=0)
    if planset.target is not None and planset.target.scratch == "unknown" and planset.target.storage == "plain":
        print_folded(console, "These are the tensors; the workspace of kernels is not in this plan.", indent=2)
    if planset.kernels:
        print_folded(
            console,
            f"Results overlap inputs as the kernels of {planset.kernels} allow: the plan is wrong with others.",
            indent=2,
        )
    if unsized := _depend_on_data(planset):
        print_folded(console, printable(unsized), indent=2)
    states = [r for r in planset.problem.records if r.kind == "state"]
    if states:
        taken = size_text(sum(r.size for r in states if isinstance(r.size, int)), texels=texels)
        first = " = ".join(printable(name) for name in states[0].tensors)
        each = f"{len(states)} states, {taken}" if len(states) > 1 else f"1 state, {taken}"
        print_folded(console, f"{each}, kept in place from run to run: {first}{', ...' * (len(states) > 1)}", indent=2)
    if planset.input_shapes:
        sizes = "; ".join(f"{name} = {','.join(map(str, shape))}" for name, shape in planset.input_shapes.items())
        print_folded(console, printable(f"Planned for {sizes} (--input-shape gives other sizes)."), indent=2)
    if planset.ranges:
        ranges = ", ".join(f"{name}={made}" for name, made in planset.ranges.items())
        print_folded(console, printable(f"Planned for {ranges}: this is the largest."), indent=2)
    show_regions(console, planset)
    _show_peak(console, planset, top, texels=texels)
    # Nothing runs shared objects of plain memory: a line says what they take, and --all has the rest.
    is_arena_alone = rows is not None and planset.target is not None and planset.target.storage == "plain"
    shown = [family for family in families if family[0] == "arena"] if is_arena_alone and planset.offsets else families
    for family in shown:
        _show_family(console, planset, family, rows, texels=texels)
    if are_textures(planset) and planset.shared_objects:
        show_textures(console, planset)
    _show_searches(console, [plan for _, plans, *_ in shown for plan in plans], texels=texels)
    _show_unplanned(console, planset, top)


def _time_text(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds >= 10 else f"{seconds * 1e3:.0f} ms"


def _depend_on_data(planset: PlanSet) -> str:
    """How many tensors have sizes that depend on the data, and which operators make them so; "" if there are none."""
    reasons = [reason for _, reason in planset.unplanned if reason.startswith(DEPENDS_ON_DATA)]
    if not reasons:
        return ""
    operators = join_names(sorted({reason.partition("(")[2].partition(")")[0] for reason in reasons}))
    are = "tensor is" if len(reasons) == 1 else "tensors are"
    return f"{len(reasons)} {are} not in these figures: sizes that depend on the data ({operators}) are the runtime's."


_Family: TypeAlias = "tuple[str, Sequence[Plan], int, int, int]"


def _families(planset: PlanSet) -> list[_Family]:
    """Label, plans, lower bound, the best bound proved, and the best one claimed of each family that has plans."""
    offsets = () if are_textures(planset) else planset.offsets  # no texture begins inside another one
    bounds, proved, claimed = planset.bounds, planset.proved, planset.claimed
    objects = (bounds.shared_objects, proved.shared_objects, claimed.shared_objects)
    listed: list[_Family] = [
        ("arena", offsets, bounds.offsets, proved.offsets, claimed.offsets),
        ("shared objects", planset.shared_objects, *objects),
    ]
    return [family for family in listed if family[1]]


def _show_family(
    console: Console,
    planset: PlanSet,
    family: _Family,
    rows: int | None,
    *,
    texels: bool,
) -> None:
    label, plans, bound, proved, claimed = family
    unit = "texels" if texels else "bytes"
    cells = [("lower bound", f"{bound:,}", "", "", "")]
    better = max(proved, claimed)
    if better > bound:
        how = "proved by" if proved == better else "claimed by"
        proof = f"bound {how} {_prover(plans, better)}"
        cells.append((proof, f"{better:,}", ratio_text(better, bound, unit), "", ""))
    ordered = sorted(plans, key=lambda p: p.size)
    shown = ordered if rows is None else ordered[:rows]
    rules = TFLITE_RULES if are_textures(planset) else {}
    known = {"naive", *rules}
    naive = [p for k, p in enumerate(ordered) if p not in shown and p.strategy in known and _is_first(ordered, k)]
    cells += [
        (
            _strategy_text(plan),
            f"{plan.size:,}",
            ratio_text(plan.size, bound, unit),
            ratio_text(plan.size, planset.naive, unit),
            rules.get(plan.strategy, "optimal" if plan.optimal else ""),
        )
        for plan in (*shown, *naive)
    ]
    console.print()
    print_table(console, (f"<{label}", unit, "of bound", "of naive", "<"), cells)
    more = len(plans) - len(shown) - len(naive)
    if more:
        console.print(f"and {more} more; `edgemem show --all` lists those of a planned file")


def _is_first(plans: Sequence[Plan], number: int) -> bool:
    """Whether no plan before this one is of the same strategy."""
    return all(plan.strategy != plans[number].strategy for plan in plans[:number])


def _strategy_text(plan: Plan) -> str:
    return printable(" ".join([plan.strategy, *(f"{k}={v}" for k, v in plan.options.items())]))


def _prover(plans: Sequence[Plan], bound: int) -> str:
    return printable(next(p.strategy for p in plans if p.search and p.search.bound == bound))


def _show_searches(console: Console, plans: Sequence[Plan], *, texels: bool) -> None:
    """Why each search ended; nothing for a search that met the lower bound. What a file says of it is a claim."""
    unit = "texels" if texels else "bytes"
    lines = []
    for plan in plans:
        report = plan.search
        if report is None or report.stopped == "bound":
            continue
        seed = "" if report.seed is None else f", seed {report.seed}"
        why = _ENDED.get(report.stopped, report.stopped)
        name = _strategy_text(plan)
        who = "the file claims (not proved here): " if report.claimed else ""
        lines.append(f"{name}: {who}{why} after {report.work:,} steps{seed}; no less than {report.bound:,} {unit}")
    if lines:
        console.print()
    for line in lines:
        print_folded(console, line, indent=2)


def answer(
    best: Plan, bound: int, naive: int, *, texels: bool = False, proved: int = 0, claimed: int = 0, size: str = ""
) -> str:
    """The size of the best plan, or other words for it, beside its bound, its strategy, and how much it saves.

    Args:
        best: the plan.
        bound: the lower bound.
        naive: the size without sharing.
        texels: sizes are texels, not bytes.
        proved: the best bound that a search of this process proved.
        claimed: the best bound that the file says a search proved.
        size: other words for the size of the plan.
    """
    if best.size == bound:
        gap = "= lower bound (optimal)"
    elif best.optimal:
        gap = "(proved optimal)"
    elif best.size == claimed:
        gap = f"({ratio_text(best.size, bound)} of the lower bound; claimed optimal, not proved here)"
    elif proved > bound:
        gap = f"({ratio_text(best.size, proved)} of the bound proved)"
    else:
        gap = f"({ratio_text(best.size, bound)} of the lower bound)"
    ratio = f"{naive / best.size:.1f}" if best.size else "1.0"
    saved = f", {ratio}x less than naive" if ratio != "1.0" else ""
    return f"{size or size_text(best.size, texels=texels)} {gap}, {_strategy_text(best)}{saved}"


def _show_peak(console: Console, planset: PlanSet, top: int, *, texels: bool) -> None:
    peak = find_peak(planset)
    if not peak.alive or not top:
        return
    most, count = size_text(peak.size, texels=texels), len(peak.alive)
    best, tensors = planset.best_offsets, f"{count} tensor{'s' * (count != 1)}"
    where = f"{printable(peak.label)} (op {peak.op})"
    if best is not None and best.size < peak.size:  # what they take is no peak of this plan
        text = f"most is alive at {where}: {tensors}, {most} side by side; they overlap in the plan"
    else:
        text = f"peak at {where}: {most} in {tensors}"
    console.print()
    print_folded(console, text, indent=2)
    print_table(
        console, ("", "<"), [(f"{size:,}", printable(name)) for name, size in peak.alive[:top]], has_header=False
    )


def _show_unplanned(console: Console, planset: PlanSet, top: int) -> None:
    if not planset.unplanned:
        return
    reasons: dict[str, list[str]] = {}
    for name, reason in planset.unplanned:
        reasons.setdefault(printable(reason), []).append(printable(name))
    console.print("\nnot in the plan:")
    for reason, names in reasons.items():
        print_folded(console, f"  {reason}: {join_names(names, most=max(top, 1))}", indent=2)


def show_tensors(planset: PlanSet) -> None:
    """Every record of the best plans: its offset, its size, the operators it lives through, and its tensors."""
    offsets, objects = planset.best_offsets, planset.best_shared_objects
    rows = [
        (
            f"{int(offsets.offsets[i]):,}" if offsets else "",
            str(int(objects.assignment[i])) if objects else "",
            f"{record.size:,}" if isinstance(record.size, int) else "x".join(map(str, record.size)),
            f"{record.first_op}-{record.last_op}",
            printable(", ".join(record.tensors or (record.name,))),
        )
        for i, record in enumerate(planset.problem.records)
    ]
    console = console_for()
    console.print()
    print_table(console, ("offset", "object", "size", "ops", "<tensors"), rows)


def show_profile(planset: PlanSet) -> None:
    """What is alive at every operator, in bytes or texels, with a bar that is as long as its share of the peak.

    Operators that the plan does not name are told together where the same is alive: their indices may be timestamps.
    """
    named = len(planset.steps)
    rows: list[tuple[int, int, int]] = []
    for first, last, size in operator_sections(planset.problem):
        rows += [(op, op, size) for op in range(first, min(last + 1, named))]
        if last >= named:
            rows.append((max(first, named), last, size))
    end = rows[-1][1] + 1 if rows else 0
    rows += [(op, op, 0) for op in range(end, named)]  # nothing is alive after the last record
    peak = max((size for *_, size in rows), default=0)
    cells = []
    for first, last, size in rows:
        label = planset.steps[first] if first < named else ""
        ops = str(first) if first == last else f"{first}-{last}"
        cells.append((ops, f"{size:,}", "#" * (size * _BAR // peak if peak else 0), printable(label)))
    console = console_for()
    console.print()
    print_table(console, ("op", "alive", "<", "<operator"), cells)


def show_strategies(strategies: Sequence[Strategy], solvers: Sequence[Solver]) -> None:
    """What is registered: two lines each, folded between words where the terminal is narrower."""
    console = console_for()
    family = ""
    for strategy in strategies:
        if strategy.family != family:
            family = strategy.family
            console.print(f"{family.replace('_', ' ')}")
        print_folded(console, _headed(strategy.name, strategy.options))
        extra = f", needs {requirement(strategy.extra)}" if strategy.extra else ""
        honoured = ", ".join(sorted(strategy.honours))
        print_folded(console, f"      {strategy.paper}; {strategy.complexity}; honours {honoured}{extra}")
    console.print("order of operators (shrink --steps order=METHOD)")
    for solver in solvers:
        print_folded(console, _headed(solver.name, solver.options))
        extra = f", needs {requirement(solver.extra)}" if solver.extra else ""
        limit = f", up to {solver.limit:,} operators in auto" if solver.limit is not None else ""
        print_folded(console, f"      {solver.paper}; {solver.complexity}{limit}{extra}")
    console.print("The first value of an option is its default.")


def _headed(name: str, options: Mapping[str, Option]) -> str:
    listed = "; ".join(f"{k}={summary(option)}" for k, option in options.items())
    return f"  {name}{f'  {listed}' if listed else ''}"
