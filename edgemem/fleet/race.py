"""Strategies and seeds for one model, of which the smallest plan wins."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgemem.errors import PlanError
from edgemem.fleet.executors import rows_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from edgemem.fleet.executors import Workers
    from edgemem.fleet.task import FleetRow, Task

__all__ = ["race"]


def race(tasks: Sequence[Task], workers: Workers, progress: Callable[[FleetRow], None] = lambda _: None) -> int:
    """The number of the task with the smallest arena, the lowest one on ties: whichever ends first, the same one.

    Each task has a fixed work. What one of them proves as a lower bound holds for all: once an arena meets it, tasks
    behind are dropped, as none of them could win. Raises PlanError if every task failed.
    """
    best: tuple[int, int] | None = None
    bound = 0
    failed: list[tuple[int, FleetRow]] = []

    def is_needed(number: int) -> bool:
        return best is None or best[0] > bound or number < best[1]

    for number, row in rows_of(tasks, workers, is_needed):
        progress(row)
        arena, proved = row.figures.get("arena"), row.figures.get("lower_bound")
        if row.code or not isinstance(arena, int) or not isinstance(proved, int):
            failed.append((number, row))
            continue
        bound = max(bound, proved)
        best = min(best or (arena, number), (arena, number))
    if best is None:
        raise PlanError(min(failed, key=lambda pair: pair[0])[1].message)
    return best[1]
