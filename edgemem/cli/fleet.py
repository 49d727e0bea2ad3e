"""Commands on several models: each runs in a process of its own, one that fails ends nothing, and a table has them all.

`edgemem plan FOLDER` and its like come here, with `--jobs` on threads, with `--scheduler` on a Dask cluster; what runs
are the tasks of `edgemem.fleet`.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from edgemem.cli.options import FileCommand, parsed_size
from edgemem.fleet import RESULTS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from edgemem.fleet.sources import FleetModel
    from edgemem.fleet.task import FleetRow, Task

__all__ = ["FleetCommand"]

_MODELS: Final = (".onnx", ".tflite")
_SWEPT: Final = ("dims", "target", "budget")  # options whose values may be several
_LIMIT_S: Final = 3600.0


def _options(*, has_output: bool) -> list[click.Parameter]:
    more: dict[str, Any] = {"expose_value": False}
    made: list[click.Parameter] = [
        click.Option(
            ["--jobs"], type=click.IntRange(1, 1024), metavar="N", help="Models at once.  [default: 1]", **more
        ),
        click.Option(
            ["--scheduler"], metavar="ADDRESS", help="Run on a Dask cluster, such as tcp://host:8786.", **more
        ),
        click.Option(
            ["--cache"],
            metavar="FOLDER|URL|none",
            help="Where rows of models are kept.  [default: fleet in $EDGEMEM_CACHE or in the user's caches]",
            **more,
        ),
        click.Option(
            ["--limit-memory"],
            metavar="SIZE",
            callback=parsed_size,
            help="That each of several models may take, such as 4GiB.",
            **more,
        ),
        click.Option(
            ["--limit-time"],
            type=click.FloatRange(min=0, min_open=True),
            metavar="SECONDS",
            help=f"That each of several models may take.  [default: {_LIMIT_S:g}]",
            **more,
        ),
    ]
    if not has_output:
        made.insert(0, click.Option(["-o", "--output"], metavar="RESULTS", help="Write a row a model.", **more))
    return made


@dataclass(frozen=True, slots=True)
class _Run:
    """What the command line asks for.

    Attributes:
        sources: files, folders, globs and URLs.
        points: of a sweep, the arguments that others do not have as text, and all arguments; one without a sweep.
        output: a file of results, or a folder of what the command writes; None for neither.
        values: of the options of fleets, by name.
        as_json: print JSON.
    """

    sources: tuple[str, ...]
    points: tuple[tuple[str, tuple[str, ...]], ...]
    output: str | None
    values: Mapping[str, Any]
    as_json: bool

    @property
    def results(self) -> str | None:
        """The file of results; None without one."""
        return self.output if self.output is not None and self.output.lower().endswith(RESULTS) else None

    @property
    def shown_output(self) -> str | None:
        """`output` without what a URL has of users."""
        from edgemem.fleet.secrets import is_url, public_name

        return public_name(self.output) if self.output is not None and is_url(self.output) else self.output


class FleetCommand(FileCommand):
    """A command on one model that takes several, too."""

    def __init__(
        self,
        *arguments: Any,
        doing: str,
        done: str,
        suffixes: Sequence[str] = _MODELS,
        alone: Sequence[str] = (),
        is_pure: bool = True,
        **options: Any,
    ) -> None:
        """A command of click.

        `doing` and `done` say what becomes of a model, such as `planning` and `planned`; a folder is searched for files
        with these `suffixes`, in lower case; parameters named in `alone` belong to one model; the row of a command that
        `is_pure` depends on the model and the options alone, and is cached.
        """
        super().__init__(*arguments, **options)
        self.doing, self.done, self.suffixes, self.is_pure = doing, done, suffixes, is_pure
        self._alone = alone
        self._has_output = any(p.name == "output" for p in self.params)
        own = _options(has_output=self._has_output)
        self._own = {p.name or "": p for p in own}
        self.params += own

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, is_own in (("Options", False), ("Options for several models", True)):
            params = [p for p in self.get_params(ctx) if (p.name in self._own) is is_own]
            with formatter.section(title):
                formatter.write_dl([record for p in params if (record := p.get_help_record(ctx)) is not None])

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        run = None if ctx.resilient_parsing else self._run_of(ctx, list(args))
        if run is None:
            return super().parse_args(ctx, args)
        ctx.obj = run
        return []

    def invoke(self, ctx: click.Context) -> Any:
        run = ctx.obj
        return self._run_all(ctx, run) if isinstance(run, _Run) else super().invoke(ctx)

    def _run_of(self, ctx: click.Context, args: list[str]) -> _Run | None:
        """What is to be run on several models; None where the command runs on one by itself."""
        from edgemem.fleet.secrets import is_url
        from edgemem.system.found_files import names_several

        given, rest, _ = self.make_parser(ctx).parse_args(args=args)
        argument = next(p for p in self.params if isinstance(p, click.Argument))
        first = given.pop(argument.name or "", ())
        sources = (*((first,) if isinstance(first, str) else ()), *rest)
        if not sources or given.get("help"):
            return None
        points = tuple(self._points(given))
        output = given.get("output")
        run = _Run(sources, points, output, {}, bool(given.get("as_json")))  # the values are not converted yet
        asked = any(name in given for name in self._own) or run.results is not None
        one = sources[0]
        if len(sources) == 1 and len(points) == 1 and not asked and not is_url(one) and not names_several(one):
            return None
        self._check(run, given)
        for _, arguments in points:  # errors of usage come before any model is worked on
            super().parse_args(click.Context(self, ctx.parent, ctx.info_name), [*arguments, "--", "model"])
        values = {name: param.process_value(ctx, given.get(name)) for name, param in self._own.items()}
        return _Run(sources, points, output, values, run.as_json)

    def _check(self, run: _Run, given: Mapping[str, Any]) -> None:
        """Raise UsageError for options that do not go together."""
        from edgemem.fleet.secrets import is_url

        for param in self.params:
            if param.name in self._alone and given.get(param.name):
                raise click.UsageError(f"{param.opts[0]} belongs to one model, and several are given")
        if run.output is None or run.results is not None:
            return
        if not self._has_output or is_url(run.output):
            raise click.UsageError(f"-o names a file of results, such as results.parquet; {run.shown_output} is none")
        if len(run.points) > 1:
            raise click.UsageError(
                "several values of --dim, --target and --budget give rows and no models: -o FILE.csv"
            )

    def _points(self, given: Mapping[str, Any]) -> Iterator[tuple[str, tuple[str, ...]]]:
        """The points of a sweep, as `_Run` has them; without models and the options of fleets."""
        fixed: list[str] = []
        choices: list[list[tuple[str, str]]] = []
        for param in self.params:
            if not isinstance(param, click.Option) or param.name not in given or param.name in self._own:
                continue
            if param.name in ("output", "as_json"):
                continue
            value = given[param.name]
            if param.is_flag:
                if param.is_bool_flag:
                    fixed.append(param.opts[0] if value else param.secondary_opts[0])
                elif value == param.flag_value:
                    fixed.append(param.opts[0])
                continue
            for text in value if param.multiple else (value,):
                several = _several(param.name, text)
                if len(several) > 1:
                    choices.append([(param.opts[-1], one) for one in several])
                else:
                    fixed += [param.opts[-1], text]
        for chosen in itertools.product(*choices):
            flat = list(itertools.chain.from_iterable(chosen))
            yield " ".join(flat), (*fixed, *flat)

    def _run_all(self, ctx: click.Context, run: _Run) -> Any:
        from edgemem.cli.fleet_view import FleetView
        from edgemem.fleet.executors import open_executor, rows_of
        from edgemem.fleet.results import check_writable, write_results
        from edgemem.fleet.sources import find_sources

        if run.results is not None:
            check_writable(run.results)
        folder = Path(run.output) if run.output is not None and run.results is None else None
        sources = find_sources(run.sources, self.suffixes, folder)
        outputs = _output_files(sources, folder) if folder is not None else {}
        tasks, rows = self._tasks(run, sources, outputs)
        with FleetView(self.name or "", self.doing, self.done, rows) as view:
            if tasks:
                with open_executor(run.values["jobs"] or 1, run.values["scheduler"]) as executor:
                    for number, row in rows_of([task for _, task in tasks], executor):
                        rows[tasks[number][0]] = row
                        view.show(row)
        made = [row for row in rows if row is not None]
        if run.results is not None:
            write_results(run.results, made)
        if run.as_json:
            view.print_json(made, outputs)
        else:
            view.print_table(made, run.shown_output, is_short=run.results is not None)
        return ctx.exit(max((row.code for row in made), default=0))

    def _tasks(
        self, run: _Run, sources: Sequence[FleetModel], outputs: Mapping[str, Path]
    ) -> tuple[list[tuple[int, Task]], list[FleetRow | None]]:
        """The tasks with the numbers of their rows, and the rows: of models that are not there, and None."""
        from edgemem.cli.exit_codes import EXIT_FAILED
        from edgemem.fleet.task import FleetRow, Task

        cache = self._cache(run.values["cache"]) if self.is_pure else ""
        limit_s = run.values["limit_time"] or _LIMIT_S
        tasks: list[tuple[int, Task]] = []
        rows: list[FleetRow | None] = []
        for source, (label, arguments) in itertools.product(sources, run.points):
            if not source.location:
                rows.append(FleetRow(source.name, label, status="no file", message=source.why_none, code=EXIT_FAILED))
                continue
            output = outputs.get(source.location)
            task = Task(
                source.name,
                source.location,
                self.name or "",
                arguments,
                label,
                folder=str(Path.cwd()),
                cache=cache,
                output="" if output is None else str(output.absolute()),
                memory=run.values["limit_memory"],
                limit_s=limit_s,
                with_document=run.as_json,
            )
            tasks.append((len(rows), task))
            rows.append(None)
        return tasks, rows

    @staticmethod
    def _cache(given: str | None) -> str:
        from edgemem.fleet.secrets import is_url
        from edgemem.system.caches import cache_folder

        if given is None:
            return str(cache_folder("fleet") or "")
        return "" if given == "none" else given if is_url(given) else str(Path(given).absolute())


def _several(name: str | None, text: str) -> list[str]:
    """The values of an option that may have several, separated by commas."""
    if name not in _SWEPT or "," not in text or Path(text).is_file():
        return [text]
    if name != "dims":
        return [part.strip() for part in text.split(",")]
    dim, _, values = text.rpartition("=")
    return [f"{dim}={value}" for value in values.split(",")]


def _output_files(sources: Sequence[FleetModel], output: Path) -> dict[str, Path]:
    """Where what is made of each model is written in the folder `output`: under its own name, or as .edgemem.

    Raises UsageError where `output` is or looks like a file, two would have the same name, or one would replace a file
    that is read.
    """
    if output.exists() and not output.is_dir():
        raise click.UsageError(f"-o names a folder where several models are given, and {output} is a file")
    if not output.exists() and output.suffix.lower() in (*_MODELS, ".edgemem"):
        raise click.UsageError(f"-o names a folder where several models are given, and {output} looks like a file")
    named = [source for source in sources if source.location]
    read = {_file_number(Path(s.location)): s.name for s in named if Path(s.location).exists()}
    made: dict[Path, FleetModel] = {}
    for source in named:
        is_model = source.inside.suffix.lower() in _MODELS
        path = output / (source.inside if is_model else source.inside.with_suffix(".edgemem"))
        if path in made:
            raise click.UsageError(f"{made[path].name} and {source.name} would both be written to {path}")
        if path.exists() and (replaced := read.get(_file_number(path))):
            raise click.UsageError(f"the result of {source.name} would replace {replaced}; give another folder with -o")
        made[path] = source
    for path in made:
        path.parent.mkdir(parents=True, exist_ok=True)
    return {source.location: path for path, source in made.items()}


def _file_number(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_dev, status.st_ino
