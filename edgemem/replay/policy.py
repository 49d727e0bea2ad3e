"""What the caller of a session decides about the recording and planning of its runs."""

from __future__ import annotations

from typing import Literal, TypeAlias

from edgemem.system.light_dataclass import dataclass

__all__ = ["RecordPolicy", "ReplayPolicy"]

RecordPolicy: TypeAlias = Literal["first-run", "warmup", "never"]


@dataclass(frozen=True, slots=True)
class ReplayPolicy:
    """How a session's runs are planned.

    Attributes:
        record: which runs may be recorded: `first-run` the first of a family and those that do not fit, `warmup` those
            within `warm_up` alone, `never` none.
        background: plan on a thread of its own; else before the recorded run returns, while other runs of the family
            wait.
        most_arenas: how many runs at once have an arena; further ones wait. None: as many as there are processors.
        poison: fill the arena with a pattern before each run, and what is freed.
    """

    record: RecordPolicy = "first-run"
    background: bool = True
    most_arenas: int | None = None
    poison: bool = False
