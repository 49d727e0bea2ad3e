"""The places of the tensors of a model that runs node by node: by its plan, or each in memory of its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from edgemem.errors import InvalidPlanError, RuntimeBindError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from edgemem.proof import Proved

__all__ = ["NodeLayout", "planned_layout", "separate_layout"]

_ALIGNMENT = 64


@dataclass(frozen=True, slots=True, eq=False)
class NodeLayout:
    """Places in one arena.

    Attributes:
        offsets: bytes from the arena's start, by tensor.
        size: of the arena in bytes.
        others: bytes of the tensors that have a place in the plan and are not this executor's: those in the bodies of
            control-flow operators, which ONNX Runtime runs whole. By tensor.
    """

    offsets: Mapping[str, int]
    size: int
    others: Mapping[str, int]


def planned_layout(proved: Proved, sizes: Mapping[str, tuple[int, int]], *, remedy: str) -> NodeLayout:
    """The places that the smallest offset plan gives.

    Args:
        proved: plans of the graph that the executor runs (`edgemem.runtime.executors.IO_BINDING`).
        sizes: bytes, and bytes of one element, by tensor, for all that the executor binds.
        remedy: what the user can do about a plan that cannot be run.

    Raises:
        InvalidPlanError: the plan was proved for no graph, or a tensor is larger in ONNX Runtime.
        RuntimeBindError: a tensor's place is no address for its elements.
    """
    best = proved.planset.best_offsets
    assert best is not None
    if not proved.graph:
        raise InvalidPlanError(f"the plan is proved for its usage records, and for no graph; {remedy}")
    offsets: dict[str, int] = {}
    others: dict[str, int] = {}
    for record, offset in zip(proved.planset.problem.records, best.offsets.tolist(), strict=True):
        if record.kind == "scratch":
            continue
        for name in record.tensors:
            if name not in sizes:
                others[name] = int(record.size) if isinstance(record.size, int) else 0
                continue
            size, element = sizes[name]
            if not isinstance(record.size, int) or size > record.size:
                raise InvalidPlanError(
                    f"the plan is refused: {name!r} has {size} bytes in ONNX Runtime, and {record.size} in the plan; "
                    f"{remedy}"
                )
            if element and offset % element:
                raise RuntimeBindError(
                    f"the plan puts {name!r} at {offset}, which is no multiple of its element's {element} bytes; "
                    f"{remedy} --alignment {_ALIGNMENT}"
                )
            offsets[name] = int(offset)
    return NodeLayout(offsets, best.size, others)


def separate_layout(sizes: Mapping[str, tuple[int, int]]) -> NodeLayout:
    """Every tensor in memory of its own, as `planned_layout` takes the sizes: nothing can overwrite anything."""
    offsets: dict[str, int] = {}
    end = 0
    for name, (size, _) in sizes.items():
        offsets[name] = end
        end += -(-size // _ALIGNMENT) * _ALIGNMENT
    return NodeLayout(offsets, end, {})
