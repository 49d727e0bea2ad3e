"""Commands on several files: each is worked on in turn, one that fails ends nothing, and a table has them all."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
from rich.cells import cell_len
from rich.table import Table

from edgemem.cli.console import console_for, print_folded
from edgemem.cli.console import progress as progress_line
from edgemem.cli.exit_codes import EXIT_FAILED
from edgemem.cli.failures import REPORTED, failure_of
from edgemem.cli.options import FILE
from edgemem.cli.printable_text import printable
from edgemem.cli.signals import received
from edgemem.system.found_files import MODELS, FoundFile, names_several
from edgemem.system.text import abbreviate, count_text, without_name

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

__all__ = [
    "FileResult",
    "each_file",
    "failure_of_one",
    "output_files",
    "refuse_folder",
    "show_results",
    "the_only_file",
]

_MOST_ERROR: Final = 400  # characters
_GAP: Final = 2  # columns between those of a table
_LEAST_TEXT: Final = 30  # columns that texts are folded to


@dataclass(frozen=True, slots=True)
class FileResult:
    """What came of one file.

    Attributes:
        name: of the file.
        figures: cells of the table, as texts; () if it failed.
        text: what else came of it, or the error.
        code: the exit code that the file would have alone.
        data: for JSON.
    """

    name: str
    figures: tuple[str, ...] = ()
    text: str = ""
    code: int = 0
    data: Mapping[str, Any] = field(default_factory=dict)


def the_only_file(arguments: Sequence[str]) -> Path | None:
    """The file, if the arguments are one that names no folder and no glob. Raises ModelError if it is not there."""
    from edgemem.errors import ModelError

    if len(arguments) != 1 or names_several(arguments[0]):
        return None
    path = Path(arguments[0])
    if not path.exists():
        raise ModelError(f"no file {path}")
    return path


def each_file(
    what: str, files: Sequence[FoundFile], work: Callable[[FoundFile, Path, Callable[[str], None]], FileResult]
) -> tuple[FileResult, ...]:
    """What `work` makes of each file in turn, with its path and a function that says what runs; or its error."""
    results: list[FileResult] = []
    with progress_line(what) as progress:
        for number, file in enumerate(files, 1):
            failed = sum(bool(r.code) for r in results)
            place = f"{count_text(number, len(files), failed)}: {file.name}"

            def say(doing: str, place: str = place) -> None:
                progress(f"{place}, {doing}")

            progress(place)
            if file.path is None:
                results.append(_failed(file.name, file.why_none, EXIT_FAILED))
                continue
            try:
                results.append(work(file, file.path, say))
            except (*REPORTED, click.ClickException) as e:
                message, code = failure_of_one(e)
                results.append(_failed(file.name, without_name(message, file.path), code))
    return tuple(results)


def failure_of_one(error: Exception) -> tuple[str, int]:
    """As `failure_of`, for one file of several; raises the error again where a signal or a closed pipe caused it."""
    if received() or isinstance(error, BrokenPipeError):
        raise error
    return failure_of(error)


def _failed(name: str, message: str, code: int) -> FileResult:
    return FileResult(name, text=message, code=code, data={"error": message})


def output_files(files: Sequence[FoundFile], output: Path) -> dict[FoundFile, Path]:
    """Where each file's plan is written in the folder `output`: under its own name, or .edgemem for usage records.

    Raises UsageError where `output` is or looks like a file, two plans would have the same name, or one would replace
    a file that is planned.
    """
    if output.exists() and not output.is_dir():
        raise click.UsageError(f"-o names a folder where several files are planned, and {output} is a file")
    if not output.exists() and output.suffix.lower() in (*MODELS, ".edgemem"):
        raise click.UsageError(f"-o names a folder where several files are planned, and {output} looks like a file")
    sources = {(s.st_dev, s.st_ino): f.name for f in files if f.path for s in [f.path.stat()]}
    made: dict[Path, FoundFile] = {}
    for file in (f for f in files if f.path):
        is_model = file.inside.suffix.lower() in MODELS
        path = output / (file.inside if is_model else file.inside.with_suffix(".edgemem"))
        if path in made:
            raise click.UsageError(f"{made[path].name} and {file.name} would both be written to {path}")
        if path.exists() and (replaced := sources.get((path.stat().st_dev, path.stat().st_ino))):
            raise click.UsageError(f"the plan of {file.name} would replace {replaced}; give another folder with -o")
        made[path] = file
    return {file: path for path, file in made.items()}


def show_results(headings: Sequence[str], results: Sequence[FileResult], done: str, *, as_json: bool) -> int:
    """Print a table of the results, or JSON; the exit code is the largest of the files'.

    Args:
        headings: of the figures.
        results: of all files.
        done: what became of those that did not fail, such as `planned`.
        as_json: print JSON.
    """
    if as_json:
        click.echo(json.dumps({"files": [{"name": r.name, "error": None, **r.data} for r in results]}))
    else:
        _show_table(headings, results)
        failed = sum(bool(r.code) for r in results)
        click.echo(f"\n{len(results) - failed} of {len(results)} {done}{f', {failed} failed' if failed else ''}")
    return max((r.code for r in results), default=0)


def _show_table(headings: Sequence[str], results: Sequence[FileResult]) -> None:
    """A row a file. Where names and figures leave a terminal no room for texts, these stand below each name."""
    console = console_for()
    rows = [(printable(r.name), *(r.figures or ("",) * len(headings)), _text(r)) for r in results]
    table = Table(box=None, pad_edge=False)
    for number, heading in enumerate(("file", *headings, "result")):
        is_text = number in (0, len(headings) + 1)
        table.add_column(heading, justify="left" if is_text else "right", no_wrap=number <= len(headings))
    for row in rows:
        table.add_row(*row)
    widths = [max(map(cell_len, column)) for column in zip(("", *headings, ""), *rows, strict=True)]
    fixed = sum(widths[:-1]) + _GAP * (len(widths) - 1)
    longest = max((cell_len(word) for row in rows for word in row[-1].split()), default=0)
    if not console.is_terminal:
        console.width = max(console.width, fixed + widths[-1])
    elif fixed + max(longest, min(widths[-1], _LEAST_TEXT)) > console.width:
        for name, *figures, text in rows:
            said = [f"{heading} {cell}" for heading, cell in zip(headings, figures, strict=True) if cell]
            print_folded(console, name)
            print_folded(console, "  " + ", ".join(filter(None, (*said, text))), indent=4)
        return
    console.print(table)


def _text(result: FileResult) -> str:
    return printable(abbreviate(f"FAILED: {result.text}", most=_MOST_ERROR) if result.code else result.text)


def refuse_folder(context: click.Context, name: str, value: Path | None) -> None:
    """Raise BadParameter as for an option of one file, where it is a folder."""
    option = next(p for p in context.command.params if p.name == name)
    if value is not None:
        FILE.convert(str(value), option, context)
