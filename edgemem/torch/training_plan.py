"""The plan of a training step, and what it is made of."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import torch

from edgemem import planfile
from edgemem.errors import PlanFileError
from edgemem.planning.cycle_plan import CyclePlan, restored
from edgemem.torch.sessions import Session

if TYPE_CHECKING:
    from edgemem.plans import PlanSet

__all__ = ["TrainingPlan"]

_DEVICES: Final = ("cpu", "cuda")


@dataclass(frozen=True, slots=True, eq=False)
class TrainingPlan:
    """Where the tensors of a training step lie.

    Attributes:
        made: the iteration and its proved plan.
        device: "cpu", "cuda", or one of several such as "cuda:1".
    """

    made: CyclePlan
    device: str = "cpu"

    @property
    def size(self) -> int:
        """Bytes of the arena."""
        return self.made.size

    @property
    def lower_bound(self) -> int:
        """Bytes that no arena for the static requests of this step can go below."""
        return self.made.lower_bound

    @property
    def room(self) -> int:
        """Bytes of the arena for dynamic requests."""
        return self.made.room

    def __repr__(self) -> str:
        """One line: arena, bound, what is planned, and how."""
        return f"<TrainingPlan for {self.device}: {repr(self.made)[1:]}"

    def session(self, *, replans: int = 16, poison: bool = False) -> Session:
        """Training inside the plan, in a `with` statement.

        Args:
            replans: new plans at most, where steps do not fit into the plan for long; 0 keeps this one.
            poison: fill memory that is not in use with a pattern, so that a program which reads it is found. Slow.
        """
        return Session(self.made, device=self.device, replans=replans, poison=poison)

    def save(self, path: str | Path) -> None:
        """Write the plan to a file `NAME.edgemem`, for `load` in another process.

        Raises PlanFileError if it cannot be written.
        """
        planfile.save_all([self._noted(planset) for planset in self.made.plansets], Path(path))

    @classmethod
    def load(cls, path: str | Path) -> TrainingPlan:
        """The plan that `save` or `edgemem trace` wrote, proved again.

        Sections are found by the names that `edgemem.torch.mark` gives to modules, so mark the model as before.

        Raises:
            PlanFileError: the file cannot be read, or has no plan of a training program, or of several devices.
            InvalidPlanError: the plan is wrong.
        """
        made = restored(planfile.load_all(Path(path)))
        devices = {cycle.device for cycle in made.cycles}
        if not {device.partition(":")[0] for device in devices} <= {*_DEVICES, ""} or len(devices) > 1:
            raise PlanFileError(f"{path}: the plan is of {sorted(devices)}; there are plans of {' or '.join(_DEVICES)}")
        return cls(made, devices.pop() or "cpu")

    def _noted(self, planset: PlanSet) -> PlanSet:
        """The plan set with what it is of."""
        assert planset.cycle is not None
        versions = {**planset.versions, "torch": str(torch.__version__)}
        return replace(planset, cycle=replace(planset.cycle, device=self.device), versions=versions)
