"""Which operators a stage may consist of, and what they cost as they are: the edges that chains are made of."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from edgemem.errors import TilingError
from edgemem.model.overlap import distance
from edgemem.model.steps import steps_of
from edgemem.passes.streaming.chains import Edge
from edgemem.passes.streaming.cost import RegionCost
from edgemem.passes.streaming.layers import Layers
from edgemem.records.lifetime import find_lives
from edgemem.records.micro_builds import build_of
from edgemem.records.micro_tail import operator_bytes
from edgemem.records.sizes import tensor_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from edgemem.model.graph import Graph
    from edgemem.targets import Target

__all__ = ["StageGraph"]

_MOST_CUTS: Final = 28  # operators at which a stage may begin or end
_CUTS_BETWEEN: Final = 2  # of them between two operators above the level, besides the outermost two
# Stripes that are tried first, as parts of the rows of a stage's first result.
_PARTS: Final = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)


@dataclass(frozen=True, slots=True)
class _Span:
    """When a tensor is in the arena: operators, inclusive."""

    first: int
    last: int
    size: int


class StageGraph:
    """A graph under a target, as the choice of stages sees it. Operators with bodies are left as they are."""

    def __init__(self, graph: Graph, target: Target) -> None:
        """Reads the lives of all tensors."""
        self.graph = graph
        self.target = target
        steps = steps_of(graph, bodies=False)
        lives = find_lives(graph, steps, target, apart=True)
        self._spans: dict[int, _Span] = {}
        for index, tensor in enumerate(graph.tensors):
            life = lives.get(tensor.name)
            if life is not None and not life.outside:
                first = -1 if life.present else life.first
                last = len(graph.ops) if life.kept or index in graph.outputs else life.last
                self._spans[index] = _Span(first, last, tensor_bytes(tensor, target, graph.layout))
        self.layers = Layers(graph, target.kernels, build_of(target))
        self._regions: dict[tuple[int, int], RegionCost | None] = {}

    @cached_property
    def plain(self) -> tuple[Edge, ...]:
        """Every operator as it is."""
        return tuple(self._plain(k) for k in range(len(self.graph.ops)))

    @cached_property
    def alive(self) -> tuple[int, ...]:
        """Bytes of the tensors that are alive before each operator and were made before it; one entry more."""
        change = [0] * (len(self.graph.ops) + 2)
        for span in self._spans.values():
            if span.last > span.first:
                change[span.first + 1] += span.size
                change[span.last + 1] -= span.size
        alive, total = [], 0
        for step in change[:-1]:
            total += step
            alive.append(total)
        return tuple(alive)

    @cached_property
    def floor(self) -> int:
        """The most bytes at an operator that no stage can have: no chain has a smaller arena."""
        return max((e.peak for k, e in enumerate(self.plain) if self.region(k, k) is None), default=0)

    def cuts(self, level: int) -> tuple[int, ...]:
        """Operators before which a stage may begin or end: where little is alive, near operators above a level."""
        alive, count = self.alive, len(self.graph.ops)
        hot = [k for k, edge in enumerate(self.plain) if edge.peak > level]
        if not hot:
            return ()
        can_stream = [self.region(k, k) is not None for k in range(count)]
        found = []
        for k in range(1, count):
            is_low = alive[k] <= alive[k - 1] and alive[k] <= alive[k + 1]
            if is_low or can_stream[k - 1] != can_stream[k]:
                found.append(k)
        # Between two operators above the level, stages that begin or end at any of the cuts are much the same.
        chosen = set()
        for before, after in pairwise((-1, *hot, count)):
            between = [k for k in (0, *found, count) if before < k <= after]
            chosen.update(sorted(between, key=lambda k: (alive[k], k))[:_CUTS_BETWEEN])
            chosen.update((*between[:1], *between[-1:]))
        lowest = sorted(chosen, key=lambda k: (alive[k], k))[:_MOST_CUTS]
        return tuple(sorted(lowest))

    def region(self, first: int, last: int) -> RegionCost | None:
        """The operators from `first` to `last` as a stage; None if they cannot be one."""
        key = first, last
        if key not in self._regions:
            self._regions[key] = self._region(first, last)
        return self._regions[key]

    def stages(self, level: int) -> list[Edge]:
        """Stages between the cuts of a level, each in a few numbers of stripes, with an operator above the level.

        They are those that go below what their operators take as they are.
        """
        cuts, plain, edges = self.cuts(level), self.plain, []
        for at, first in enumerate(cuts):
            for end in cuts[at + 1 :]:
                most = max(edge.peak for edge in plain[first:end])
                if most <= level:
                    continue
                region = self.region(first, end - 1)
                if region is None:
                    break
                stripes = sorted({max(-(-region.height // part), 2) for part in _PARTS})
                edges += [edge for edge in self.edges(first, end - 1, stripes) if edge.peak < most]
        return edges

    def edges(self, first: int, last: int, stripes: Sequence[int]) -> list[Edge]:
        """The stage of these operators in each of these numbers of stripes; [] if they cannot be one."""
        region = self.region(first, last)
        if region is None:
            return []
        return [
            Edge(first, last + 1, number, cost.peak, cost.operators, cost.tail)
            for number, cost in zip(stripes, region.costs(stripes), strict=True)
        ]

    def all_stripes(self, first: int, last: int) -> list[Edge]:
        """The stage of these operators in every number of stripes that differs from others in its rows."""
        region = self.region(first, last)
        height = region.height if region is not None else 0
        return self.edges(first, last, sorted({-(-height // rows) for rows in range(1, height)}))

    def _region(self, first: int, last: int) -> RegionCost | None:
        nodes = [self.layers.nodes[k] for k in range(first, last + 1)]
        if None in nodes or not any(nodes):
            return None
        read = {v for made in nodes for node in made or () for v in self.layers.cut[node.output]}
        through, lasting = 0, set()
        for index, span in self._spans.items():
            if span.first < first <= span.last and index not in read:
                through += span.size
            if span.first <= last < span.last:
                lasting.add(index)
        try:
            return RegionCost(self.layers, first, last, through=through, lasting=frozenset(lasting))
        except TilingError:
            return None

    def _plain(self, number: int) -> Edge:
        """An operator with everything alive as it runs, less what its result may overlap."""
        op = self.graph.ops[number]
        made = [i for i in dict.fromkeys(op.outputs) if i in self._spans]
        total = self.alive[number] + sum(self._spans[i].size for i in made) + sum(op.scratch)
        saved = 0
        if len(made) == 1:
            size = self._spans[made[0]].size
            for position, index in enumerate(op.inputs):
                span = self._spans.get(index)
                if span is None or span.last != number or op.inputs.count(index) > 1:
                    continue
                gap = distance(self.target.kernels, self.graph, op, position)
                if gap is not None:
                    saved = max(saved, min(size - max(gap, 0), span.size))
        build = self.layers.build
        tail = operator_bytes(self.graph, op, build) + build.tensor * len(made)
        return Edge(number, number + 1, 0, total - saved, 1, tail)
