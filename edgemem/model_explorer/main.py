"""Node data for the graph that Model Explorer shows: the bytes alive while each node runs.

Model Explorer makes the graph, by its own adapter for TFLite or by that of `model-explorer-onnx`, and gives it to the
extension. Nodes are found by the tensors that they write, whose names both keep.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from model_explorer import (
    GetConfigEditorsResult,
    NodeDataProvider,
    NodeDataProviderFilter,
    NodeDataProviderMetadata,
    NodeDataProviderResult,
)
from model_explorer.node_data_builder import GradientItem, GraphNodeData, NodeDataResult

from edgemem.commands.planned_memory import memory_of, planned_file
from edgemem.errors import EdgememError
from edgemem.report.model_explorer import GRADIENT, alive_by_tensor, title

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["AliveBytes"]


class AliveBytes(NodeDataProvider):
    """The bytes alive while each node runs, in the plan that the model holds or that is made for it."""

    metadata = NodeDataProviderMetadata(
        id="edgemem",
        name="edgemem: bytes alive",
        description="The bytes of intermediate tensors that are alive while each node runs; the peak is the darkest.",
        icon="memory",
        filter=NodeDataProviderFilter(modelFileExts=["onnx", "tflite"]),
    )

    def get_config_editors(self, provider_id: str) -> Any:  # noqa: ARG002 (Model Explorer gives it by name)
        """No settings."""
        return GetConfigEditorsResult(configEditors=[])

    def run(
        self,
        provider_id: str,  # noqa: ARG002
        model_path: str,
        graph_id: str,  # noqa: ARG002
        config_values: dict[str, Any],  # noqa: ARG002
        graph: Any,
    ) -> Any:
        """A `NodeDataProviderResult` with a value for each node whose tensors are in the model, or with an error."""
        path = Path(model_path)
        try:
            memory = memory_of(planned_file(path), path.name)
        except EdgememError as e:
            return NodeDataProviderResult(error=str(e))
        alive = alive_by_tensor(memory)
        results = {
            node.id: NodeDataResult(value=alive[name]) for node in graph.nodes for name in _names(node) if name in alive
        }
        gradient = [GradientItem(**stop) for stop in GRADIENT]
        return NodeDataProviderResult(result=GraphNodeData(results=results, name=title(memory), gradient=gradient))


def _names(node: Any) -> Iterator[str]:
    """The tensors that a node writes: `tensor_name` in graphs of TFLite, `__tensor_tag` in those of ONNX."""
    for output in node.outputsMetadata:
        attributes = {item.key: item.value for item in output.attrs}
        yield attributes.get("tensor_name") or attributes.get("__tensor_tag", "")
