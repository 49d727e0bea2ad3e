"""Names that ONNX Runtime draws for nodes that it inserts, replaced by names that follow from the graph.

ONNX Runtime tells inserted nodes apart by `_token_` and a number, in an order that changes with every process:
`ReorderOutput`, `ReorderOutput_token_22`, `ReorderOutput_token_23`. What a node writes has a name of its own, which
does not change.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from onnx import GraphProto

__all__ = ["settle_names"]

_DRAWN: Final = re.compile(r"_token_[0-9]+")


def settle_names(graph: GraphProto) -> bool:
    """Name inserted nodes after their first result: `ReorderOutput/conv1`, and sort the declared sizes by name.

    The first of several inserted nodes has no number. So all nodes of such a name are named anew. Returns whether there
    were any.
    """
    drawn = {_DRAWN.sub("", node.name) for node in graph.node if _DRAWN.search(node.name)}
    found = [node for node in graph.node if node.output and _DRAWN.sub("", node.name) in drawn]
    taken = {node.name for node in graph.node} - {node.name for node in found}
    for node in found:
        node.name = name = f"{_DRAWN.sub('', node.name)}/{next(filter(None, node.output), '')}"
        while node.name in taken:
            node.name += "'"
        taken.add(name)
    sizes = sorted(graph.value_info, key=lambda value: value.name)
    del graph.value_info[:]
    graph.value_info.extend(sizes)
    return bool(found)
