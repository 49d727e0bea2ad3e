"""All operators of a graph as nodes that can run in stripes, so that stages are put together quickly."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from edgemem.errors import TilingError
from edgemem.model.overlap import distance
from edgemem.model.rewrite import NEW
from edgemem.passes.streaming.region import StripeStage, region_of
from edgemem.records.micro_tail import kind_bytes, operator_bytes

if TYPE_CHECKING:
    from edgemem.model.graph import Graph, Tensor
    from edgemem.passes.streaming.region import StripeNode
    from edgemem.records.micro_builds import MicroBuild

__all__ = ["Layers", "Map"]


@dataclass(frozen=True, slots=True)
class Map:
    """The bytes of a feature map.

    Attributes:
        height, columns: its places.
        size: of all.
        row: of one row.
        pixel: of all channels at one place.
    """

    height: int
    columns: int
    size: int
    row: int
    pixel: int


class Layers:
    """The operators of a graph as nodes.

    Attributes:
        nodes: operator -> its nodes, in order; None for one that cannot run in stripes. Values that paddings make are
            numbered after the tensors of the graph.
        constants: operators that compute constants from constants -> bytes of the tail.
        maps: the values that nodes read row by row or make.
        cut: a node, by its output -> the values that it reads row by row.
        overlapping: a node, by its output -> the inputs that its result may overlap.
        build: whose tail is counted.
        tails: a node, by its output -> bytes of the tail for one operator of this kind, with its result.
    """

    def __init__(self, graph: Graph, kernels: str, build: MicroBuild) -> None:
        """Of a graph, for a profile of kernels (`edgemem.model.overlap`) and a build of TensorFlow Lite Micro."""
        self.build = build
        self.nodes: dict[int, tuple[StripeNode, ...] | None] = {}
        self.constants: dict[int, int] = {}
        self.maps: dict[int, Map] = {}
        self.cut: dict[int, tuple[int, ...]] = {}
        self.overlapping: dict[int, tuple[int, ...]] = {}
        self.tails: dict[int, int] = {}
        self._graph = graph
        self._kernels = kernels
        self._next = len(graph.tensors)
        for number in range(len(graph.ops)):
            self.nodes[number] = self._nodes(number)

    def _nodes(self, number: int) -> tuple[StripeNode, ...] | None:
        graph, op = self._graph, self._graph.ops[number]
        try:
            region = region_of(graph, StripeStage(number, number, 1))
        except TilingError:
            return None
        tail = self.build.tensor + operator_bytes(graph, op, self.build)
        pad = self.build.tensor + kind_bytes("PAD", self.build)
        if region.constant_ops:
            self.constants[number] = tail
        first, own = len(graph.tensors), self._next
        self._next += len(region.padded)

        def renamed(value: int) -> int:
            return value - first + own if value >= first else value

        tensors = (*graph.tensors, *region.padded)
        made = []
        for old in region.nodes:
            node = replace(old, inputs=tuple(renamed(v) for v in old.inputs), output=renamed(old.output))
            made.append(node)
            self.cut[node.output] = tuple(dict.fromkeys(node.inputs[k] for k in node.window.cut))
            self.overlapping[node.output] = self._overlapping(node)
            self.tails[node.output] = pad if node.source == NEW else tail
        for value in (*region.readers, *region.made):
            self.maps[renamed(value)] = _map_of(tensors[value])
        return tuple(made)

    def _overlapping(self, node: StripeNode) -> tuple[int, ...]:
        if node.source == NEW:  # padding in front of an operator, of which every library's rule is like that of a copy
            return node.inputs if self._kernels != "none" else ()
        graph, op = self._graph, self._graph.ops[node.source]
        return tuple(
            value
            for position, value in enumerate(node.inputs)
            if distance(self._kernels, graph, op, position) is not None
        )


def _map_of(tensor: Tensor) -> Map:
    """A tensor of shape [1, rows, columns, channels] as rows."""
    height, columns = tensor.shape[1:3]
    row = tensor.size // max(height, 1)
    return Map(height, columns, tensor.size, row, row // max(columns, 1))
