"""Plans for the smaller runs of a family, so that several of them fit where one of the largest does.

A plan that serves runs of any shapes takes as much memory as the largest of them. Where runs wait for one another, and
one takes a small part of its plan, it is recorded. The plans of runs between it and the largest follow from the sizes
of their requests, which grow with the elements of the inputs. A request that is larger than that is served by the heap,
as any that does not fit, and the plan is then kept for smaller runs.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from edgemem.replay.families import ReadyPlan

__all__ = ["LEAST_PART", "PARTS", "SMALL_PART", "SmallPlan", "elements"]

LEAST_PART: Final = 8  # a run of 1 / this of the largest one's elements is recorded
SMALL_PART: Final = 4  # of its plan; a run that takes no more wants a smaller one
PARTS: Final = (16, 8, 4, 2)  # of the largest run, that plans are made for


@dataclass(slots=True, eq=False)
class SmallPlan:
    """A plan of runs whose inputs have at most `most` elements; `most` falls when a run does not fit, to `least`."""

    served: ReadyPlan
    most: int
    least: int


def elements(inputs: Iterable[tuple[str, str, tuple[int, ...]]]) -> int:
    """Of all inputs of a run together, which are as `Signature.inputs`."""
    return sum(prod(shape) for _, _, shape in inputs)
