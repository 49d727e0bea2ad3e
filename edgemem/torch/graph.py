"""A training step as a graph of edgemem, with what it takes to run it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias

from edgemem.model.graph import Graph

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch.fx import GraphModule, Node

    from edgemem.torch.optimizers import ParameterGroup
    from edgemem.torch.surroundings import Surroundings

__all__ = ["Role", "Source", "StepProgram", "TrainingGraph"]

Role: TypeAlias = Literal["parameter", "buffer", "state", "batch", "scalar"]


@dataclass(frozen=True, slots=True)
class Source:
    """Where a step takes one of its inputs from.

    Attributes:
        role: a parameter or buffer of the model, a state of the optimizer for a parameter, a tensor of the batch, or a
            number that the optimizer gives a group of parameters, such as the learning rate.
        name: of the parameter or buffer; of the parameter that the state belongs to; of the number.
        key: of the state; "" for everything else.
        index: the number of the batch's leaf, or of the group of parameters.
        form: shape, stride, dtype and device of a tensor. The step is right for these alone.
    """

    role: Role
    name: str
    key: str = ""
    index: int = -1
    form: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class StepProgram:
    """What a step runs.

    Attributes:
        module: holds the graph of FX, in PyTorch's order, and the constants it reads.
        sources: of its placeholders, in order.
        batch: the structure of the batch, and the leaves that are no tensors, by number.
        groups: how each group of parameters is updated; () where the step ends with the gradients.
        optimizer: the class that updates them; None without one.
        parameters: those with gradients, by name, in the order of the outputs behind the loss. () with an optimizer.
        gradients: of each parameter of the model, whether it requires one.
        members: the parameters of each group of the optimizer.
        written: which sources the step writes, by number.
        aliases: which of them share memory with others.
        surroundings: what else decides the step.
    """

    module: GraphModule
    sources: tuple[Source, ...]
    batch: tuple[Any, Mapping[int, Any]]
    groups: tuple[ParameterGroup, ...]
    optimizer: type | None
    parameters: tuple[str, ...]
    gradients: Mapping[str, bool]
    members: tuple[tuple[str, ...], ...]
    written: frozenset[int]
    aliases: frozenset[tuple[int, ...]]
    surroundings: Surroundings


@dataclass(frozen=True, slots=True)
class TrainingGraph(Graph):
    """One training step: forward, backward and update, in PyTorch's order.

    Every planned tensor is a storage: views of it and updates in place are no tensors of their own, but make operators
    wait for each other (`precedence`). Parameters, buffers, the optimizer's state and the batch are constants, although
    the step writes some of them: they are there before it and after it, and count apart.

    Attributes:
        nodes: for each operator, by name, the nodes of FX that it runs: one that allocates, if any, and then those that
            allocate nothing.
        prologue: nodes that allocate nothing and wait for nothing, such as transposed weights. They run first.
        updates: the names of the operators that write parameters or the optimizer's state.
        persistent: bytes of parameters, buffers and the optimizer's state. (Adam's counters of steps are left out.)
        batch: bytes of the batch.
        program: what the nodes belong to.
    """

    default_target: ClassVar[str] = "pytorch"

    nodes: Mapping[str, tuple[Node, ...]] = field(default_factory=dict, hash=False, compare=False, repr=False)
    prologue: tuple[Node, ...] = field(default=(), compare=False, repr=False)
    updates: frozenset[str] = frozenset()
    persistent: int = 0
    batch: int = 0
    program: StepProgram | None = field(default=None, compare=False, repr=False)
