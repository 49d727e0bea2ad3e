"""Which plan the caller of an interpreter wants."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from edgemem.plans import PlanSet

__all__ = ["PLAIN_HINT", "Inputs", "PlanRequest", "Resized", "WantedPlan"]

Inputs: TypeAlias = Literal["keep", "release"]
WantedPlan: TypeAlias = "PlanSet | Literal['file', 'make'] | None"
Resized: TypeAlias = "Mapping[int, Sequence[int]]"  # tensor index of an input -> the shape that the caller gave it
PLAIN_HINT: Final = '; refuse="plain" runs it in LiteRT\'s own memory'


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """Which plan the caller wants.

    Attributes:
        plan: a plan set; `file`, the one in the file; `make`, one that is made now; None is the one in the file if
            there is one and no strategy is named, and else one that is made now.
        strategies: what a new plan is made with; quick ones if there are none.
        inputs: whether inputs are kept after a run; None is as the plan in the file has it, and else `keep`.
        options: of LiteRT's interpreter, which another process makes one with; None where it cannot.
        is_strict: whether a plan in the file that cannot be run is an error; else one is made now in its place.
    """

    plan: WantedPlan = None
    strategies: tuple[str, ...] = ()
    inputs: Inputs | None = None
    options: Mapping[str, Any] | None = None
    is_strict: bool = False
