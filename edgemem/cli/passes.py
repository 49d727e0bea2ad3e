"""The options of `edgemem plan` that change a model before it is planned, and the passes that they ask for."""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from edgemem.model.profiles import PROFILES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["passes_options", "shrinking_options", "wanted_passes"]

_Command = TypeVar("_Command", bound="Callable[..., Any]")
_CHOICES: Final = frozenset({"auto", "head"})  # values of --stream and --tile that leave the stages to the pass


def _states(_ctx: click.Context, _param: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    pairs = {}
    for value in values:
        past, _, present = value.partition("=")
        if value != "auto" and (not past or not present):
            raise click.BadParameter(f"{value!r} is not PAST=PRESENT, nor `auto`")
        pairs[past] = present
    return pairs


def _finite(_ctx: click.Context, _param: click.Parameter, value: float | None) -> float | None:
    if value is not None and not isfinite(value):
        raise click.BadParameter(f"{value} is no ratio; leave the option out for no limit")
    return value


def passes_options(command: _Command) -> _Command:
    """The options of passes, given to the command as `states` (input -> output), `fold`, `order` and `optimize`."""
    state = click.option(
        "--state",
        "states",
        multiple=True,
        metavar="PAST=PRESENT",
        callback=_states,
        help="Keep a decoder's cache in one buffer: past_key_values.*=present.*; `auto` finds all. Repeatable.",
    )
    fold = click.option("--fold", is_flag=True, help="Store float16 and sparse constants of a TFLite file plain.")
    order = click.option(
        "--order",
        metavar="METHOD",
        help="Run operators in the order with the lowest peak that is found: auto (the best of all methods), one "
        "method (see `edgemem strategies`), or given (the order of the file). For ONNX it implies --optimize, at the "
        "level with the lowest peak.",
    )
    optimize = click.option(
        "--optimize",
        type=click.Choice(["none", "basic", "extended", "all"]),
        help="Plan and write ONNX Runtime's optimised graph of this level; an order of ONNX holds only there.",
    )
    return state(fold(order(optimize(command))))


def shrinking_options(command: _Command) -> _Command:
    """The options that go below the classical bound, given to the command by the names of `wanted_passes`."""
    overlap = click.option(
        "--overlap",
        type=click.Choice(PROFILES),
        help="Let results overlap inputs as far as the kernels of this library allow; the plan holds for them alone.",
    )
    stream = click.option(
        "--stream",
        metavar="auto|head|FIRST:LAST:STRIPES,...",
        help="Run layers of a TFLite model in stripes of rows. auto: the least arena (head and tail); head: the least "
        "head; or operators FIRST to LAST in so many stripes.",
    )
    tile = click.option(
        "--tile",
        metavar="auto|FIRST:LAST:ROWSxCOLUMNS,...",
        help="Run layers of an ONNX model in tiles that compute their edges again. Operators are those of --optimize "
        "extended; the result is optimised to the level all, or to that of --optimize.",
    )
    recompute = click.option(
        "--recompute",
        type=click.Choice(["auto", "only"]),
        help="Run operators again, so that their results need not stay in memory. auto: the cheapest mixture of an "
        "order, tiles (ONNX) or stripes (TFLite) and recomputation within --budget, or the lowest peak; only: without "
        "what is not asked for besides.",
    )
    max_ops = click.option("--max-ops", type=click.IntRange(min=1), help="Most operators that --stream may give.")
    growth = click.option(
        "--max-file-growth",
        type=click.FloatRange(min=1),
        callback=_finite,
        metavar="RATIO",
        help="Largest file that --stream may give, without the plan, such as 1.05 times the file.",
    )
    macs = click.option(
        "--max-macs",
        type=click.FloatRange(min=1),
        callback=_finite,
        metavar="RATIO",
        help="Most arithmetic that --tile or --recompute may give, as a multiple.  [default: 1.15; --recompute: 1.25]",
    )
    differ = click.option(
        "--allow-numeric-difference",
        "allow_difference",
        is_flag=True,
        help="Write a tiled or streamed model, too, whose outputs differ in the last bits.",
    )
    return overlap(stream(tile(recompute(max_ops(growth(macs(differ(command))))))))


def wanted_passes(
    options: Mapping[str, Any],
    budget: int | None,
    threads: int | None = None,
    searches: Mapping[str, str | float | None] | None = None,
) -> dict[str, dict[str, str]]:
    """The options of the passes that a user asked for, by the name of the pass.

    Args:
        options: what `passes_options` and `shrinking_options` give.
        budget: bytes that the arena should not exceed, or None.
        threads: of one operator, with which a tiled model is to give the same outputs; None: a session's by default.
        searches: `effort`, `seed` and `time_limit` of the search for an order; None is each solver's own.

    Raises UsageError for options that contradict each other.
    """
    if options["states"] and options["optimize"]:
        raise click.UsageError("--state keeps the model's dimensions open, and --optimize fixes them: give one of them")
    recomputes = options["recompute"] is not None
    for name, needed in (("max_ops", "stream"), ("max_file_growth", "stream"), ("max_macs", "tile")):
        if not options[name] or (name == "max_macs" and recomputes):
            continue
        option = f"--{name.replace('_', '-')}"
        if options[needed] is None:
            also = " or --recompute" if name == "max_macs" else ""
            raise click.UsageError(f"{option} is a limit of --{needed}{also}, which is not given")
        if options[needed] not in _CHOICES:
            raise click.UsageError(
                f"{option} limits stages that --{needed} chooses itself; leave it out with stages given by hand, or "
                f"give --{needed} auto"
            )
    if options["allow_difference"] and options["tile"] is None and options["stream"] is None and not recomputes:
        raise click.UsageError("--allow-numeric-difference is for --tile, --stream and --recompute; none is given")
    wanted: dict[str, dict[str, str]] = {"fold": {}} if options["fold"] else {}
    given = {name: str(value) for name, value in (searches or {}).items() if value is not None}
    if options["order"] is not None:
        limit = {} if budget is None else {"budget": str(budget)}
        wanted["order"] = {"method": options["order"], **given, **limit}
    if options["optimize"]:
        wanted["optimize"] = {"level": options["optimize"]}
    if options["states"]:
        wanted["state"] = options["states"]
    both = {"budget": budget, "allow_difference": "yes" if options["allow_difference"] else None}
    limits = {
        "stream": {"max_ops": options["max_ops"], "max_file_growth": options["max_file_growth"], **both},
        "tile": {"max_macs": options["max_macs"], "threads": threads, **both},
    }
    for name, limit in limits.items():
        if options[name] is not None:
            told = {key: str(value) for key, value in limit.items() if value is not None}
            wanted[name] = {"stages": options[name], **told}
    if recomputes:
        told = {key: str(value) for key, value in limits["tile"].items() if value is not None}
        wanted["recompute"] = {"means": options["recompute"], **told, **given}
    return wanted
