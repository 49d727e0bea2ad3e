"""Strategies and other planners side by side on the same instances: docs/bench.md.

python -m tests.bench.planners [INSTANCE]...
"""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import click
from rich.table import Table

from edgemem.cli.console import console_for, print_folded
from edgemem.cli.exit_codes import EXIT_FAILED, EXIT_INVALID
from edgemem.cli.options import bindings
from edgemem.errors import EdgememError, MissingDependencyError, UnknownStrategyError
from edgemem.report.sizes import size_text
from tests.bench.planners import measurement
from tests.bench.planners.document import document
from tests.bench.planners.instances import DEFAULT, instance
from tests.bench.planners.measurement import geometric_mean
from tests.bench.planners.peak_memory import peak_rss

if TYPE_CHECKING:
    from collections.abc import Sequence

    from edgemem.strategy.registry import Family
    from tests.bench.planners.measurement import Result, Row, Summary

    _Cells: TypeAlias = Sequence[tuple[str, ...]]  # a solver's figures, for each solver

__all__ = ["bench"]


def _comma_separated(_ctx: click.Context, _param: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name.strip() for value in values for name in value.split(",") if name.strip())


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("instances", nargs=-1, metavar="[INSTANCE]...")
@click.option(
    "-s",
    "--strategy",
    "strategies",
    multiple=True,
    metavar="NAME",
    help="auto, or NAME[:OPTION=VALUE,...]; repeatable. search and greedy_by_size by default.",
)
@click.option(
    "--peers",
    multiple=True,
    callback=_comma_separated,
    metavar="NAME,...",
    help="Other planners, where installed: omnimalloc, vela, or one of theirs as omnimalloc/greedy_by_size.",
)
@click.option(
    "--peer-limit",
    default=1.0,
    show_default=True,
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    help="For each plan of a peer that takes a limit.",
)
@click.option(
    "--peer-records",
    type=click.IntRange(min=1),
    metavar="N",
    help="Leave peers out above N records, instead of where they begin to take minutes.",
)
@click.option("--effort", type=click.Choice(["fast", "default", "max"]), help="Of strategies that have the option.")
@click.option("--family", type=click.Choice(["offsets", "shared_objects"]), default="offsets", show_default=True)
@click.option(
    "--repeat", default=1, show_default=True, type=click.IntRange(min=1), help="Turns; the least seconds count."
)
@click.option("--memory", is_flag=True, help="Also each one's peak resident memory, in a process of its own.")
@bindings
@click.option("-t", "--target", metavar="NAME|FILE.toml", help="Rules that give models their records; docs/targets.md.")
@click.option(
    "--json",
    "json_file",
    type=click.Path(dir_okay=False, allow_dash=True, path_type=Path),
    metavar="FILE",
    help="Write everything measured to FILE; - prints it instead of the table.",
)
def bench(
    *,
    instances: tuple[str, ...],
    strategies: tuple[str, ...],
    peers: tuple[str, ...],
    peer_limit: float,
    peer_records: int | None,
    effort: str | None,
    family: Family,
    repeat: int,
    memory: bool,
    dims: dict[str, int],
    input_shapes: dict[str, tuple[int, ...]],
    target: str | None,
    json_file: Path | None,
) -> None:
    """Compare strategies, and other planners, on the same instances: size / lower bound and CPU seconds.

    INSTANCE is a file of usage records (.csv), a model (.onnx, .tflite), or one made from a name:

    \b
      guillotine:1000                     a puzzle of 1000 records cut straight
      pinwheels:1000,removed=2%,seed=3    not cut straight, 2% taken out
      guillotine:350,pinned=12            12 of its pieces are where they were cut
      sparse:1000000                      random, about 100 alive at a time
      dense:1000                          random, a fortieth alive at a time

    Without any, a set of these that takes less than half a minute. An instance that cannot be planned is left out and
    named, and the exit code is 1. Every plan is proved valid before its figures are
    shown; all solvers run in turns in this process, on one thread.
    """
    dash = str(json_file) == "-"
    options: dict[str, Any] = {"dims": dims, "input_shapes": input_shapes, "target": target}
    rows: list[Row] = []
    failed: list[str] = []
    invalid = False
    try:
        columns = measurement.solvers(strategies or measurement.DEFAULT[family], peers, family, effort)
    except UnknownStrategyError as e:
        raise click.UsageError(str(e)) from None
    except MissingDependencyError as e:
        raise click.ClickException(str(e)) from None
    limits = measurement.PeerLimits(peer_limit, peer_records)
    for text in instances or DEFAULT:
        try:
            row = measurement.measure(instance(text, **options), columns, limits=limits, repeat=repeat)
        except (EdgememError, OSError) as e:
            failed.append(f"{text}: {e}")
            continue
        if memory:
            peaks = [r.size and peak_rss(text, options, s, limits) for s, r in zip(columns, row.results, strict=True)]
            results = (replace(r, peak_rss=peak) for r, peak in zip(row.results, peaks, strict=True))
            row = replace(row, results=tuple(results))
        invalid |= any(r.invalid and not r.peer for r in row.results)
        rows.append(row)
    if rows and not dash:
        _show(rows, measurement.summary(rows), memory=memory)
    if rows and json_file:
        text = json.dumps(document(rows, columns, limits, repeat), indent=1) + "\n"
        with click.open_file(str(json_file), "w", encoding="utf-8", atomic=not dash) as file:
            file.write(text)
    for reason in failed:
        click.echo(f"left out: {reason}", err=True)
    if failed or invalid:
        click.get_current_context().exit(EXIT_INVALID if invalid else EXIT_FAILED)


