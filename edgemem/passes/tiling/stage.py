"""Stages: which operators run in tiles together, and in how many."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from edgemem.errors import ModelError
from edgemem.passes.stage_order import ordered_stages

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["TileStage", "check_stages", "parse_stages"]

_DIGITS: Final = 9  # of a number in a text


@dataclass(frozen=True, slots=True)
class TileStage:
    """Operators that run tile by tile.

    Attributes:
        first: the first of them in the graph.
        last: the last of them, inclusive.
        rows: tiles from top to bottom.
        columns: tiles from left to right.
    """

    first: int
    last: int
    rows: int
    columns: int = 1

    def __str__(self) -> str:
        """As the command line takes it."""
        return f"{self.first}:{self.last}:{self.rows}x{self.columns}"


def parse_stages(text: str) -> tuple[TileStage, ...]:
    """Stages from "FIRST:LAST:ROWSxCOLUMNS+..."; columns are 1 without them. Raises ModelError for another text."""
    return tuple(_parsed(part.strip()) for part in text.split("+"))


def _parsed(text: str) -> TileStage:
    first, _, rest = text.partition(":")
    last, _, tiles = rest.partition(":")
    rows, _, columns = tiles.partition("x")
    numbers = (first, last, rows, columns or "1")
    if not all(n.isascii() and n.isdigit() and len(n) <= _DIGITS for n in numbers):
        raise ModelError(f"{text!r} is no stage: give FIRST:LAST:ROWSxCOLUMNS, such as 0:9:14x1")
    return TileStage(*map(int, numbers))


def check_stages(stages: Iterable[TileStage], count: int) -> tuple[TileStage, ...]:
    """The stages in the order of the graph. Raises ModelError where they overlap or are not in the graph."""
    ordered = ordered_stages(stages, count)
    for stage in ordered:
        if min(stage.rows, stage.columns) < 1:
            raise ModelError(f"stage {stage} has no tile; give 1 or more rows and columns")
    return ordered
