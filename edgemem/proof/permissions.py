"""What a graph permits its tensors to share while they are in use together, by the kernels and the rules of a target.

    reach     an output may lie on an input that dies there, `offset_in - offset_out >= distance`
    slots     a slice may lie inside its input, and a piece inside its concatenation, at one place each: the operator
              then copies bytes onto themselves

Both are derived from the graph's operators. The rows of a plan's problem that say the same are claims, and checked.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING

from edgemem.model.overlap import distance
from edgemem.model.slots import find_slots
from edgemem.proof.violations import Cause, Violation

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from edgemem.model.graph import Graph, Op
    from edgemem.plans import PlanSet
    from edgemem.targets import Target

__all__ = ["Alias", "Permission", "check_rows", "permissions_of"]


@dataclass(frozen=True, slots=True)
class Alias:
    """Where a piece may lie inside a whole and has its values; a slice in its input, an input in its concatenation.

    Attributes:
        delta: bytes from the beginning of the whole.
        size: bytes that the two have in common.
    """

    delta: int
    size: int


@dataclass(frozen=True, slots=True)
class Permission:
    """What one operator may do besides views, results in place and states.

    Attributes:
        graph: the one that the operator is in.
        op: the operator.
        kernels: the profile of its kernel.
        aliases: where its outputs may lie in its input, or its inputs in its output, by the names of piece and whole.
    """

    graph: Graph
    op: Op
    kernels: str
    aliases: Mapping[tuple[str, str], Alias]

    def least_distance(self, name: str) -> int | None:
        """The least `offset_in - offset_out` in bytes at which the operator's one output may lie on an input.

        None: they must be disjoint. So they are where the input is read in two positions, or there are more outputs.
        """
        graph, op = self.graph, self.op
        positions = [k for k, i in enumerate(op.inputs) if i >= 0 and graph.tensors[i].name == name]
        return distance(self.kernels, graph, op, positions[0]) if len(positions) == 1 else None


def permissions_of(graph: Graph, target: Target | None) -> list[Permission | None]:
    """What each operator of the graph may do under the target; None: nothing. Operators in bodies are not listed."""
    if target is None or target.texels:
        return [None] * len(graph.ops)
    return [Permission(graph, op, target.kernels, _aliases(graph, op) if target.slots else {}) for op in graph.ops]


def _aliases(graph: Graph, op: Op) -> Mapping[tuple[str, str], Alias]:
    tensors = graph.tensors
    return {
        (tensors[slot.piece].name, tensors[slot.whole].name): Alias(slot.delta, tensors[slot.piece].size)
        for slot in find_slots(graph, op)
    }


def check_rows(planset: PlanSet, graph: Graph) -> Iterator[Violation]:
    """Rows of the problem's `overlap` and `within` that the graph does not permit under the plan's target.

    A problem with such rows lets its plans share what must be disjoint, whether or not one of them does.
    """
    problem = planset.problem
    claimed = {(i, j) for i, j, _ in _rows(problem.overlap)}
    least: dict[tuple[int | None, int | None], int] = {}
    deltas: set[tuple[int | None, int | None, int]] = set()
    place = {name: number for number, record in enumerate(problem.records) for name in record.tensors}
    names = [*(tensor.name for tensor in graph.tensors), ""]  # index -1: absent
    for op, permission in zip(graph.ops, permissions_of(graph, planset.target), strict=True):
        if permission is None:
            continue
        deltas |= {(place.get(piece), place.get(whole), a.delta) for (piece, whole), a in permission.aliases.items()}
        for source, result in product(op.inputs, op.outputs):
            pair = place.get(names[source]), place.get(names[result])
            bytes_ = permission.least_distance(names[source]) if pair in claimed else None
            if bytes_ is not None:
                least[pair] = max(bytes_, least.get(pair, bytes_))
    why = _why(planset.target)
    for i, j, bytes_ in _rows(problem.overlap):
        a, b = problem.names[i], problem.names[j]
        if (i, j) not in least:
            message = f"the plan lets {b!r} lie on {a!r}, which no operator of the graph permits{why}"
            yield Violation(Cause.NOT_PERMITTED, message, records=(a, b))
        elif bytes_ < least[i, j]:
            message = f"the plan lets {b!r} lie on {a!r} at a distance of {bytes_}, and the kernels need {least[i, j]}"
            yield Violation(Cause.NOT_PERMITTED, message, records=(a, b))
    for i, j, delta in _rows(problem.within):
        if (i, j, delta) not in deltas:
            a, b = problem.names[i], problem.names[j]
            message = f"the plan has {a!r} inside {b!r} at {delta}, where no operator of the graph puts it{why}"
            yield Violation(Cause.NOT_PERMITTED, message, records=(a, b))


def _rows(rows: NDArray[np.int64] | None) -> Sequence[tuple[int, int, int]]:
    return [] if rows is None else [(i, j, number) for i, j, number in rows.tolist()]


def _why(target: Target | None) -> str:
    if target is None:
        return ": the plan is for no target"
    slots = "with slots" if target.slots else "without slots"
    return f" on the target {target.name!r} with kernels {target.kernels!r} and {slots}"
