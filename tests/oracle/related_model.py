"""The smallest arena of related records by CP-SAT: an integer an offset, and a Boolean for the side of each pair."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.oracle.bounds import align_up

if TYPE_CHECKING:
    from tests.oracle.relations import Related

__all__ = ["least_arena"]


def least_arena(related: Related) -> int:
    """The smallest arena in bytes; the records can be placed. Needs ortools."""
    from ortools.sat.python import cp_model

    model: Any = cp_model.CpModel()
    records, step = related.records, related.alignment
    reach = sum(align_up(size, step) for _, _, size in records)
    reach += max(
        [high for _, high in related.reserved] + [pin + records[i][2] for i, pin in related.pinned.items()] + [0]
    )
    most = align_up(reach, step) // step
    at = [model.new_int_var(0, most, f"at_{i}") for i in range(len(records))]  # in steps of the alignment
    arena = model.new_int_var(0, most * step + max(size for _, _, size in records), "arena")

    def one_of(*alternatives: Any) -> None:
        chosen = [model.new_bool_var("") for _ in alternatives]
        for literal, alternative in zip(chosen, alternatives, strict=True):
            model.add(alternative).only_enforce_if(literal)
        model.add_bool_or(chosen)

    for i, (_, _, size) in enumerate(records):
        model.add(step * at[i] + size <= arena)
        for low, high in related.reserved:
            one_of(step * at[i] + size <= low, step * at[i] >= high)
    for i, pin in related.pinned.items():
        model.add(step * at[i] == pin)
    for i, j, delta in related.within:
        model.add(step * at[i] == step * at[j] + delta)
    for i, (first, last, size) in enumerate(records):
        for j in range(i):
            other_first, other_last, other_size = records[j]
            if max(first, other_first) > min(last, other_last) or related.may_share(i, j):
                continue
            permitted = [step * (at[a] - at[b]) >= d for a, b, d in related.overlap if {a, b} == {i, j}]
            one_of(step * at[i] + size <= step * at[j], step * at[j] + other_size <= step * at[i], *permitted)
    model.minimize(arena)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    assert solver.solve(model) == cp_model.OPTIMAL
    return round(solver.objective_value)
