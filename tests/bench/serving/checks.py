"""The checks of a benchmark: each prints its figure, its limit, and whether it is met."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field

__all__ = ["Checks"]


@dataclass
class Checks:
    """What was checked so far. `missed` names what was not met."""

    missed: list[str] = field(default_factory=list)
    counted: int = 0

    def at_most(self, what: str, value: float, limit: float, unit: str = "") -> None:
        """A figure that has to be no larger than the limit."""
        self._note(what, f"{value:.3f}{unit} <= {limit:g}{unit}", is_met=value <= limit)

    def at_least(self, what: str, value: float, limit: float, unit: str = "") -> None:
        """A figure that has to be no smaller than the limit."""
        self._note(what, f"{value:.3f}{unit} >= {limit:g}{unit}", is_met=value >= limit)

    def holds(self, what: str, is_met: bool, detail: str = "") -> None:
        """A fact."""
        self._note(what, detail, is_met=is_met)

    def _note(self, what: str, detail: str, *, is_met: bool) -> None:
        self.counted += 1
        if not is_met:
            self.missed.append(what)
        print(f"{'met    ' if is_met else 'not met'}  {what}{': ' if detail else ''}{detail}", flush=True)

    def end(self) -> None:
        """Print the sum and leave with status 0 if all are met, else 1."""
        print(f"{self.counted - len(self.missed)} of {self.counted} met", flush=True)
        sys.exit(1 if self.missed else 0)
