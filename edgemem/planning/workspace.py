"""Workspace of kernels, from a runtime that can tell: runtimes register themselves by an entry point."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgemem.formats import find_probe

if TYPE_CHECKING:
    from edgemem.formats import Model
    from edgemem.model.graph import Graph
    from edgemem.targets import Target

__all__ = ["with_workspace"]


def with_workspace(graph: Graph, model: Model, target: Target) -> Graph:
    """The graph with the workspace that the target's runtime adds to it; the graph itself if the target has none.

    Raises ModelError if the runtime does not run this format, and as its probe does.
    """
    return graph if target.scratch == "unknown" else find_probe(target.scratch).annotated(graph, model)
