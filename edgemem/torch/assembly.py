"""Builds the graph of edgemem from a traced step: a tensor for each storage, an operator for each group of nodes."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

from edgemem.model.graph import Op, Tensor
from edgemem.torch.accesses import storage_sizes, storages, tensors_in
from edgemem.torch.graph import TrainingGraph
from edgemem.torch.groups import find_groups

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

    from torch.fx import Node

    from edgemem.torch.graph import StepProgram
    from edgemem.torch.groups import Group

__all__ = ["assemble"]


def assemble(program: StepProgram, updating: AbstractSet[Node], name: str) -> TrainingGraph:
    """The graph of a step whose nodes have fake values.

    Args:
        program: with the graph of FX in PyTorch's order, and its sources.
        updating: the nodes that write parameters and the optimizer's state, and what they compute for it.
        name: of the graph.
    """
    nodes = program.module.graph.nodes
    prologue, groups = find_groups(program.module.graph)
    tensors: list[Tensor] = []
    at: dict[int, int] = {}  # storage -> tensor
    persistent = batch = 0
    placeholders = [n for n in nodes if n.op == "placeholder"]
    for node, source in zip(placeholders, program.sources, strict=True):
        for storage, size in storage_sizes(node).items():
            if storage not in at:
                at[storage] = len(tensors)
                label = f"{source.name}.{source.key}" if source.key else source.name
                tensors.append(_tensor(node, storage, label, size, kind="constant"))
                persistent += size if source.role != "batch" else 0
                batch += size if source.role == "batch" else 0
    for node in nodes:
        if node.op == "get_attr":
            for storage, size in storage_sizes(node).items():
                if storage not in at:
                    at[storage] = len(tensors)
                    tensors.append(_tensor(node, storage, node.name, size, kind="constant"))
                    persistent += size
    for group in groups:
        for number, (storage, size) in enumerate(group.creates.items()):
            if size:
                at[storage] = len(tensors)
                node = group.nodes[0]
                label = f"{node.name}.{number}" if len(group.creates) > 1 else node.name
                tensors.append(_tensor(node, storage, label, size))
    ops = [_operator(group, at) for group in groups]
    output = next(n for n in nodes if n.op == "output")
    outputs = tuple(dict.fromkeys(at[s] for n in output.all_input_nodes for s in storages(n)))
    updates = (
        frozenset(g.nodes[0].name for g in groups if not updating.isdisjoint(g.nodes)) if updating else frozenset()
    )
    return TrainingGraph(
        name,
        tuple(tensors),
        tuple(ops),
        (),
        outputs,
        precedence=tuple(_precedence(groups)),
        nodes={g.nodes[0].name: tuple(g.nodes) for g in groups},
        prologue=tuple(prologue),
        updates=updates,
        persistent=persistent,
        batch=batch,
        program=program,
    )


def _operator(group: Group, at: dict[int, int]) -> Op:
    first = group.nodes[0]
    reads = sorted(at[s] for s in group.reads if s in at)
    outputs = tuple(at[s] for s, size in group.creates.items() if size)
    return Op(first.name, str(first.target), tuple(reads), outputs, ordered=group.ordered)


def _precedence(groups: list[Group]) -> list[tuple[int, int]]:
    """The pairs that tensors do not tell already."""
    return [
        (first, then)
        for then, group in enumerate(groups)
        for first in group.before
        if not any(size and s in group.reads for s, size in groups[first].creates.items())
    ]


def _tensor(node: Node, storage: int, name: str, size: int, **kind: Any) -> Tensor:
    """A tensor as large as a storage: with the shape of the one that fills it, else as plain bytes."""
    for value in tensors_in(node.meta["val"]):
        if value.untyped_storage()._cdata == storage:  # noqa: SLF001
            dtype, shape = str(value.dtype).removeprefix("torch.").replace("_", ""), tuple(value.shape)
            if prod(shape) * value.element_size() == size:
                return Tensor(name, dtype, shape, **kind)
    return Tensor(name, "uint8", (size,), **kind)
