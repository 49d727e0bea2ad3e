"""`edgemem fit`: the largest context and prefill chunk of a decoder within a budget of process memory."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING

import click

from edgemem.cli.options import FILE, FileCommand, bindings, parsed_size

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from edgemem.commands.fit import Fit
    from edgemem.formats import Model

__all__ = ["fit"]


@click.command(cls=FileCommand)
@click.argument("model", type=FILE)
@click.option(
    "--budget",
    required=True,
    metavar="SIZE",
    callback=parsed_size,
    help="Resident memory of the process, libraries and weights included, such as 1.5GiB.",
)
@click.option(
    "--context",
    type=click.IntRange(min=16),
    help="Tokens that the model was made for, the most that the answer has. By default, what it runs with.",
)
@click.option("--batch", default=1, show_default=True, type=click.IntRange(min=1), help="Sequences decoded together.")
@click.option("--threads", default=1, show_default=True, type=click.IntRange(min=1), help="Of one operator.")
@bindings
@click.option("--no-run", is_flag=True, help="Do not measure the answer in a fresh process; it is an estimate then.")
@click.option(
    "-o",
    "--output",
    type=FILE,
    help="Write the values into this genai_config.json; the rest of it stays. A new one describes the model, too.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the answer as JSON.")
def fit(
    *,
    model: Path,
    budget: int,
    context: int | None,
    batch: int,
    threads: int,
    dims: dict[str, int],
    input_shapes: dict[str, tuple[int, ...]],
    no_run: bool,
    output: Path | None,
    as_json: bool,
) -> None:
    """Find the largest context and prefill chunk of a decoder that fit a budget of memory.

    Counted are the process with the session open, the caches at their capacity, the planned arena of the larger of
    prefill and decode, the logits of a chunk, and the rest that a process was measured to take. 3 % of the budget stay
    free, and loading has to be within it, too. The answer is measured with edgemem.DecoderState on an
    edgemem.InferenceSession after warm_up(): other runners take more. Exit code 3 if not even a short context fits.
    """
    from edgemem import api
    from edgemem.cli.console import progress as progress_line
    from edgemem.commands.fit import HOLDS_FOR
    from edgemem.commands.fit import fit as find_fit
    from edgemem.commands.genai_config import describe_decoder, genai_values, merge_config
    from edgemem.formats import Bindings

    def arena(source: Model, states: Mapping[str, str]) -> int:
        planset = api.plan(source, strategy="offsets/greedy_by_size", states=states)
        kept = sum(r.size for r in planset.problem.records if r.kind == "state" and isinstance(r.size, int))
        return max((planset.best_offsets.size if planset.best_offsets else 0) - kept, 0)

    whole = describe_decoder(model, output) if output and not output.exists() else {}
    with progress_line("fitting") as progress:
        made = find_fit(
            model,
            budget,
            plan=arena,
            bindings=Bindings(dims, input_shapes),
            batch=batch,
            threads=threads,
            most_context=context,
            check=not no_run,
            progress=progress,
        )
    values = genai_values(made)
    if output:
        if whole:
            merge_config(output, whole)
        merge_config(output, values)
    if as_json:
        click.echo(json.dumps({**dataclasses.asdict(made), "holds_for": HOLDS_FOR, "genai_config": values}, indent=1))
    else:
        _show(made, values, context)
        if output:
            click.echo(f"wrote {output}")


def _show(made: Fit, values: Mapping[str, Mapping[str, object]], context: int | None) -> None:
    from edgemem.cli.console import console_for, print_table
    from edgemem.commands.fit import HOLDS_FOR
    from edgemem.report.sizes import size_text

    best = made.best
    how = "estimated, not run" if made.measured is None else f"{size_text(made.measured)} measured in a fresh process"
    click.echo(f"context {best.context}, prefill chunk {best.chunk}: {how}, budget {size_text(made.budget)}")
    click.echo(f"caches {made.mode}: {made.reason}")
    click.echo(f"The budget holds for {HOLDS_FOR}.")
    click.echo(
        "Without warm_up, on onnxruntime.InferenceSession or in onnxruntime-genai a process takes more: measure it."
    )
    if made.changed:
        click.echo("These figures are for the file that `edgemem plan --state auto -o PLANNED.onnx` writes.")
        click.echo("A genai_config.json has to name that file as model.decoder.filename.")
    if context is None:
        click.echo(f"The model ran with up to {made.most_context} tokens; give what it was made for with --context.")
    rows = [
        (str(r.chunk), str(r.context), *map(_signed, (r.caches, r.arena, r.logits, r.rest, r.total))) for r in made.rows
    ]
    console = console_for()
    console.print()
    print_table(console, ("chunk", "context", "caches", "arena", "logits", "rest", "in all"), rows)
    click.echo(f"in all: with {size_text(made.opened)} of the process with the session open, weights included")
    click.echo(f"while it is opened: {size_text(made.loading)}; kept free: {size_text(made.margin)} of the budget")
    click.echo("\nfor genai_config.json:")
    for section, entries in values.items():
        for name, value in entries.items():
            click.echo(f"  {section}.{name} = {json.dumps(value)}")


def _signed(size: int) -> str:
    from edgemem.report.sizes import size_text

    return f"-{size_text(-size)}" if size < 0 else size_text(size)
