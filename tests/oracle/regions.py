"""The cheapest placement of records in several memories: by trying everything, and as an integer program."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING, Any

from tests.oracle.bounds import align_up
from tests.oracle.relations import Related, optimum

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["Memory", "cheapest", "cheapest_by_program"]


@dataclass(frozen=True)
class Memory:
    """A memory: bytes (None for any number), the cost of a byte moved, and the alignment of what is in it."""

    capacity: int | None
    cost: int
    alignment: int = 1
    reserved: Sequence[tuple[int, int]] = ()


def cheapest(
    related: Related,
    traffic: Sequence[int],
    memories: Sequence[Memory],
    allowed: Sequence[Sequence[int]] | None = None,
    arena: Callable[[Related], int | None] = optimum,
) -> int | None:
    """The least cost of bytes moved, by all assignments and the smallest arena of each memory; None if nothing fits.

    Pinned records are in the first memory that they may be in. What `related` reserves is in the first memory.
    """
    count = len(related.records)
    may = [list(allowed[i]) if allowed else list(range(len(memories))) for i in range(count)]
    for i in related.pinned:
        may[i] = may[i][:1]
    costs = [(sum(t * memories[r].cost for t, r in zip(traffic, of, strict=True)), of) for of in product(*may)]
    known: dict[tuple[int, tuple[int, ...]], bool] = {}
    for cost, of in sorted(costs):
        if any(of[i] != of[j] for i, j, _ in related.within):
            continue
        for r in range(len(memories)):
            chosen = tuple(i for i in range(count) if of[i] == r)
            if (r, chosen) not in known:
                known[r, chosen] = _fits(related, chosen, memories[r], arena, first=r == 0)
            if not known[r, chosen]:
                break
        else:
            return cost
    return None


def _fits(
    related: Related, chosen: Sequence[int], memory: Memory, arena: Callable[[Related], int | None], *, first: bool
) -> bool:
    number = {i: k for k, i in enumerate(chosen)}
    within = [(number[i], number[j], d) for i, j, d in related.within if i in number]
    alignment = max(related.alignment, memory.alignment)
    if any(d % alignment for _, _, d in within):
        return False
    part = replace(
        related,
        records=[related.records[i] for i in chosen],
        alignment=alignment,
        overlap=[(number[i], number[j], d) for i, j, d in related.overlap if i in number and j in number],
        within=within,
        pinned={number[i]: at for i, at in related.pinned.items() if i in number},
        reserved=related.reserved if first else memory.reserved,
    )
    least = arena(part) if chosen else 0
    return least is not None and (memory.capacity is None or least <= memory.capacity)


def cheapest_by_program(
    records: Sequence[tuple[int, int, int]], alignment: int, traffic: Sequence[int], memories: Sequence[Memory]
) -> int | None:
    """The least cost of records without relations, with their offsets, by CP-SAT; None if nothing fits. Needs ortools.

    A record is a rectangle of time and bytes in one memory; rectangles of a memory do not overlap.
    """
    from ortools.sat.python import cp_model

    model: Any = cp_model.CpModel()
    chosen = [[model.new_bool_var("") for _ in memories] for _ in records]
    costs = []
    for literals in chosen:
        model.add_exactly_one(literals)
    for r, memory in enumerate(memories):
        step = max(alignment, memory.alignment)
        capacity = memory.capacity
        if capacity is None:
            capacity = sum(align_up(size, step) for _, _, size in records)
        times, spans = [], []
        for i, (first, last, size) in enumerate(records):
            literal = chosen[i][r]
            costs.append(traffic[i] * memory.cost * literal)
            if size > capacity:
                model.add(literal == 0)
                continue
            at = model.new_int_var(0, (capacity - size) // step, "")
            spans.append(model.new_optional_fixed_size_interval_var(at, align_up(size, step) // step, literal, ""))
            times.append(model.new_optional_fixed_size_interval_var(first, last - first + 1, literal, ""))
        model.add_no_overlap_2d(times, spans)
    model.minimize(sum(costs))
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    status = solver.solve(model)
    assert status in (cp_model.OPTIMAL, cp_model.INFEASIBLE)
    return round(solver.objective_value) if status == cp_model.OPTIMAL else None
