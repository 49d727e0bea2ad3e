"""The whole arena of TensorFlow Lite Micro, predicted: its head, its tail, and what it takes to prepare a model.

While a model is prepared, lists of buffers lie where tensors will be, below a tail that is almost complete. In small
models they need more than the tensors do, and then they decide how large the arena has to be.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from edgemem.records.micro_buffers import buffers_of
from edgemem.records.micro_planner import predicted_head
from edgemem.records.micro_tail import (
    channels_of,
    scales_of,
    subgraphs_of,
    tail_stages,
    workspace_pieces,
    zero_points,
)
from edgemem.records.sizes import padded

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from edgemem.model.graph import Graph, Op
    from edgemem.records.micro_builds import MicroBuild
    from edgemem.records.micro_planner import MicroHead

__all__ = ["MicroArena", "MicroModel", "predicted_arena", "prepared_bytes", "shared_arena"]

_ALIGNMENT: Final = 16
# Which input is the bias.
_BIAS: Final[Mapping[str, int]] = {"CONV_2D": 2, "DEPTHWISE_CONV_2D": 2, "FULLY_CONNECTED": 2, "TRANSPOSE_CONV": 3}
# Kernels that ask twice for all of their tensors but the bias; nothing is given back before they are prepared.
_TWICE: Final = frozenset(
    (
        *("CONV_2D", "DEPTHWISE_CONV_2D", "TRANSPOSE_CONV"),
        *("MEAN", "SUM", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_ALL"),
    )
)
_PIECES: Final = 12  # of workspace that an operator may ask for; there is room for so many more
_PLANNED: Final = 40  # bytes for a buffer in the planner's lists, whatever the pointers


@dataclass(frozen=True, slots=True)
class MicroArena:
    """The parts of an arena, in bytes.

    Attributes:
        head: tensors and workspace.
        tail: structures and state, which live as long as the interpreter.
        preparing: what the arena has to hold while the model is prepared.
    """

    head: MicroHead
    tail: int
    preparing: int

    @property
    def total(self) -> int:
        """The arena in which the model can be prepared and run."""
        return padded(max(self.head.total + self.tail, self.preparing), _ALIGNMENT)


def predicted_arena(graph: Graph, offline: Mapping[str, int], build: MicroBuild) -> MicroArena:
    """The arena for the graph of a .tflite file.

    Args:
        graph: of the file.
        offline: offsets that the file decides, by tensor.
        build: which TensorFlow Lite Micro it is, with its kernels.
    """
    return shared_arena([MicroModel(graph, offline, build.kernels)], build)


@dataclass(frozen=True, slots=True)
class MicroModel:
    """A model in an arena.

    Attributes:
        graph: of a .tflite file.
        offline: offsets that the file decides, by tensor.
        kernels: the profile; `none` for the reference kernels.
    """

    graph: Graph
    offline: Mapping[str, int]
    kernels: str = "none"


def shared_arena(models: Sequence[MicroModel], build: MicroBuild) -> MicroArena:
    """The one arena of interpreters with one `MicroAllocator`, which run one after the other.

    All heads begin where the arena does. The head is the largest of them, and a run destroys what others left there,
    their inputs and outputs too. Tails add up, without the allocator. A model is prepared above the tail of those
    before it.

    Args:
        models: in the order in which their tensors are allocated; each has resource variables of its own, which are
            made just before.
        build: which TensorFlow Lite Micro it is, whatever its kernels.
    """
    heads, tail, preparing = [], 0, 0
    for model in models:
        own = replace(build, kernels=model.kernels)
        heads.append(predicted_head(model.graph, model.offline, own.pointer, own.kernels))
        preparing = max(preparing, prepared_bytes(model.graph, own, tail))
        tail = tail_stages(model.graph, own, tail).total
    return MicroArena(max(heads, key=lambda head: head.total), tail, preparing)


def prepared_bytes(graph: Graph, build: MicroBuild, used: int = 0) -> int:
    """What the arena has to hold while a model is prepared, whatever the plan.

    `used` is the tail of the models that were prepared before; the other arguments are those of `predicted_arena`.
    """
    graphs, pointer = subgraphs_of(graph), build.pointer
    operators = [(each, op) for each in graphs for op in each.ops]
    pieces = workspace_pieces(operators, build)
    requests = (pointer + 8) * (pieces + _PIECES)
    tail = tail_stages(graph, build, used)
    kernel = max((_while_prepared(each, op, build) for each, op in operators), default=0)
    buffers = sum(len(each.tensors) for each in graphs) + pieces
    lists = requests + pointer * len(graphs) + (2 * pointer + 16) * buffers
    planner = padded(lists, _ALIGNMENT) + _PLANNED * len(buffers_of(graph, pointer, build.kernels))
    return padded(tail.planned, _ALIGNMENT) + max(requests + kernel, planner)


def _while_prepared(graph: Graph, op: Op, build: MicroBuild) -> int:
    """At most what an operator's tensors take while its kernel is prepared: some weights have a scale a channel."""
    is_quantised = any(i >= 0 and scales_of(graph.tensors[i]) for i in op.inputs)
    channels = channels_of(graph, op)
    bias = _BIAS.get(op.type, -1)
    asks_twice = op.type in _TWICE or (op.type == "AVERAGE_POOL_2D" and build.kernels.startswith("cmsis-nn"))
    total = 0
    for position, index in enumerate((*op.inputs, *op.outputs)):
        if index >= 0:
            size, tensor = build.end, graph.tensors[index]
            scales = scales_of(tensor)
            if tensor.scales < 0 and is_quantised and position in (1, bias):
                scales = channels
            if scales:
                size += padded(build.quantised - zero_points(1) + zero_points(scales), build.pointer)
            total += 2 * size if asks_twice and position != bias else size
    return total
