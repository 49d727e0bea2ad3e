"""Dimensions that are not one number: a range of values, or a sum of other dimensions."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import TYPE_CHECKING, Final, TypeAlias

from edgemem.errors import ModelError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

__all__ = [
    "Dimension",
    "Points",
    "Range",
    "Sum",
    "corners_of",
    "in_ranges",
    "open_shape",
    "parse_dimension",
    "points_of",
    "resolve",
    "samples_of",
]

_MOST_CORNERS: Final = 4  # ranges whose ends are all combined
_RANGE: Final = re.compile(r"(\d{1,18})\.\.(\d{1,18})")


@dataclass(frozen=True, slots=True)
class Range:
    """All whole numbers from `low` to `high`, both inclusive. Raises ModelError for an empty range."""

    low: int
    high: int

    def __post_init__(self) -> None:
        if not 0 <= self.low <= self.high:
            raise ModelError(f"the range {self} is empty or has negative numbers; give LOW..HIGH")

    def __str__(self) -> str:
        return f"{self.low}..{self.high}"


@dataclass(frozen=True, slots=True)
class Sum:
    """The sum of the dimensions `names` and of `plus`: a context is as long as its past and the new tokens."""

    names: tuple[str, ...]
    plus: int = 0

    def __str__(self) -> str:
        return "+".join((*self.names, *([str(self.plus)] if self.plus else [])))


Dimension: TypeAlias = "Range | Sum"


@dataclass(frozen=True, slots=True)
class Points:
    """Values of all dimensions to look at.

    Attributes:
        values: each a value for every symbol; the first has all ranges at their highest.
        total: how many combinations of values the ranges have.
    """

    values: tuple[Mapping[str, int], ...]
    total: int


def parse_dimension(text: str) -> int | Dimension:
    """A number, a range such as `1..8`, or a sum such as `past+sequence+1`. Raises ModelError for other text.

    A range of one number is that number.
    """
    if text.isdecimal() and text.isascii() and len(text) <= 4300:
        return int(text)
    if match := _RANGE.fullmatch(text):
        made = Range(int(match[1]), int(match[2]))
        return made.low if made.low == made.high else made
    terms = [term.strip() for term in text.split("+")]
    numbers = [term for term in terms if re.fullmatch(r"[0-9]{1,18}", term)]
    names = tuple(term for term in terms if term not in numbers)
    if len(terms) > 1 and names and all(terms):
        return Sum(names, sum(map(int, numbers)))
    raise ModelError(f"{text[:60]!r} is no size: give a whole number, a range LOW..HIGH, or a sum such as past+1")


def resolve(dims: Mapping[str, int], ranges: Mapping[str, Dimension], given: Mapping[str, int]) -> dict[str, int]:
    """A value for every symbol.

    Args:
        dims: those with one value.
        ranges: the others.
        given: values that are wanted for some; a range without one is at its highest, a sum without one is added up.

    Raises ModelError for a sum of dimensions that have no value, or of sums in a circle.
    """
    values = {name: value for name, value in dims.items() if name not in ranges}
    values |= {name: made.high for name, made in ranges.items() if isinstance(made, Range)}
    values |= given
    waiting = {name: made for name, made in ranges.items() if isinstance(made, Sum) and name not in given}
    while waiting:
        ready = [name for name, made in waiting.items() if values.keys() >= set(made.names)]
        if not ready:
            name, made = next(iter(waiting.items()))
            lacks = ", ".join(sorted(set(made.names) - values.keys()))
            raise ModelError(f"dimension {name!r} is {made}, and nothing says how large {lacks} is; bind it with --dim")
        for name in ready:
            made = waiting.pop(name)
            values[name] = made.plus + sum(values[term] for term in made.names)
    return values


def in_ranges(values: Mapping[str, int], dims: Mapping[str, int], ranges: Mapping[str, Dimension]) -> str:
    """Why these values are not among those of the ranges, or ""; dimensions without a value may have any."""
    for name, value in values.items():
        made = ranges.get(name)
        if isinstance(made, Range) and not made.low <= value <= made.high:
            return f"{name}={value} is not in {made}"
        if made is None and dims.get(name, value) != value:
            return f"{name}={value} is not {dims[name]}"
        if isinstance(made, Sum) and all(term in values or term in dims for term in made.names):
            wanted = made.plus + sum(values.get(term, dims.get(term, 0)) for term in made.names)
            if wanted != value:
                return f"{name}={value} is not {made}, which is {wanted}"
    return ""


def points_of(dims: Mapping[str, int], ranges: Mapping[str, Dimension], most: int) -> Points:
    """All combinations of the values in the ranges if they are at most `most`; else a part of them.

    The part has the ends of up to four ranges in all combinations, and from each range its lowest values, values at
    distances that double, and its highest ones, with the other ranges all at their highest and all at their lowest.
    """
    spans = {name: made for name, made in ranges.items() if isinstance(made, Range)}
    total = prod(made.high - made.low + 1 for made in spans.values())
    if total <= most:
        rows = product(*(range(made.high, made.low - 1, -1) for made in spans.values()))
        return Points(tuple(resolve(dims, ranges, dict(zip(spans, row, strict=True))) for row in rows), total)
    chosen = corners_of(ranges, _MOST_CORNERS)
    high, low = chosen[:2]
    for name, made in spans.items():
        chosen += [{**rest, name: value} for value in _spread(made) for rest in (high, low)]
    distinct = {tuple(sorted(point.items())): point for point in chosen}
    return Points(tuple(resolve(dims, ranges, point) for point in distinct.values()), total)


def corners_of(ranges: Mapping[str, Dimension], most: int = 3) -> list[dict[str, int]]:
    """The ends of the ranges combined: all highest, all lowest, and of the first `most` ranges every combination."""
    spans = {name: made for name, made in ranges.items() if isinstance(made, Range)}
    high = {name: made.high for name, made in spans.items()}
    low = {name: made.low for name, made in spans.items()}
    combined = list(spans)[:most]
    chosen = [high, low]
    for row in product(*((spans[name].high, spans[name].low) for name in combined)):
        chosen += [{**rest, **dict(zip(combined, row, strict=True))} for rest in (high, low)]
    return [point for k, point in enumerate(chosen) if point not in chosen[:k]]


def samples_of(dims: Mapping[str, int], ranges: Mapping[str, Dimension]) -> tuple[dict[str, int], ...]:
    """Values of all symbols at the ends of the ranges and in the middle, the highest first; `dims` without ranges."""
    if not ranges:
        return (dict(dims),)
    middle = {name: (made.low + made.high) // 2 for name, made in ranges.items() if isinstance(made, Range)}
    corners = corners_of(ranges)
    return tuple(resolve(dims, ranges, point) for point in (*corners, *([] if middle in corners else [middle])))


def open_shape(
    shapes: Sequence[Sequence[int]], points: Sequence[Mapping[str, int]], symbols: Iterable[str]
) -> tuple[int | str | None, ...]:
    """A tensor's shape in symbols, from what it is at several of their values.

    Args:
        shapes: of one rank.
        points: the values of all symbols for each shape.
        symbols: that a size may be called by.

    Returns the size where it is the same everywhere, else the only symbol that has its value everywhere, or None.
    """
    made: list[int | str | None] = []
    for sizes in zip(*shapes, strict=True):
        named = [name for name in symbols if all(p[name] == d for p, d in zip(points, sizes, strict=True))]
        made.append(sizes[0] if len({*sizes}) == 1 else named[0] if len(named) == 1 else None)
    return tuple(made)


def _spread(made: Range) -> Sequence[int]:
    """Values of a range: its ends, and between them at distances from the lowest that double."""
    values, step = [made.high, made.low, made.high - 1], 1
    while made.low + step < made.high:
        values.append(made.low + step)
        step *= 2
    return values
