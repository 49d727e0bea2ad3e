"""The LSTM of oneDNN, which PyTorch runs on the CPU: it keeps a workspace for its backward, its last result.

It makes one only while gradients are enabled, as they are in the forward pass of a model, but not in a captured step.
And only oneDNN knows the size: a fake tensor of the workspace has no bytes.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any, Final

import torch
from torch._subclasses.fake_tensor import FakeTensorMode, unset_fake_temporarily

if TYPE_CHECKING:
    from torch.fx import Graph

__all__ = ["LSTM_LAYER", "measure_workspaces", "run_lstm_layer"]

LSTM_LAYER: Final = torch.ops.aten.mkldnn_rnn_layer.default


def run_lstm_layer(*given: Any) -> tuple[torch.Tensor, ...]:
    """What the operator gives, with its workspace; nothing is recorded for autograd."""
    with torch.enable_grad():
        results: tuple[torch.Tensor, ...] = LSTM_LAYER(
            *(a.detach() if isinstance(a, torch.Tensor) else a for a in given)
        )
    return results


def measure_workspaces(graph: Graph, mode: FakeTensorMode) -> None:
    """Give the workspaces in a traced step, whose nodes have fake values, the sizes that they have in memory.

    Runs one layer of each shape with zeros, and frees it before the next.
    """
    sizes: dict[str, int] = {}
    for node in graph.nodes:
        if node.target is not LSTM_LAYER:
            continue
        given = [a.meta["val"] if isinstance(a, torch.fx.Node) else a for a in node.args]
        key = str([(a.shape, a.dtype) if isinstance(a, torch.Tensor) else a for a in given])
        if key not in sizes:
            sizes[key] = _workspace_size(given)
        with mode:
            workspace = torch.empty(sizes[key], dtype=torch.uint8, device="cpu")
        *others, _ = node.meta["val"]
        node.meta["val"] = (*others, workspace)
        for user in node.users:
            if user.target is operator.getitem and user.args[1] == len(others):
                user.meta["val"] = workspace


def _workspace_size(given: list[Any]) -> int:
    with unset_fake_temporarily():
        zeros = (torch.zeros(a.shape, dtype=a.dtype) if isinstance(a, torch.Tensor) else a for a in given)
        return int(run_lstm_layer(*zeros)[-1].untyped_storage().nbytes())
