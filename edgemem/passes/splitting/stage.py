"""Stages: which operators run in parts together, along which axis, and in how many parts."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from edgemem.errors import ModelError
from edgemem.passes.stage_order import ordered_stages, stage_numbers

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["SplitStage", "check_stages", "parse_stages"]

_STAGE: Final = re.compile(r"(\d{1,9}):(\d{1,9}):(\d{1,9})/(\d{1,2})", re.ASCII)


@dataclass(frozen=True, slots=True)
class SplitStage:
    """Operators that run in parts.

    Attributes:
        first: the first of them in the graph.
        last: the last of them, inclusive.
        parts: how many.
        axis: of the results of the last operator, along which they are cut.
    """

    first: int
    last: int
    parts: int
    axis: int

    def __str__(self) -> str:
        """As the command line takes it."""
        return f"{self.first}:{self.last}:{self.parts}/{self.axis}"


def parse_stages(text: str) -> tuple[SplitStage, ...]:
    """Stages from "FIRST:LAST:PARTS/AXIS+...". Raises ModelError for another text."""
    refusal = "{part!r} is no stage: give FIRST:LAST:PARTS/AXIS, such as 20:24:4/1"
    return tuple(SplitStage(*numbers) for numbers in stage_numbers(text, _STAGE, refusal))


def check_stages(stages: Iterable[SplitStage], count: int) -> tuple[SplitStage, ...]:
    """The stages in the order of the graph. Raises ModelError where they overlap or are not in the graph."""
    ordered = ordered_stages(stages, count)
    for stage in ordered:
        if stage.parts < 1:
            raise ModelError(f"stage {stage} has no part; give 1 or more")
    return ordered
