"""Memory of each operator as node data of Model Explorer (github.com/google-ai-edge/model-explorer).

A file of node data is keyed by graph and by node. Of a node it takes the name, as the graphs of ONNX files have it, or
the name of a tensor that it writes, as those of TFLite files do.
"""

from __future__ import annotations

import json
from itertools import accumulate
from typing import TYPE_CHECKING, Final

from edgemem.errors import PlanError
from edgemem.report.sizes import size_text

if TYPE_CHECKING:
    from edgemem.report.planned_memory import PlannedMemory

__all__ = ["GRADIENT", "alive_by_tensor", "as_node_data", "title"]

GRADIENT: Final = ({"stop": 0, "bgColor": "#ffffff"}, {"stop": 1, "bgColor": "#e8590c"})


def title(memory: PlannedMemory) -> str:
    """What the values are, for people."""
    return f"{memory.unit} alive ({size_text(memory.arena, texels=memory.unit == 'texels')} arena)"


def alive_by_tensor(memory: PlannedMemory) -> dict[str, int]:
    """Of each tensor that an operator writes, the bytes or texels that are alive while that operator runs."""
    alive = _alive(memory)
    return {memory.tensors[t].name: alive[k] for k, op in enumerate(memory.operators) for t in op.writes}


def as_node_data(memory: PlannedMemory, graph: str) -> str:
    """JSON with the bytes alive while each operator runs; the peak is the darkest node.

    Args:
        memory: of a plan with a graph.
        graph: the graph's name in the model's file. Operators of bodies are among its own.

    Raises PlanError for a plan without a graph, whose operators have no outputs.
    """
    values = alive_by_tensor(memory)
    if not values:
        raise PlanError(f"{memory.name} names no tensors that operators write; give the model, not the plan alone")
    # A node of an ONNX file may have the name of a tensor that another one writes: there the node's name counts.
    values |= {op.label: alive for op, alive in zip(memory.operators, _alive(memory), strict=True)}
    results = {name: {"value": value} for name, value in values.items()}
    return json.dumps({graph: {"name": title(memory), "results": results, "gradient": GRADIENT}}, indent=1) + "\n"


def _alive(memory: PlannedMemory) -> list[int]:
    """The sum of the sizes that are alive at each operator; indices beyond the operators may be timestamps."""
    count = len(memory.operators)
    changes = [0] * (count + 1)
    for record in memory.records:
        changes[min(record.first, count)] += record.size
        changes[min(record.last + 1, count)] -= record.size
    return list(accumulate(changes[:count]))
