"""Plans that hold for a range of sizes: which sizes are looked at, and what goes wrong where.

A plan for a range is made at its largest sizes. At any other sizes the same operators must run on the same tensors,
none of them larger than its place, and what shares memory must be allowed to share it there too. All of this is a
rehearsal of the graph of those sizes in the plan, where places stay as large as they are.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from edgemem.errors import ModelError
from edgemem.formats import Ranged
from edgemem.model.dtypes import DTYPE_BITS
from edgemem.model.graph import digest
from edgemem.model.ranges import points_of
from edgemem.proof.rehearsal import rehearse
from edgemem.records.problem import Problem
from edgemem.records.sizes import tensor_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from edgemem.formats import Model
    from edgemem.model.graph import Graph
    from edgemem.model.ranges import Dimension
    from edgemem.plans import PlanSet
    from edgemem.proof import Violation
    from edgemem.targets import Target

__all__ = ["RangeCheck", "check_range", "graphs_over", "largest_sizes", "plan_at", "widened"]

# Operators times sizes that are looked at; 1,500 operators take about 0.2 s.
_MOST_WORK: Final = 60_000
_MOST_POINTS: Final = 1_000


@dataclass(frozen=True, slots=True)
class RangeCheck:
    """What came of a plan over its range.

    Attributes:
        checked: combinations of sizes that were looked at.
        total: combinations that the ranges have.
        violations: what is wrong at the first sizes where something is, with those sizes; () is right.
    """

    checked: int
    total: int
    violations: tuple[Violation, ...] = ()

    def __str__(self) -> str:
        if self.checked == self.total:
            return f"proved for every value, {self.total:,} in all"
        return f"checked at {self.checked:,} of {self.total:,} values, the ends among them"


def graphs_over(model: Model, operators: int) -> tuple[tuple[tuple[Mapping[str, int], Graph], ...], int]:
    """The graphs of a model at the sizes to look at, the largest first, and how many combinations its ranges have.

    Args:
        model: its bindings have ranges.
        operators: how many the graph has; a larger one is looked at in fewer sizes.

    Raises ModelError, which names the sizes, for sizes that the model does not take, and for formats without symbols.
    """
    if not isinstance(model, Ranged):
        raise ModelError(f"{' and '.join(model.suffixes)} files have no symbolic dimensions that could have a range")
    bindings = model.bindings
    most = max(1, min(_MOST_POINTS, _MOST_WORK // max(operators, 1)))
    points = points_of(bindings.dims, bindings.ranges, most)
    graphs = model.graphs(points.values)
    found = []
    for values in points.values:
        try:
            found.append((values, next(graphs)))
        except ModelError as e:
            raise ModelError(
                f"the model does not take {_said(values, bindings.ranges)}, which is in the range: {e}"
            ) from None
    return tuple(found), points.total


def largest_sizes(graphs: Iterable[Graph], target: Target) -> dict[str, int]:
    """The most bytes that each tensor has in any of the graphs, those of bodies included."""
    largest: dict[str, int] = {}

    def walk(graph: Graph) -> None:
        for tensor in graph.tensors:
            if tensor.kind not in ("constant", "captured", "opaque") and tensor.dtype in DTYPE_BITS:
                largest[tensor.name] = max(largest.get(tensor.name, 0), tensor_bytes(tensor, target, graph.layout))
        for op in graph.ops:
            for body in op.bodies:
                walk(body)

    for graph in graphs:
        walk(graph)
    return largest


def widened(problem: Problem, least: Mapping[str, int]) -> Problem:
    """The problem with records that have room for these many bytes of each of their tensors."""
    sizes = [max((least.get(name, 0) for name in record.tensors), default=0) for record in problem.records]
    if all(not isinstance(r.size, int) or r.size >= size for r, size in zip(problem.records, sizes, strict=True)):
        return problem
    records = [
        replace(r, size=max(r.size, size)) if isinstance(r.size, int) else r
        for r, size in zip(problem.records, sizes, strict=True)
    ]
    return Problem(
        records,
        alignment=problem.alignment,
        reserved=problem.given_reserved,
        overlap=() if problem.overlap is None else problem.overlap,
        within=() if problem.within is None else problem.within,
        roles=problem.roles,
        phases=problem.phases,
    )


def plan_at(planset: PlanSet, graph: Graph, dims: Mapping[str, int]) -> PlanSet:
    """The same places as a plan of the graph at other sizes. It is to be proved for that graph before it is run."""
    return replace(planset, digest=digest(graph), dims=dict(dims), ranges={})


def check_range(
    planset: PlanSet, graphs: Iterable[tuple[Mapping[str, int], Graph]], ranges: Mapping[str, Dimension], total: int
) -> RangeCheck:
    """Rehearse the best plan of each family at other sizes than those it was made for.

    Args:
        planset: the plans, which are right for the sizes in `dims`.
        graphs: sizes, and the graph at these sizes.
        ranges: what the sizes are of.
        total: combinations of values that the ranges have.
    """
    best = replace(
        planset,
        offsets=(planset.best_offsets,) if planset.best_offsets is not None else (),
        shared_objects=(planset.best_shared_objects,) if planset.best_shared_objects is not None else (),
    )
    checked = 0
    for values, graph in graphs:
        checked += 1
        if found := tuple(_at(values, ranges, rehearse(plan_at(best, graph, values), graph))):
            return RangeCheck(checked, total, found)
    return RangeCheck(checked, total)


def _at(
    values: Mapping[str, int], ranges: Mapping[str, Dimension], violations: Iterable[Violation]
) -> Iterator[Violation]:
    said = _said(values, ranges)
    return (replace(v, message=f"at {said}: {v.message}") for v in violations)


def _said(values: Mapping[str, int], ranges: Mapping[str, Dimension]) -> str:
    return " ".join(f"{name}={values[name]}" for name in ranges)
