"""Training steps of PyTorch: forward, backward and update as one graph, and in an order that needs less memory.

    graph = edgemem.torch.capture(model, loss_fn, example_batch, optimizer)
    ordering = edgemem.order(graph)
    step = edgemem.torch.reorder(graph, ordering.order)
    for batch in batches:
        loss = step(model, optimizer, batch)

Importing it without PyTorch raises MissingDependencyError.
"""

from __future__ import annotations

from edgemem.errors import MissingDependencyError

try:
    import torch  # noqa: F401 - nothing here works without it
except ImportError:
    raise MissingDependencyError("torch", extra="torch", purpose="ordering a training step") from None

from edgemem.torch.capture import capture
from edgemem.torch.graph import TrainingGraph
from edgemem.torch.live import LiveBytes
from edgemem.torch.step import TrainingStep, reorder

__all__ = ["LiveBytes", "TrainingGraph", "TrainingStep", "capture", "reorder"]
