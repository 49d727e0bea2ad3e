"""Stages: which operators run in tiles together, and in how many."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from edgemem.errors import ModelError
from edgemem.passes.stage_order import ordered_stages, stage_numbers

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["TileStage", "check_stages", "parse_stages"]

_STAGE: Final = re.compile(r"(\d{1,9}):(\d{1,9}):(\d{1,9})(?:x(\d{1,9})?)?", re.ASCII)


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
    refusal = "{part!r} is no stage: give FIRST:LAST:ROWSxCOLUMNS, such as 0:9:14x1"
    return tuple(TileStage(*numbers) for numbers in stage_numbers(text, _STAGE, refusal))


def check_stages(stages: Iterable[TileStage], count: int) -> tuple[TileStage, ...]:
    """The stages in the order of the graph. Raises ModelError where they overlap or are not in the graph."""
    ordered = ordered_stages(stages, count)
    for stage in ordered:
        if min(stage.rows, stage.columns) < 1:
            raise ModelError(f"stage {stage} has no tile; give 1 or more rows and columns")
    return ordered
