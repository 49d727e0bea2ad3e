"""Plans that runs are replayed in: of runs of any shapes, and of smaller ones.

A plan of runs of any shapes takes as much memory as the largest of them, and several smaller ones fit where that one
does. So where runs wait for one another, and one takes a small part of its plan, a small one is recorded. The plans of
runs between it and the largest follow from the sizes of their requests, which grow with the elements of the inputs. A
request that is larger than that is served by the heap, as any that does not fit, and the plan is then kept for smaller
runs.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Final

from edgemem.replay.plan import replay_plan

if TYPE_CHECKING:
    from collections.abc import Iterable

    from edgemem.replay.plan import ReplayPlan
    from edgemem.replay.store import FoundPlan
    from edgemem.trace import Trace
    from edgemem.trace.recording import Signature

__all__ = ["LEAST_PART", "PARTS", "SMALL_PART", "ReadyPlan", "SmallPlan", "elements"]

LEAST_PART: Final = 8  # a run of 1 / this of the largest one's elements is recorded
SMALL_PART: Final = 4  # of its plan; a run that takes no more wants a smaller one
PARTS: Final = (16, 8, 4, 2)  # of the largest run, that plans are made for


@dataclass(slots=True, eq=False)
class ReadyPlan:
    """A plan, and the runs that it serves: those that are part of its trace.

    Attributes:
        found: the plan.
        ready: in the form that is replayed.
        signature: of the largest run.
        elements: of all inputs of that run together.
        outside: as `FoundPlan.outside`, which takes long.
    """

    found: FoundPlan
    ready: ReplayPlan
    signature: Signature
    elements: int
    outside: int

    @classmethod
    def of(cls, found: FoundPlan) -> ReadyPlan:
        """Ready to run. Raises InvalidPlanError if the allocator refuses the plan."""
        recording = found.planset.recording
        ready = replay_plan(found.proved)
        assert recording is not None  # replay_plan refuses others
        signature = recording.fingerprint.signature
        return cls(found, ready, signature, elements(signature.inputs), found.outside)

    @property
    def requests(self) -> int:
        """How many requests that run makes."""
        return len(self.trace.requests)

    @property
    def trace(self) -> Trace:
        """What the plan is made for."""
        return self.found.trace


@dataclass(slots=True, eq=False)
class SmallPlan:
    """A plan of runs whose inputs have at most `most` elements; `most` falls when a run does not fit, to `least`."""

    served: ReadyPlan
    most: int
    least: int


def elements(inputs: Iterable[tuple[str, str, tuple[int, ...]]]) -> int:
    """Of all inputs of a run together, which are as `Signature.inputs`."""
    return sum(prod(shape) for _, _, shape in inputs)
