"""What `shrink` prints: the answer first, then the candidates, and the commands that make those that were tried."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import asdict, dataclass
from math import inf
from typing import TYPE_CHECKING, Any, Final

from edgemem.cli.console import live_table
from edgemem.model.profiles import VERSIONS
from edgemem.report.sizes import size_text
from edgemem.shrinking.candidate import describe_outputs, thinned

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from edgemem.formats import Model
    from edgemem.shrinking.candidate import Candidate, CandidateLimits
    from edgemem.shrinking.result import Found, Progress, StepEffect

__all__ = ["Rows", "answer_lines", "found_data", "live_progress", "place_text", "rows_of", "step_lines", "table_lines"]

_ROWS: Final = 8
_RATIO: Final = 1.05  # a saving below it is told in bytes
_ROUNDED: Final = 32  # bytes at most that rounding adds to a head and a tail
_COLUMNS: Final = ("", "memory", "of it", "arithmetic", "operators", "time")
_WORDS: Final = {
    "stream": "stripes",
    "tile": "tiles",
    "split": "parts",
    "fold": "plain constants",
    "recompute": "recomputation",
}
# What the memory of a target is, what the time of a run is compared with, and what else holds.
_RUNTIMES: Final = {
    "tflm": ("TensorFlow Lite Micro's arena", "of the original there", ""),
    "litert": (
        "LiteRT's arena",
        "of LiteRT's default kernels",
        "run it with builtin kernels, in stock LiteRT or edgemem.Interpreter: XNNPACK has memory of its own",
    ),
    "generic": ("the arena of an ONNX Runtime session", "of a default session", ""),
    "onnxruntime": ("the arena of an ONNX Runtime session", "of a default session", ""),
}


@dataclass(frozen=True, slots=True)
class Rows:
    """What is shown of a search.

    Attributes:
        columns: headings.
        cells: a row each.
        commands: the command that makes each row; "" for a candidate that was not tried, and may be refused.
    """

    columns: tuple[str, ...]
    cells: tuple[tuple[str, ...], ...]
    commands: tuple[str, ...]


def answer_lines(found: Found, limits: CandidateLimits) -> list[str]:
    """Whether a budget can be met, with what, and what it costs; a line each."""
    best = found.best
    if best is None:
        lines = [f"does not fit: {found.explanation}"]
    else:
        where, today, also = _RUNTIMES.get(best.target.name, (f"the target {best.target.name}", "of the original", ""))
        parts = [f"arithmetic {best.macs:.3f}x"]
        if best.latency is not None:
            parts.append(f"{best.latency:.2f}x the time {today}")
        more = best.operators - found.candidates[0].operators
        if more:
            parts.append(f"{abs(more):,} {'more' if more > 0 else 'fewer'} operators")
        lines = [f"{_headline(best, found, limits)}, {', '.join(parts)}"]
        said = "measured" if best.is_measured else "planned"
        how = f" ({_head_and_tail(best, said)})" if best.tail else f", {said}"
        outputs = describe_outputs(best.outputs, best.target.name) if best.steps else "the model is as it was"
        lines.append(f"{best.memory:,} bytes of {where}{how}; {outputs}")
        check = best.tail_check
        if check is not None and not check.is_near:
            lines.append(
                f"the tail is uncertain: {check.predicted:,} bytes were predicted for this computer, "
                f"{check.measured:,} measured"
            )
        lines += [also] if also else []
        if best.kernels != "none":
            lines.append(f"it holds for the kernels of {best.kernels} alone: {VERSIONS[best.kernels]}")
        if found.explanation:
            lines.append(f"in {_RUNTIMES['tflm'][0]}: {found.explanation}")
    if found.ranges and best is not None:
        sizes = ", ".join(f"{name}={made}" for name, made in found.ranges.items())
        lines.append(f"for all sizes of {sizes} in one file; memory, arithmetic and time are of the largest")
        lines += [f"left out: {reason}" for reason in found.refusals]
    lines += [f"shrink made this model with {note}" for note in found.notes]
    hint = _overlap_hint(found, limits)
    return [*lines, *([hint] if hint else [])]


def _head_and_tail(best: Candidate, said: str) -> str:
    device = f"a {8 * best.target.pointer_bytes}-bit device"
    here = f"; {best.tail_check.measured:,} measured here on 64 bits" if best.tail_check is not None else ""
    before = "" if best.memory < best.arena + best.tail + _ROUNDED else "; it is prepared in more than they take"
    return f"head {best.arena:,} {said}, tail {best.tail:,} predicted for {device}{here}{before}"


def place_text(model: Model) -> str:
    """The end of a line, where a model runs on this processor and in this version of ONNX Runtime alone; else ""."""
    from edgemem.runtime.onnxruntime.baked_file import baked_note

    note = baked_note(model.content()) if ".onnx" in model.suffixes else None
    if note is None:
        return ""
    return f"; the file is for this processor and onnxruntime {note.onnxruntime} alone: elsewhere run shrink again"


def step_lines(effects: Sequence[StepEffect]) -> list[str]:
    """What each of several steps did to the lower bound of the memory, in one line."""
    if len(effects) < 2:
        return []
    words = [f"{_WORDS.get(name := e.step.partition('=')[0], name)} -> {size_text(e.after)}" for e in effects]
    return [f"by step: {size_text(effects[0].before)}, {', '.join(words)}"]


def _headline(best: Candidate, found: Found, limits: CandidateLimits) -> str:
    took = size_text(best.memory)
    if limits.budget is not None:
        return f"fits: {took} of {size_text(limits.budget)} with {_ways(best)}"
    first = found.candidates[0]
    if not best.steps:
        return f"least: {took}, no change within the limits saves memory"
    ratio = first.memory / max(best.memory, 1)
    less = "no less memory"
    if best.memory < first.memory:
        less = f"{ratio:.2g}x less" if ratio >= _RATIO else f"{first.memory - best.memory:,} bytes less"
    than = f" than with {_ways(first)} alone," if first.kernels != "none" else ""
    least = min((c for c in found.front if c.is_planned), key=lambda c: c.memory, default=best)
    if least.memory >= best.memory:
        return f"least: {took}, {less}{than} with {_ways(best)}"
    planned = f"(least planned: {size_text(least.memory)} with {_ways(least)})"
    return f"chosen: {took}, {less}{than} with {_ways(best)} {planned}"


def _ways(candidate: Candidate) -> str:
    names = [_WORDS.get(step.name, step.name) for step in candidate.steps]
    names += ["overlap"] if candidate.kernels != "none" else []
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1]))) if names else "no change"


def _overlap_hint(found: Found, limits: CandidateLimits) -> str:
    """What results that overlap inputs would save, where the user has not named the kernel library."""
    if not found.overlapping:
        return ""
    least = found.overlapping[-1]
    if limits.budget is not None:
        least = next((c for c in found.overlapping if c.memory <= limits.budget), least)
    known = found.best.memory if found.best is not None else found.front[-1].memory if found.front else inf
    if least.memory >= known or (found.best is not None and limits.budget is not None):
        return ""
    return (
        f"if the device runs the kernels of {least.kernels}, {size_text(least.memory)} are enough: add "
        f"--kernels {least.kernels}"
    )


def rows_of(found: Found, limits: CandidateLimits) -> Rows:
    """The candidates worth choosing, the cheapest first, at most eight and the chosen one among them."""
    shown = [c for c in found.front if found.best is None or c.text != found.best.text]
    nearest = () if found.best is not None or limits.budget is None else tuple(found.front[-1:])
    front = (
        list(found.front) if found.best is None else sorted([*shown, found.best], key=lambda c: (c.price, -c.memory))
    )
    chosen = thinned(front, _ROWS, found.best, found.knee, *nearest)
    first = found.candidates[0].memory or 1
    cells = []
    for number, c in enumerate(chosen, 1):
        mark = "*" if c is found.best else "knee" if c is found.knee else ""
        memory = f"{c.memory:,}" if c.is_planned else f">= {c.memory:,}"
        time = "" if c.latency is None else f"{c.latency:.2f}x"
        row = (f"{number}{mark and ' ' + mark}", memory, f"{c.memory / first:.3f}x", f"{c.macs:.3f}x")
        cells.append((*row, f"{c.operators:,}", time))
    return Rows(_COLUMNS, tuple(cells), tuple(found.command(c) if c.is_tried else "" for c in chosen))


def table_lines(rows: Rows) -> list[str]:
    """The table as lines of plain text, and the command of each row that was tried."""
    widths = [max(map(len, column)) for column in zip(rows.columns, *rows.cells, strict=True)]
    table = [
        "  ".join(cell.rjust(w) for cell, w in zip(row, widths, strict=True)) for row in (rows.columns, *rows.cells)
    ]
    commands = [f"{number}: {command}" for number, command in enumerate(rows.commands, 1) if command]
    others = ["the others were planned, not tried: --budget SIZE tries them"] if "" in rows.commands else []
    return [*table, "", *commands, *others]


@contextmanager
def live_progress(limits: CandidateLimits) -> Iterator[Callable[[Progress], None] | None]:
    """Shows what a search found so far, on stderr; None unless that is a terminal."""
    with live_table() as show:
        if show is None:
            yield None
            return

        def update(progress: Progress) -> None:
            rows = rows_of(progress.found, limits) if progress.found.front else None
            show(f"shrinking: {progress}", table_lines(rows)[: len(rows.cells) + 1] if rows else [])

        yield update


def found_data(found: Found) -> dict[str, Any]:
    """What a search found, for JSON."""
    return {
        "best": None if found.best is None else _data(found.best, found),
        "front": [_data(c, found) for c in found.front],
        "overlapping": [_data(c, found) for c in found.overlapping],
        "knee": found.knee.text if found.knee is not None else None,
        "refusals": list(found.refusals),
        "explanation": found.explanation,
        "shrunk": [asdict(note) for note in found.notes],
    }


def _data(candidate: Candidate, found: Found) -> dict[str, object]:
    names = (
        "memory",
        "arena",
        "tail",
        "macs",
        "operators",
        "file",
        "is_planned",
        "is_measured",
        "latency",
        "outputs",
        "runtime",
    )
    return {
        "steps": candidate.text,
        "kernels": candidate.kernels,
        "target": candidate.target.name,
        **{name: getattr(candidate, name) for name in names},
        "tail_here": None if candidate.tail_check is None else candidate.tail_check.measured,
        "command": found.command(candidate) if candidate.is_tried else None,
    }
