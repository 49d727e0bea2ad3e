"""Memory of each operator as node data of Model Explorer (github.com/google-ai-edge/model-explorer).

Nodes are told by the names of their output tensors, which Model Explorer keeps for TFLite and ONNX alike.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from edgemem.errors import PlanError
from edgemem.report.sizes import size_text

if TYPE_CHECKING:
    from edgemem.report.planned_memory import PlannedMemory

__all__ = ["as_node_data"]

_GRADIENT: Final = [{"stop": 0, "bgColor": "#ffffff"}, {"stop": 1, "bgColor": "#e8590c"}]


def as_node_data(memory: PlannedMemory) -> str:
    """JSON with the bytes alive while each operator runs; the peak is the darkest node.

    Raises PlanError for a plan without a graph, whose operators have no outputs.
    """
    if not any(op.writes for op in memory.operators):
        raise PlanError(f"{memory.name} names no tensors that operators write; give the model, not the plan alone")
    results: dict[str, Any] = {}
    alive = _alive(memory)
    for k, op in enumerate(memory.operators):
        for tensor in op.writes[:1]:
            results[memory.tensors[tensor].name] = {"value": alive[k]}
    data = {
        "name": f"{memory.unit} alive ({size_text(memory.arena, texels=memory.unit == 'texels')} arena)",
        "results": results,
        "gradient": _GRADIENT,
    }
    return json.dumps(data, indent=1) + "\n"


def _alive(memory: PlannedMemory) -> list[int]:
    """The sum of the sizes that are alive at each operator."""
    changes = [0] * (memory.steps + 1)
    for record in memory.records:
        changes[record.first] += record.size
        changes[record.last + 1] -= record.size
    found, total = [], 0
    for change in changes:
        total += change
        found.append(total)
    return found
