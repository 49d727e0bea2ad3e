"""Which records are the same tensor of different stripes, derived from the graph alone.

A graph that runs in stripes computes a layer by several operators of one type with the same weights, whose inputs are
again the same tensors of their stripes. A slice is the tensor that it is cut from, and a concatenation the tensor that
all its inputs are. Of one layer there are then three roles: the rows that an operator makes, the rows that are kept for
the next stripe, and both together.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from edgemem.model.slots import CONCATENATIONS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from edgemem.model.graph import Graph
    from edgemem.model.slots import Slot
    from edgemem.records.problem import UsageRecord

__all__ = ["roles_of"]

# Their constants say how much they pad, which differs from stripe to stripe.
_PADDINGS = frozenset(("PAD", "PADV2", "Pad"))


def roles_of(graph: Graph, records: Sequence[UsageRecord], slots: Sequence[tuple[Slot, ...]]) -> tuple[int, ...] | None:
    """The role of each record; -1 for one that is alone in its own. None if all are.

    Args:
        graph: the graph, with operators in time.
        records: usage records with the names of their tensors; tensors of bodies have no roles.
        slots: of each operator of the graph (`find_slots`).
    """
    layers: dict[object, int] = {}  # what a layer is -> its number
    layer: dict[int, int] = {}  # tensor -> layer
    kind: dict[int, str] = {}
    steps = list(zip(graph.ops, slots, strict=True))
    together = {slot.piece for op, found in steps if op.type in CONCATENATIONS for slot in found}

    def number(key: object) -> int:
        return layers.setdefault(key, len(layers))

    def of(index: int) -> int:
        if index not in layer:
            layer[index] = number(("tensor", index))
        return layer[index]

    for op, found in steps:
        read = [of(index) for index in op.inputs if index >= 0 and not _is_constant(graph, index)]
        if found and op.type in CONCATENATIONS and len(set(read)) == 1:
            made = read[0]
            kind[op.outputs[0]] = "window"
        elif found and op.type not in CONCATENATIONS:
            made = of(found[0].whole)
            kind.update((slot.piece, "tail" if slot.piece in together else "view") for slot in found)
        else:
            constants = () if op.type in _PADDINGS else tuple(i for i in op.inputs if i >= 0 and _is_constant(graph, i))
            made = number((op.type, constants, tuple(read)))
        for place, index in enumerate(op.outputs):
            if index >= 0:
                layer[index] = made if found or not place else number(("output", made, place))
    roles: dict[tuple[int, str], int] = {}
    by_name = {
        tensor.name: roles.setdefault((layer[index], kind.get(index, "made")), len(roles))
        for index, tensor in enumerate(graph.tensors)
        if index in layer
    }
    given = [by_name.get(record.tensors[0], -1) if record.tensors else -1 for record in records]
    often = Counter(given)
    shared = tuple(role if often[role] > 1 else -1 for role in given)
    return shared if max(shared, default=-1) >= 0 else None


def _is_constant(graph: Graph, index: int) -> bool:
    return graph.tensors[index].kind == "constant"
