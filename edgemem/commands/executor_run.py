"""What came of the plans of a file in one executor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from edgemem.errors import RuntimeBindError
from edgemem.proof.violations import Cause

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from edgemem.proof import Violation
    from edgemem.runtime.memory import MemoryReport

__all__ = ["ExecutorRun", "check_verified"]


@dataclass(frozen=True, slots=True)
class ExecutorRun:
    """What came of a file's plan in one executor.

    Attributes:
        executor: its name.
        report: the memory of the runs inside the plan; None if it did not run the plan.
        refusal: why it did not, and what to do about it; "" if it did.
        violations: what differs from a run without the plan.
        note: what was not compared, or "".
        compared: what its outputs were compared with, in words.
    """

    executor: str
    report: MemoryReport | None = None
    refusal: str = ""
    violations: tuple[Violation, ...] = ()
    note: str = ""
    compared: str = ""

    def __str__(self) -> str:
        if self.report is None:
            return f"{self.executor}: not run: {self.refusal}"
        is_different = any(violation.cause is Cause.DIFFERENT_OUTPUT for violation in self.violations)
        verdict = f"outputs {'differ from' if is_different else 'identical to'} those of {self.compared}"
        compared = verdict if self.compared else ""
        return "; ".join(filter(None, (f"{self.executor}: ran, {self.report}", compared, self.note)))


def check_verified(planned: Path, runs: Sequence[ExecutorRun]) -> None:
    """Raise RuntimeBindError unless at least one executor ran a plan."""
    if all(run.report is None for run in runs):
        reasons = "; ".join(map(str, runs))
        raise RuntimeBindError(f"no executor ran the plan in {planned.name}, so nothing is verified: {reasons}")
