"""`edgemem diff`: how the memory of two models differs, and why."""

from __future__ import annotations

import json
import re
import sys
from fractions import Fraction
from typing import TYPE_CHECKING

import click

from edgemem.cli.exit_codes import EXIT_FAILED
from edgemem.cli.options import FileCommand, bindings

if TYPE_CHECKING:
    from edgemem.difference.comparison import Difference

__all__ = ["diff"]


def _share(_ctx: click.Context, _param: click.Parameter, value: str | None) -> Fraction | None:
    """1/50 from "2%"."""
    if value is None:
        return None
    match = re.fullmatch(r"\s*(\d{1,6}(?:\.\d{1,6})?)\s*%\s*", value)
    if match is None:
        raise click.BadParameter(f"{value!r} is no share, such as 2%")
    return Fraction(match[1]) / 100


@click.command(cls=FileCommand)
@click.argument("before", type=click.Path(dir_okay=False))
@click.argument("after", type=click.Path(dir_okay=False))
@click.option("-t", "--target", metavar="NAME|FILE.toml", help="Plan both for it; see docs/targets.md.")
@bindings
@click.option(
    "--fail-above",
    "most",
    metavar="PERCENT%",
    callback=_share,
    help="Exit with code 1 if the arena grew by more, such as 2%.",
)
@click.option("--top", default=10, show_default=True, type=click.IntRange(min=0), help="Edits and tensors to list.")
@click.option("--markdown", "as_markdown", is_flag=True, help="Print a section for a pull request.")
@click.option("--json", "as_json", is_flag=True, help="Print all as JSON (docs/json.md).")
def diff(
    *,
    before: str,
    after: str,
    target: str | None,
    dims: dict[str, int | str],
    input_shapes: dict[str, tuple[int, ...]],
    most: Fraction | None,
    top: int,
    as_markdown: bool,
    as_json: bool,
) -> None:
    """Compare the memory of two models, plans or reports, and say what made the difference.

    Either may be REV:PATH, a file as a git commit has it. A plan in a file is taken as it is; where there is none, or a
    target or sizes are named, both are planned now.
    """
    from edgemem.cli.console import progress as progress_line
    from edgemem.commands.difference import diff as compare
    from edgemem.difference.text import difference_data, difference_markdown

    with progress_line() as progress:
        found = compare(before, after, target=target, dims=dims, input_shapes=input_shapes, progress=progress)
    if as_json:
        click.echo(json.dumps(difference_data(found)))
    elif as_markdown:
        click.echo(difference_markdown(found, top=top), nl=False)
    else:
        _show(found, top)
    if most is not None and found.exceeds(most):
        limit = f"{float(most):.6%}".rstrip("0%").rstrip(".")
        click.echo(f"edgemem: the arena grew by more than {limit} %", err=True)
        sys.exit(EXIT_FAILED)


def _show(found: Difference, top: int) -> None:
    from edgemem.cli.console import console_for, echo_folded, print_table
    from edgemem.cli.printable_text import printable
    from edgemem.difference.text import change_text, figure_text, headline, peak_line

    echo_folded(headline(found))
    echo_folded(printable(peak_line(found)))
    for title, texts in (
        ("changed in the model", [edit.text for edit in found.edits]),
        ("tensors", [("* " if c.at_peak else "  ") + change_text(c) for c in found.tensors]),
    ):
        if texts and top:
            click.echo(f"\n{title}{' (*: alive at the peak)' if title == 'tensors' else ''}:")
            for text in texts[:top]:
                echo_folded(f"  {printable(text)}", indent=6)
            if len(texts) > top:
                click.echo(f"  and {len(texts) - top:,} more")
    click.echo()
    rows = [(f.name, f"{f.before:,}", f"{f.after:,}", figure_text(f) or "same") for f in found.figures]
    print_table(console_for(), ("<", "before", "after", "change"), rows)
