"""Training steps of PyTorch: inside a plan of their memory, in an order that needs less of it, and under a budget.

Inside a plan:

    plan = edgemem.torch.profile(step, batch, warmup=3).plan()
    with plan.session() as session:
        for batch in batches:
            with session.iteration():
                step(batch)
            with session.paused():
                evaluate()

In another order, with forward, backward and update as one graph:

    graph = edgemem.torch.capture(model, loss_fn, example_batch, optimizer)
    ordering = edgemem.order(graph)
    step = edgemem.torch.reorder(graph, ordering.order)
    for batch in batches:
        loss = step(model, optimizer, batch)

Under a budget of memory, with results evicted and made again:

    with edgemem.torch.rematerialize(budget="2GiB"):
        loss = step(batch)

Importing it without PyTorch raises MissingDependencyError.
"""

from __future__ import annotations

from edgemem.errors import MissingDependencyError

try:
    import torch  # noqa: F401 - nothing here works without it
except ImportError:
    raise MissingDependencyError("torch", purpose="planning a training step") from None

from edgemem.torch.capture import capture
from edgemem.torch.cuda import use_cuda_allocator
from edgemem.torch.graph import TrainingGraph
from edgemem.torch.live_bytes import LiveBytes
from edgemem.torch.marks import ModelHooks, mark
from edgemem.torch.profiler_trace import trace_of_profiler
from edgemem.torch.ranks import plan_ranks
from edgemem.torch.remat.session import Rematerialization, rematerialize
from edgemem.torch.remat.statistics import RematerializationStats
from edgemem.torch.sessions import Session, SessionStats
from edgemem.torch.step import TrainingStep, reorder
from edgemem.torch.step_profile import Profile, profile
from edgemem.torch.training_plan import TrainingPlan

__all__ = [
    "LiveBytes",
    "ModelHooks",
    "Profile",
    "Rematerialization",
    "RematerializationStats",
    "Session",
    "SessionStats",
    "TrainingGraph",
    "TrainingPlan",
    "TrainingStep",
    "capture",
    "mark",
    "plan_ranks",
    "profile",
    "rematerialize",
    "reorder",
    "trace_of_profiler",
    "use_cuda_allocator",
]
