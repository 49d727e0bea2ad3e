"""Why records do not fit into regions: the errors, which name a record and the regions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from edgemem.errors import BudgetExceededError
from edgemem.planning.regions.prices import usage
from edgemem.system.text import join_names

if TYPE_CHECKING:
    from collections.abc import Sequence

    from edgemem.planning.regions.items import Items
    from edgemem.planning.regions.search import RegionChoice
    from edgemem.records.problem import Problem
    from edgemem.targets import Region

__all__ = ["no_choice_error", "refuse_misfits"]


def refuse_misfits(problem: Problem, items: Items, regions: Sequence[Region], steps: Sequence[str]) -> None:
    """Raise BudgetExceededError for a record that no region holds, and for more alive at once than all regions hold."""
    for k, group in enumerate(items.members):
        if (items.allowed[k] & (items.profiles[k].max(axis=1) <= items.room)).any():
            continue
        i = max(group, key=lambda i: int(problem.size[i]))
        name, size, op = problem.names[i], int(problem.size[i]), int(problem.first_op[i])
        mask = 0 if problem.regions is None else int(problem.regions[i])
        able = [r for r in range(len(regions)) if not mask or mask >> r & 1]
        if problem.pinned is not None and problem.pinned[i] >= 0:
            able = able[:1]
        has = join_names(
            (f"{regions[r].name} has {_has(regions[r], int(items.room[r]))}" for r in able), most=len(able)
        )
        raise BudgetExceededError(
            f"no region holds {name!r}, {size:,} bytes: {has or 'there is none where it may lie'}",
            required=size,
            available=max((int(items.room[r]) for r in able), default=0),
            op=_label(steps, op),
            tensors=[(name, size)],
            impossible=True,
        )
    least = np.zeros(len(items), np.int64)
    narrow = int(items.weights.sum(axis=0).argmin())
    alive = usage(items, least + narrow)[narrow]
    worst = int(alive.argmax()) if len(alive) else 0
    if len(alive) and alive[worst] > items.room.sum():
        raise _together(problem, items, regions, steps, worst, impossible=True)


def no_choice_error(
    problem: Problem, items: Items, regions: Sequence[Region], choice: RegionChoice, steps: Sequence[str]
) -> BudgetExceededError:
    """The error for items that find no places together."""
    alive = usage(items, np.zeros(len(items), np.int64))[0]
    section = int(alive.argmax())
    if choice.stuck is None:
        return _together(problem, items, regions, steps, section, impossible=choice.is_proved)
    k, free = choice.stuck
    i = max(items.members[k], key=lambda i: int(problem.size[i]))
    name, size, op = problem.names[i], int(problem.size[i]), int(problem.first_op[i])
    left = join_names(
        (f"{region.name} has {max(free[r], 0):,} left" for r, region in enumerate(regions) if items.allowed[k, r]),
        most=len(regions),
    )
    return BudgetExceededError(
        f"{_proved(choice.is_proved)}: none of the regions has room for {name!r}, {size:,} bytes, at "
        f"{_label(steps, op)}: {left} beside others that are alive with it",
        required=size,
        available=max(0, *free),
        op=_label(steps, op),
        tensors=[(name, size)],
        impossible=choice.is_proved,
    )


def _together(
    problem: Problem, items: Items, regions: Sequence[Region], steps: Sequence[str], section: int, *, impossible: bool
) -> BudgetExceededError:
    op = int(items.steps[section])
    alive = np.flatnonzero((problem.first_op <= op) & (op <= problem.last_op) & (problem.size > 0))
    largest = sorted(alive.tolist(), key=lambda i: (-int(problem.size[i]), i))
    tensors = [(problem.names[i], int(problem.size[i])) for i in largest]
    required = sum(size for _, size in tensors)
    listed = join_names((f"{name!r} {size:,}" for name, size in tensors), most=5)
    has = _list_rooms(regions, items, range(len(regions)))
    why = "" if required > items.room.sum() else f"{_proved(impossible)}: "
    return BudgetExceededError(
        f"{why}{required:,} bytes are alive at {_label(steps, op)}, and {has}; alive there: {listed}",
        required=required,
        available=int(items.room.sum()),
        op=_label(steps, op),
        tensors=tensors,
        impossible=impossible,
    )


def _proved(is_proved: bool) -> str:
    return "no placement holds all tensors" if is_proved else "no placement of all tensors was found"


def _list_rooms(regions: Sequence[Region], items: Items, which: Sequence[int]) -> str:
    return join_names((f"{regions[r].name} has {_has(regions[r], int(items.room[r]))}" for r in which), most=len(which))


def _has(region: Region, room: int) -> str:
    if region.capacity is None:
        return "as much as it takes"
    return f"{region.capacity:,}{' with reserved ranges' if region.reserved and room < region.capacity else ''}"


def _label(steps: Sequence[str], op: int) -> str:
    return steps[op] if op < len(steps) else f"op {op}"
