"""What can be wrong with a plan: one cause a reason."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from edgemem.plans import Plan

__all__ = ["MOST", "Cause", "Violation", "violation"]

# Beyond this many, more of the same says nothing new.
MOST = 100


class Cause(StrEnum):
    """Why a plan is wrong; one value a reason."""

    WRONG_LENGTH = "wrong length"
    NEGATIVE_OFFSET = "negative offset"
    MISALIGNED = "misaligned"
    OUTSIDE_ARENA = "outside the arena"
    WRONG_SIZE = "wrong size"
    OVERLAP = "overlap"
    NOT_WHERE_PINNED = "not where it is pinned"
    IN_RESERVED = "in a reserved range"
    NOT_WITHIN = "not inside the record it belongs to"
    WRONG_REGION = "in a region it may not lie in"
    OVER_CAPACITY = "larger than its region"
    STATE_NOT_KEPT = "state not kept for the whole run"
    NO_SUCH_OBJECT = "no such object"
    OBJECT_TOO_SMALL = "object too small"
    OBJECT_SHARED = "object shared while in use"
    EMPTY_OBJECT = "object without records"
    BELOW_BOUND = "below the lower bound"
    FALSE_OPTIMAL = "wrongly called optimal or not"
    WRONG_BOUND = "wrong lower bound"
    WRONG_NAIVE = "wrong naive size"
    STALE_DIGEST = "another graph"
    WRONG_STEPS = "other operators"
    TWO_PLACES = "two places for one tensor"
    WRONG_KIND = "record of another kind than its tensor"
    MISSING_TENSOR = "tensor without a place"
    UNKNOWN_TENSOR = "place without a tensor"
    RECORD_TOO_SMALL = "record smaller than its tensor"
    OVERWRITTEN = "read after it was overwritten"
    CLOBBERED_INPUT = "written over an input of the same operator"
    NOT_PERMITTED = "shares what the graph keeps apart"
    DIFFERENT_OFFSET = "offsets that are not the plan's"
    DIFFERENT_OUTPUT = "another result than without reuse"
    DIFFERENT_WEIGHTS = "packed weights that are not the model's"


@dataclass(frozen=True, slots=True)
class Violation:
    """One reason why a plan is wrong. `strategy` is the plan's, "" when it concerns all; `op` counts steps."""

    cause: Cause
    message: str
    strategy: str = ""
    records: tuple[str, ...] = ()
    op: int | None = None

    def __str__(self) -> str:
        return f"{f'{self.strategy}: ' if self.strategy else ''}{self.cause}: {self.message}"


def violation(plan: Plan, cause: Cause, message: str, *records: str, op: int | None = None) -> Violation:
    """A violation by one plan."""
    return Violation(cause, message, plan.strategy, records, op)
