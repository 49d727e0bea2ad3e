"""A model's graph as a target's runtime runs it: with the workspace of kernels, by rules or from the runtime itself.

Runtimes register themselves by an entry point.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgemem.formats import find_probe
from edgemem.model.micro_workspace import with_workspace

if TYPE_CHECKING:
    from edgemem.formats import Model
    from edgemem.model.graph import Graph
    from edgemem.targets import Target

__all__ = ["graph_under"]


def graph_under(model: Model, target: Target) -> Graph:
    """The model's graph as the target's runtime runs it, with the workspace of its kernels if the target asks for it.

    Raises as `Model.graph`, ModelError if the runtime does not run this format, and as its probe does.
    """
    graph = model.graph()
    if target.scratch == "tflm":
        return with_workspace(graph, target.pointer_bytes, target.kernels)
    return graph if target.scratch == "unknown" else find_probe(target.scratch).annotated(graph, model)