def _show(rows: Sequence[Row], totals: Sequence[Summary], *, memory: bool) -> None:
    """The answer first, then the table, and the reasons for what is missing."""
    notes: list[str] = []
    columns = 3 if memory else 2
    cells = [[_cells(row, result, notes)[:columns] for result in row.results] for row in rows]
    console = console_for()
    table = _wide(rows, cells, totals, ("s", "RSS")[: columns - 1])
    needed = console.measure(table, options=console.options.update(max_width=10_000)).maximum
    if not console.is_terminal:
        console.width = max(needed, console.width)
    elif needed > console.width:
        table = _tall(rows, cells, totals, ("s", "RSS")[: columns - 1])
    if answer := _answer(totals):
        print_folded(console, f"{answer}\n", indent=4)
    console.print(table)
    kinds = "size / bound, CPU seconds" + (", peak memory of a process of its own" if memory else "")
    print_folded(console, f"\n{kinds}; * proved optimal", indent=4)
    for number, note in enumerate(notes, 1):
        print_folded(console, f"({number}) {note}", indent=4)


def _wide(rows: Sequence[Row], cells: Sequence[_Cells], totals: Sequence[Summary], more: Sequence[str]) -> Table:
    """A row an instance, the solvers as columns."""
    ratios = [row.to_best_peer_ratio for row in rows]
    mean = geometric_mean([ratio for ratio in ratios if ratio])
    last = ("of best peer",) if mean else ()
    table = _table("instance", "records", "bound", "optimum", *(h for t in totals for h in (t.solver, *more)), *last)
    for row, results, ratio in zip(rows, cells, ratios, strict=True):
        head = (row.instance, f"{row.records:,}", f"{row.bound:,}", _optimum(row))
        table.add_row(*head, *chain.from_iterable(results), *([_number(ratio)] if mean else []))
    table.add_row()
    rest = [""] * (len(more) - 1)
    sums = [cell for t in totals for cell in (f"{_number(t.bound_ratio)} ", f"{t.seconds:.3g}", *rest)]
    table.add_row("geometric mean, sum", "", "", "", *sums, *([_number(mean)] if mean else []))
    counts = [cell for t in totals for cell in (f"{t.at_bound} of {t.instances} ", "", *rest)]
    table.add_row("at the bound", "", "", "", *counts)
    return table


def _tall(rows: Sequence[Row], cells: Sequence[_Cells], totals: Sequence[Summary], more: Sequence[str]) -> Table:
    """A row a solver, for terminals too narrow for the other: digits are never cut."""
    table = _table("instance", "", "of bound", *more)
    for row, results in zip(rows, cells, strict=True):
        table.add_row(row.instance, f"{row.records:,} record{'s' * (row.records != 1)}, bound {row.bound:,}")
        for result, figures in zip(row.results, results, strict=True):
            table.add_row("", result.solver, *figures)
    table.add_row("geometric mean, sum")
    for t in totals:
        at_bound = f"{t.solver}, at the bound {t.at_bound} of {t.instances}"
        table.add_row("", at_bound, f"{_number(t.bound_ratio)} ", f"{t.seconds:.3g}")
    if mean := geometric_mean([ratio for row in rows if (ratio := row.to_best_peer_ratio)]):
        table.add_row("", "ours of the best peer", f"{_number(mean)} ")
    return table


def _table(*headings: str) -> Table:
    table = Table(box=None, pad_edge=False)
    for number, heading in enumerate(headings):
        table.add_column(heading, justify="right" if number and heading else "left")
    return table


def _answer(totals: Sequence[Summary]) -> str:
    """The solver that planned most and came closest."""
    planned = [(-t.instances, t.bound_ratio, t) for t in totals if t.bound_ratio is not None]
    if not planned:
        return ""
    _, ratio, best = min(planned, key=lambda p: p[:2])
    over = f"the geometric mean of {best.instances} instances" if best.instances > 1 else "one instance"
    return f"{best.solver}: {ratio:.4f} of the bound in {over}, at it on {best.at_bound}, {best.seconds:.3g} s in all"


def _optimum(row: Row) -> str:
    known = row.optimum or next((r.size for r in row.results if r.optimal and r.size is not None), None)
    if known is not None:
        return f"{known:,}"
    return "" if row.at_most is None else f"<= {row.at_most:,}"


def _cells(row: Row, result: Result, notes: list[str]) -> tuple[str, str, str]:
    """Ratio, seconds, peak memory."""
    if result.size is None or result.seconds is None:
        notes.append(f"{result.solver} on {row.instance}: {result.note}")
        kind = "invalid" if result.invalid else "left out" if result.left_out else "failed"
        return f"{kind} ({len(notes)}) ", "", ""
    ratio = _number(result.size / row.bound) if row.bound else "-"
    peak = "" if result.peak_rss is None else size_text(result.peak_rss)
    return f"{ratio}{'*' if result.optimal else ' '}", f"{result.seconds:.2g}", peak


def _number(ratio: float | None) -> str:
    return "-" if ratio is None else f"{ratio:.4f}"


if __name__ == "__main__":
    bench(prog_name="python -m tests.bench.planners")
