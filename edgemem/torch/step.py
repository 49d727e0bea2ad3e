"""Runs a training step in a given order, on a real model, and frees every storage after its last use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx import Graph, GraphModule

from edgemem.errors import ModelError, RuntimeBindError
from edgemem.torch.lstm import LSTM_LAYER, run_lstm_layer
from edgemem.torch.step_inputs import bind
from edgemem.torch.surroundings import KeptCasts

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from torch.fx import Node

    from edgemem.torch.graph import StepProgram, TrainingGraph

__all__ = ["TrainingStep", "reorder"]


def reorder(graph: TrainingGraph, order: Sequence[int] | None = None) -> TrainingStep:
    """A training step that runs in another order and frees every storage after its last use.

    Args:
        graph: what `capture` gave.
        order: of its operators, as `edgemem.order` gives it; None for the graph's own.

    Raises:
        ModelError: the order is not topological, or the graph has no program.
        RuntimeBindError: the model holds a tensor without memory that is neither parameter nor buffer.
    """
    if graph.program is None:
        raise ModelError("the graph has no program; use one that edgemem.torch.capture gave")
    # The graph checks that each operator runs after those that it waits for.
    ops = graph.ops if order is None else graph.reordered(tuple(order)).ops
    source = graph.program.module
    nodes = list(source.graph.nodes)
    made = Graph()
    copies: dict[Node, Node] = {}

    def copy(some: Iterable[Node]) -> None:
        for node in some:
            copies[node] = made.node_copy(node, copies.__getitem__)
            if node.target is LSTM_LAYER:
                copies[node].target = run_lstm_layer

    copy(n for n in nodes if n.op in ("placeholder", "get_attr"))
    copy(graph.prologue)
    for op in ops:
        copy(graph.nodes[op.name])
    copy(n for n in nodes if n.op == "output")
    for node in nodes:
        if node.op == "get_attr" and isinstance(getattr(source, node.target), FakeTensor):
            raise RuntimeBindError(
                "the model holds a tensor without memory that is neither parameter nor buffer; capture the real model"
            )
    return TrainingStep(graph.program, GraphModule(source, made))


class TrainingStep:
    """One training step: `loss = step(model, optimizer, batch)`.

    Attributes:
        module: the nodes of FX in their order; its code frees every value after its last use.
    """

    def __init__(self, program: StepProgram, module: GraphModule) -> None:
        """Called by `reorder`."""
        self.module = module
        self._program = program
        self._casts = KeptCasts()

    def __call__(
        self, model: torch.nn.Module, optimizer: torch.optim.Optimizer | None, batch: Sequence[Any]
    ) -> torch.Tensor:
        """Run the step and give the loss.

        Parameters, buffers and the optimizer's state are updated in place, as by `loss.backward()` and
        `optimizer.step()`. `.grad` stays as it is; but without an optimizer, gradients are added to it.

        Args:
            model: the model that was captured, or one like it, with memory.
            optimizer: of the class and with the options that were captured. Its numbers, such as the learning rate, are
                read at each call.
            batch: the model's input and the target, in the form of the example.

        Raises RuntimeBindError where one of them is not like what was captured; then nothing has changed.
        """
        parameters = dict(model.named_parameters())
        self._program.surroundings.check(model)
        self._casts.check(updates=optimizer is not None)
        with torch.no_grad():
            values = bind(self._program, parameters, dict(model.named_buffers()), optimizer, batch)
            loss, *gradients = self.module(*values)
            for name, gradient in zip(self._program.parameters, gradients, strict=True):
                before = parameters[name].grad
                parameters[name].grad = gradient if before is None else before + gradient
        if optimizer is not None:
            optimizer._opt_called = True  # noqa: SLF001 - else schedulers warn that no step was done before theirs
        return loss
