"""Options that several commands share, and how their text is read."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from edgemem.cli.examples import EXAMPLES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numpy.typing import NDArray

    from edgemem.model.ranges import Dimension

__all__ = [
    "FILE",
    "FileCommand",
    "bindings",
    "feeds",
    "inputs_option",
    "limits_options",
    "parse_files",
    "parse_pairs",
    "parsed_size",
    "range_bindings",
    "shape_option",
    "strategy_option",
    "timeout_option",
    "write_examples",
]


FILE = click.Path(dir_okay=False, path_type=Path)


class FileCommand(click.Command):
    """A command whose arguments of the type FILE have to be there, and whose help ends with examples."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        write_examples(ctx, formatter)

    def invoke(self, ctx: click.Context) -> Any:
        from edgemem.errors import ModelError

        for parameter in self.params:
            given = ctx.params.get(parameter.name or "") if parameter.type is FILE else None
            if isinstance(parameter, click.Argument) and given is not None:
                for path in given if isinstance(given, tuple) else (given,):
                    if not path.exists():
                        raise ModelError(f"no file {path}")
        return super().invoke(ctx)


def write_examples(ctx: click.Context, formatter: click.HelpFormatter) -> None:
    """The examples of a command behind its options."""
    name = ctx.command_path.partition(" ")[2] or ctx.info_name or ""
    if name in EXAMPLES:
        with formatter.section("Examples"):
            for example in EXAMPLES[name]:
                formatter.write_text(example)


_Command = TypeVar("_Command", bound="Callable[..., Any]")
_Value = TypeVar("_Value")


def parse_pairs(values: Iterable[str], form: str, parse: Callable[[str], _Value | None]) -> list[tuple[str, _Value]]:
    """The names and values of texts NAME=VALUE. `parse` gives None for a text that is none of `form`."""
    pairs = []
    for value in values:
        name, _, text = value.rpartition("=")
        made = parse(text) if name else None
        if made is None:
            raise click.BadParameter(f"{value!r} is not {form}")
        pairs.append((name, made))
    return pairs


def _dims(_ctx: click.Context, _param: click.Parameter, values: tuple[str, ...]) -> dict[str, int]:
    form = "NAME=VALUE with a whole number"
    return dict(parse_pairs(values, form, lambda text: int(text) if text.isdecimal() else None))


def _dims_or_ranges(
    _ctx: click.Context, _param: click.Parameter, values: tuple[str, ...]
) -> dict[str, int | Dimension]:
    from edgemem.errors import ModelError
    from edgemem.model.ranges import parse_dimension

    def parse(text: str) -> int | Dimension | None:
        try:
            return parse_dimension(text)
        except ModelError:
            return None

    form = "NAME=VALUE with a whole number, a range LOW..HIGH, or a sum such as past+1"
    return dict(parse_pairs(values, form, parse))


def _shapes(_ctx: click.Context, _param: click.Parameter, values: tuple[str, ...]) -> dict[str, tuple[int, ...]]:
    def parse(text: str) -> tuple[int, ...] | None:
        sizes = [part.strip() for part in text.split(",")] if text else []
        return tuple(map(int, sizes)) if all(size.isdecimal() for size in sizes) else None

    return dict(parse_pairs(values, "INPUT=D0,D1,... with whole numbers", parse))


def parse_files(values: Iterable[str]) -> list[tuple[str, Path]]:
    """The inputs and their files of texts INPUT=FILE.npy."""
    return parse_pairs(values, "INPUT=FILE.npy", lambda text: Path(text) if text else None)


def _files(_ctx: click.Context, _param: click.Parameter, values: tuple[str, ...]) -> dict[str, Path]:
    return dict(parse_files(values))


def parsed_size(_ctx: click.Context, _param: click.Parameter, value: str | None) -> int | None:
    """Bytes from "256KiB" and its like."""
    from edgemem.errors import PlanError
    from edgemem.targets import parse_size

    try:
        return None if value is None else parse_size(value)
    except PlanError as e:
        raise click.BadParameter(str(e)) from None


def bindings(command: _Command) -> _Command:
    """`--dim` and `--input-shape`, given to the command as `dims` and `input_shapes`."""
    dim = click.option(
        "--dim", "dims", multiple=True, metavar="NAME=VALUE", callback=_dims, help="Bind a dimension; repeatable."
    )
    return dim(shape_option(command))


def range_bindings(command: _Command) -> _Command:
    """As `bindings`, where a dimension may have a range of values, too."""
    dim = click.option(
        "--dim",
        "dims",
        multiple=True,
        metavar="NAME=VALUE|LOW..HIGH",
        callback=_dims_or_ranges,
        help="Bind a dimension to a number, a range, or a sum of others such as past+1; repeatable.",
    )
    return dim(shape_option(command))


def shape_option(command: _Command) -> _Command:
    """`--input-shape`, given to the command as `input_shapes`."""
    shape = click.option(
        "--input-shape",
        "input_shapes",
        multiple=True,
        metavar="INPUT=D0,D1,...",
        callback=_shapes,
        help="Bind an input's shape; repeatable.",
    )
    return shape(command)


def strategy_option(command: _Command) -> _Command:
    """The option --strategy, given to the command as `strategy`: a tuple of names, () for the default."""
    return click.option(
        "-s",
        "--strategy",
        "strategy",
        multiple=True,
        metavar="NAME",
        help="auto (default), or [FAMILY/]NAME[:OPTION=VALUE,...]; repeatable. See `edgemem strategies`.",
    )(command)


def limits_options(command: _Command) -> _Command:
    """`--effort`, `--time-limit` and `--threads`, given to the command as they are called; None if absent."""
    effort = click.option(
        "--effort",
        type=click.Choice(["fast", "default", "max"]),
        help="Work of every search, the same on every machine; auto tries fast first, then default.",
    )
    limit = click.option(
        "--time-limit",
        type=click.FloatRange(min=0),
        metavar="SECONDS",
        help="Stop making plans after SECONDS; the results then depend on the machine.",
    )
    threads = click.option(
        "--threads",
        type=click.IntRange(1, 256),
        help="Of every search (default 1), and of the recorded run (--record; default: as a session has them).",
    )
    return effort(limit(threads(command)))


def inputs_option(command: _Command) -> _Command:
    """`--input`, given to the command as `inputs`: name -> .npy file."""
    return click.option(
        "--input",
        "inputs",
        multiple=True,
        metavar="INPUT=FILE.npy",
        callback=_files,
        help="Feed an input from a file; made up where none is given. Repeatable.",
    )(command)


def timeout_option(what: str, default: str = "600") -> Callable[[_Command], _Command]:
    """`--timeout`, given to the command as `timeout`: seconds, or None; `what` says what it ends."""
    return click.option(
        "--timeout",
        type=click.FloatRange(min=0, min_open=True),
        metavar="SECONDS",
        help=f"{what}  [default: {default}]",
    )


def feeds(inputs: dict[str, Path]) -> dict[str, NDArray[Any]] | None:
    """The arrays in the files; None for no files. Raises ModelError for a file that holds none."""
    from edgemem.errors import ModelError
    from edgemem.system.array_file import read_array

    made = {}
    for name, file in inputs.items():
        try:
            made[name] = read_array(file)
        except OSError as e:
            raise ModelError(f"cannot read input {name!r} from {file}: {e.strerror or e}") from None
        except ValueError as e:
            raise ModelError(f"cannot read input {name!r} from {file}: {e}") from None
    return made or None
