"""The plan of a training step, and what it is made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from edgemem.planning.cycle_plan import CyclePlan, plan_cycles
from edgemem.plans import Settings
from edgemem.torch.sessions import Session

if TYPE_CHECKING:
    from collections.abc import Sequence

    from edgemem.trace.cycle import Cycle

__all__ = ["TrainingPlan", "plan_of"]


@dataclass(frozen=True, slots=True, eq=False)
class TrainingPlan:
    """Where the tensors of a training step lie.

    Attributes:
        made: the iteration and its proved plan.
        device: "cpu" or "cuda".
    """

    made: CyclePlan
    device: str = "cpu"

    @property
    def size(self) -> int:
        """Bytes of the arena."""
        return self.made.size

    @property
    def lower_bound(self) -> int:
        """Bytes that no arena for this step can go below."""
        return self.made.lower_bound

    def session(self, *, replans: int = 16, poison: bool = False) -> Session:
        """Training inside the plan, in a `with` statement.

        Args:
            replans: new plans at most, where steps do not fit into the plan for long; 0 keeps this one.
            poison: fill memory that is not in use with a pattern, so that a program which reads it is found. Slow.
        """
        return Session(self.made, device=self.device, replans=replans, poison=poison)


def plan_of(
    cycles: Sequence[Cycle],
    strategy: str,
    *,
    effort: str | None = None,
    seed: int | None = None,
    time_limit: float | None = None,
    threads: int | None = None,
    device: str = "cpu",
) -> TrainingPlan:
    """The plan of what is repeated; arguments and errors are those of `Profile.plan`."""
    settings = Settings((strategy,), effort, seed, time_limit, threads)
    return TrainingPlan(plan_cycles(cycles, settings), device)
