"""What the caller of a session decides about the recording and planning of its runs."""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias, get_args

from edgemem.errors import RuntimeBindError

__all__ = ["RecordPolicy", "ReplayPolicy"]

RecordPolicy: TypeAlias = Literal["first-run", "warmup", "never"]


class ReplayPolicy(NamedTuple):
    """How a session's runs are planned.

    Attributes:
        record: which runs may be recorded: `first-run` the first of a family and those that do not fit, `warmup` those
            within `warm_up` alone, `never` none.
        background: plan on a thread of its own; else before the recorded run returns, while other runs of the family
            wait.
        most_arenas: how many arenas there are; further runs wait. None: as many as there are processors.
        poison: fill the arena with a pattern before each run, and what is freed.
        max_bytes: the most that arenas and blocks of runs outside them may take; None for no limit.
        idle_seconds: after which arenas go that no run used; None: they stay.
    """

    record: RecordPolicy = "first-run"
    background: bool = True
    most_arenas: int | None = None
    poison: bool = False
    max_bytes: int | None = None
    idle_seconds: float | None = None

    def checked(self) -> ReplayPolicy:
        """The policy. Raises RuntimeBindError for values that these may not have."""
        if self.record not in get_args(RecordPolicy):
            raise RuntimeBindError(f"record is one of {', '.join(get_args(RecordPolicy))}, not {self.record!r}")
        if self.most_arenas is not None and self.most_arenas < 1:
            raise RuntimeBindError(f"most_arenas is 1 or more, not {self.most_arenas}")
        if self.idle_seconds is not None and not self.idle_seconds > 0:
            raise RuntimeBindError(f"idle_seconds is above 0, not {self.idle_seconds}")
        return self
