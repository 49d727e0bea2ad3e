"""`edgemem check`: budgets and baselines of a repository's models, for CI."""

from __future__ import annotations

import json
import os
import secrets
import sys
from pathlib import Path

import click

from edgemem.cli.exit_codes import EXIT_FAILED
from edgemem.cli.fleet import FleetCommand
from edgemem.cli.options import FILE

__all__ = ["check"]


@click.command(
    cls=FleetCommand,
    doing="checking",
    done="right",
    suffixes=(".toml",),
    is_pure=False,
    alone=("update", "baseline", "as_markdown", "as_github", "junit"),
)
@click.argument("settings", type=FILE)
@click.option("--update", is_flag=True, help="Write what the models take now as their baseline.")
@click.option("--baseline", type=FILE, help="The file of baselines; by default, the one beside SETTINGS.")
@click.option("--markdown", "as_markdown", is_flag=True, help="Print a table for a pull request.")
@click.option(
    "--github",
    "as_github",
    is_flag=True,
    help="For GitHub Actions: print annotations, too, and add the table to the summary ($GITHUB_STEP_SUMMARY).",
)
@click.option("--junit", type=FILE, help="Write the results as JUnit XML, too.")
@click.option("--json", "as_json", is_flag=True, help="Print all as JSON (docs/json.md).")
def check(
    *,
    settings: Path,
    update: bool,
    baseline: Path | None,
    as_markdown: bool,
    as_github: bool,
    junit: Path | None,
    as_json: bool,
) -> None:
    """Check the memory of a repository's models against budgets and a baseline: exit code 1 if one takes too much.

    SETTINGS is a TOML file that names the models (docs/compare.md). One that cannot be planned fails and ends nothing.
    """
    from edgemem.cli.console import echo_folded
    from edgemem.cli.console import progress as progress_line
    from edgemem.cli.printable_text import printable
    from edgemem.guard import text
    from edgemem.guard.check import check as check_models
    from edgemem.system.files import atomic_write

    with progress_line() as progress:
        found = check_models(settings, update=update, baseline=baseline, progress=progress)
    if junit is not None:
        with atomic_write(junit) as file:
            file.write(text.junit_xml(found).encode())
    token = secrets.token_hex(16) if as_github and not as_json else ""
    if token:  # until this text comes again, no line is a command to GitHub, whatever the names in it are
        click.echo(f"::stop-commands::{token}")
    if as_json:
        click.echo(json.dumps(text.check_data(found)))
    elif as_markdown:
        click.echo(text.check_markdown(found), nl=False)
    else:
        for model in found.models:
            echo_folded(printable(text.model_line(model)), indent=6)
        for name in found.gone:
            echo_folded(printable(f"gone  {name}: it is in the baseline and no longer there"), indent=6)
    if token:
        click.echo(f"::{token}::")
    if as_github:
        for line in text.github_lines(found):
            click.echo(line, err=as_json)
        summary = os.environ.get("GITHUB_STEP_SUMMARY")
        if summary:
            with Path(summary).open("a", encoding="utf-8") as file:
                file.write(text.check_markdown(found))
    sys.exit(0 if found.is_right else EXIT_FAILED)
