"""Everything that is wrong with a set of plans, by all arguments."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from edgemem.proof.recording import check_stream
from edgemem.proof.sweep import sweep_claims, sweep_plan
from edgemem.proof.violations import MOST, Cause, Violation

if TYPE_CHECKING:
    from collections.abc import Iterator

    from edgemem.model.graph import Graph
    from edgemem.plans import PlanSet
    from edgemem.proof.relations import Relations
    from edgemem.records.problem import Problem

__all__ = ["verify_kernels", "verify_planset"]


def verify_planset(
    planset: PlanSet, graph: Graph | None = None, relations: Relations | None = None
) -> tuple[Violation, ...]:
    """Everything that is wrong with a set of plans, at most 100 violations; () proves them right.

    Plans of a recording are also checked against the stream, and those of a cycle over several periods. With the graph
    that plans claim to belong to, also that they do, and that the graph runs inside each of them. With relations,
    offsets may use what those allow and must keep what they demand. Raises as `sweep_plan`.
    """
    found = list(sweep_claims(planset, relations))
    for plan in planset.plans:
        found += sweep_plan(planset.problem, plan, planset.target, relations)
    if planset.recording is not None or planset.cycle is not None:
        found += _check_disjoint(planset.problem)
    if planset.recording is not None:
        found += check_stream(planset, planset.recording)
    elif planset.cycle is not None:
        from edgemem.proof.periods import check_periods  # only training has periods

        found += check_periods(planset, planset.cycle)
    elif graph is not None:
        from edgemem.proof.permissions import check_rows  # both are large, and a session proves plans of recordings
        from edgemem.proof.rehearsal import rehearse

        found += check_rows(planset, graph)
        found += rehearse(planset, graph)
    return tuple(found[:MOST])


def _check_disjoint(problem: Problem) -> Iterator[Violation]:
    """Rows that let requests of a program share bytes: nothing says what its kernels read and write when."""
    for rows in (problem.overlap, problem.within):
        for i, j, _ in [] if rows is None else rows.tolist():
            a, b = problem.names[i], problem.names[j]
            message = f"the plan lets {b!r} and {a!r} share bytes, and they are requests of a running program"
            yield Violation(Cause.NOT_PERMITTED, message, records=(a, b))


def verify_kernels(planset: PlanSet, graph: Graph, kernels: str) -> tuple[Violation, ...]:
    """Everything that goes wrong when the graph runs inside each plan on kernels of another profile than the target's.

    At most 100 violations; () proves it right there, too, if `verify_planset` finds nothing. `kernels` is one of
    `edgemem.model.profiles.PROFILES`.
    """
    target = planset.target
    if target is None or target.kernels in ("none", kernels):
        return ()
    from edgemem.proof.rehearsal import rehearse

    return tuple(rehearse(replace(planset, target=replace(target, kernels=kernels)), graph))[:MOST]
