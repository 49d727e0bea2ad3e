"""Chooses the stages and the number of tiles by itself.

    operators     0 ......... 9 10 ...... 20 21 22 23 ...
    a choice      [ 14 tiles  ] [ 7 tiles  ]  as they are         its peak is the largest of the parts' peaks, its
                                                                  price the sum of what the tiles compute twice

For a limit of the peak, dynamic programming over the operators finds the stages with the least arithmetic: a state is a
place in the order, and whether the operator before it ran in tiles. The least limit that the permitted arithmetic pays
for is found by bisection. Stages begin and end where few bytes go from one operator to the next.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Final

import numpy as np

from edgemem.errors import UnsupportedError
from edgemem.passes.tiling.cost import Costs
from edgemem.passes.tiling.kernels import workspace
from edgemem.passes.tiling.stage import TileStage
from edgemem.records.lifetime import lifetimes
from edgemem.strategy.bounds import operator_breadths

if TYPE_CHECKING:
    from collections.abc import Sequence

    from edgemem.model.graph import Graph
    from edgemem.targets import Target

__all__ = ["TileChoice", "TileSearch", "find_stages"]

_ROWS: Final = (2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 56, 64)
_COLUMNS: Final = (1, 2, 4)
_MOST_TILES: Final = 64
_MOST_ENDS: Final = 48  # places where a stage may end
_MANY: Final = 200  # operators from which on every other number of rows is tried, and half as many places
_LONGEST: Final = 48  # operators in a stage
_OPERATOR: Final = 100_000  # multiply-accumulate operations in the time that one more operator takes (measured: 3.5 us)
_PRECISION: Final = 1 / 256  # of the least peak
_SLACK: Final = 1 / 64  # by which the peak may exceed the least for less arithmetic


@dataclass(frozen=True, slots=True)
class TileChoice:
    """Stages, and what they are estimated to cost.

    Attributes:
        stages: in the order of the graph; () where no tiles make the peak smaller.
        peak: bytes, with the workspace of kernels on one thread.
        macs_ratio: arithmetic with them / without.
    """

    stages: tuple[TileStage, ...]
    peak: int
    macs_ratio: float


@dataclass(frozen=True, slots=True)
class _Way:
    """How the operators up to a place run."""

    extra: int  # multiply-accumulate operations that are computed twice
    operators: int
    stage: TileStage | None = None
    before: _Way | None = None

    def cost(self, price: int) -> tuple[int, int]:
        """What ways are compared by, where an operator costs so much arithmetic."""
        return self.extra + price * self.operators, self.operators

    def rows(self, op: int) -> int:
        """In how many rows of tiles an operator before the place ran; 1 if it ran as it is."""
        way: _Way | None = self
        while way is not None:
            if way.stage is not None and way.stage.first <= op:
                return way.stage.rows if op <= way.stage.last else 1
            way = way.before
        return 1

    def stages(self) -> tuple[TileStage, ...]:
        found = []
        way: _Way | None = self
        while way is not None:
            if way.stage is not None:
                found.append(way.stage)
            way = way.before
        return tuple(reversed(found))


def find_stages(
    graph: Graph, target: Target, *, max_macs: float = 1.15, budget: int | None = None, threads: Sequence[int] = (1,)
) -> TileChoice:
    """The stages with the least peak (within 2 %, where that saves arithmetic), or the least arithmetic for a budget.

    Args:
        graph: with its operators in the order in which they run.
        target: whose rules count memory.
        max_macs: the most arithmetic, as a multiple of the graph's.
        budget: bytes; where they suffice, the stages are those with the least arithmetic, else with the least peak.
        threads: no convolution is cut so that a kernel adds up its sums in other blocks than for the whole, on any of
            these numbers of threads; () for a graph that ONNX Runtime will optimise to the level `all`, whose kernels
            have the same blocks for every part.

    Returns the same for the same graph on every machine, and no stages for one with loops or branches. Raises
    UnsupportedError for a target with layers of textures.
    """
    return TileSearch(graph, target, threads).find(max_macs=max_macs, budget=budget)


class TileSearch:
    """The ways to run one graph. Arguments as `find_stages`; what one search has computed, the next one finds."""

    def __init__(self, graph: Graph, target: Target, threads: Sequence[int] = (1,)) -> None:
        if target.layer_rows:
            raise UnsupportedError(
                f"the target {target.name!r} gives every tile whole layers, which costs what tiles save; "
                "tile for gpu-buffer"
            )
        self.graph = graph
        self.costs = Costs(graph, target, threads=threads)
        self._count = len(graph.ops)
        breadths = operator_breadths(lifetimes(graph, target).problem)
        self._allowed = 0
        self._rows = _ROWS if self._count < _MANY else _ROWS[::2]
        self._alone = np.array([self._workspace(k) for k in range(self._count)], np.int64)
        self._peak = int(breadths.max(initial=0))
        # Operators of bodies are steps among those of the graph, which no stage counts.
        self._is_countable = not any(op.bodies for op in graph.ops)
        if self._is_countable:
            self._alone[: len(breadths)] += breadths
        self._can = [self.costs.region(k, k) is not None for k in range(self._count)]
        self._ends = self._find_ends()

    def find(self, *, max_macs: float, budget: int | None = None) -> TileChoice:
        """As `find_stages`."""
        if not self._is_countable:
            return TileChoice((), self._peak, 1.0)
        total = sum(self.costs.macs)
        self._allowed = int((max_macs - 1) * total)
        before = self.peak_without()
        low, high = self.least(), before
        best: tuple[int, _Way] | None = None
        if budget is not None and before <= budget:
            return TileChoice((), before, 1.0)
        if budget is not None and (way := self._cheapest_way(budget)) is not None:
            best = (budget, way)
        fits = best is not None
        while not fits and high - low > max(high * _PRECISION, 1):
            limit = (low + high) // 2
            way = self._cheapest_way(limit)
            if way is not None:
                best, high = (limit, way), limit
            else:
                low = limit
        if best is None:
            return TileChoice((), before, 1.0)
        if not fits:  # the last bytes often cost most of the arithmetic
            relaxed = self._cheapest_way(limit := min(before, best[0] + int(best[0] * _SLACK)))
            best = (limit, relaxed) if relaxed is not None and relaxed.extra < best[1].extra else best
        return TileChoice(best[1].stages(), best[0], 1 + best[1].extra / max(total, 1))

    def uncut(self) -> frozenset[int]:
        """Operators that cannot run in tiles."""
        return frozenset(k for k, can in enumerate(self._can) if not can)

    def peak_without(self) -> int:
        """Bytes without tiles."""
        return int(self._alone.max(initial=0))

    def least(self) -> int:
        """Bytes that no stages go below: what runs as it is in any case."""
        return max((int(self._alone[k]) for k in range(self._count) if not self._can[k]), default=0)

    def _workspace(self, k: int) -> int:
        product = self.costs.products[k]
        if product is None:
            return 0
        shape = self.graph.tensors[self.graph.ops[k].outputs[0]].shape
        pixels = np.array([prod(shape[2:])], np.int64)
        return int(workspace(product, pixels, threads=max(self.costs.threads, default=1))[0])

    def _whole(self, k: int, way: _Way) -> int:
        """Bytes at an operator that runs as it is; inputs that are in parts are joined before it, one by one."""
        op = self.graph.ops[k]
        parts = [i for i in op.inputs if i >= 0 and way.rows(self.costs.producer(i)) > 1]
        joined = max((self.costs.tensor_bytes(i) for i in parts), default=0)
        return max(int(self._alone[k]), self.costs.across(k, k - 1) + joined if joined else 0)

    def _find_ends(self) -> tuple[int, ...]:
        """Operators after which fewest bytes are kept: a stage may end with one, and the next begin after it."""
        kept = [self.costs.across(k + 1, k) for k in range(self._count)]
        places = [
            k
            for k in range(self._count)
            if self._can[k]
            and (k == self._count - 1 or not self._can[k + 1] or kept[k] <= kept[k + 1])
            and (k == 0 or kept[k] <= kept[k - 1])
        ]
        most = _MOST_ENDS if self._count < _MANY else _MOST_ENDS // 2
        if len(places) > most:
            heavy = sorted(places, key=lambda k: (-max(self._alone[max(0, k - 8) : k + 9]), k))
            places = sorted(heavy[:most])
        return tuple(places)

    def _begins(self) -> tuple[int, ...]:
        return tuple(
            k for k in range(self._count) if self._can[k] and (k == 0 or not self._can[k - 1] or k - 1 in self._ends)
        )

    def _cheapest_way(self, limit: int) -> _Way | None:
        """The cheapest way whose peak is within the limit and whose arithmetic is allowed; None if none is found."""
        for price in (_OPERATOR, 0):
            way = self._best(limit, price)
            if way is not None and way.extra <= self._allowed:
                return way
        return None

    def _best(self, limit: int, price: int) -> _Way | None:
        """The cheapest way whose peak is within the limit, where an operator costs so much arithmetic."""
        # ways[k][t]: operators before k have run; t: the last of them in tiles
        ways: list[list[_Way | None]] = [[None, None] for _ in range(self._count + 1)]
        ways[0][0] = _Way(0, 0)
        begins = set(self._begins())
        for k in range(self._count):
            for way in ways[k]:
                if way is None:
                    continue
                if self._whole(k, way) <= limit:
                    _offer(ways[k + 1], 0, _Way(way.extra, way.operators + 1, None, way), price)
                if k not in begins:
                    continue
                for last in self._ends:
                    if not k <= last < k + _LONGEST:
                        continue
                    stage = self._cheapest(k, last, limit, way, price)
                    if stage is not None:
                        extra = way.extra + (self.costs.macs_of(stage) or 0) - sum(self.costs.macs[k : last + 1])
                        operators = way.operators + self.costs.operators(stage)
                        _offer(ways[last + 1], 1, _Way(extra, operators, stage, way), price)
        ends = [w for w in ways[self._count] if w is not None]
        return min(ends, key=lambda w: w.cost(price), default=None)

    def _cheapest(self, first: int, last: int, limit: int, way: _Way, price: int) -> TileStage | None:
        """The cheapest stage of these operators within the limit, after the others ran so."""
        region = self.costs.region(first, last) if self._can_all(first, last) else None
        if region is None:
            return None
        counts = ((i, way.rows(self.costs.producer(i))) for i in region.inputs)
        in_parts = frozenset((i, count) for i, count in counts if count > 1)
        if not in_parts and int(self._alone[first : last + 1].max()) <= limit:
            return None  # they need no tiles
        if self.costs.least(first, last, in_parts=bool(in_parts)) > limit:
            return None
        found: list[tuple[int, TileStage]] = []
        paid = sum(self.costs.macs[first : last + 1]) + self._allowed - way.extra
        for columns in _COLUMNS:
            for rows in self._rows:
                if rows * columns > _MOST_TILES:
                    break
                stage = TileStage(first, last, rows, columns)
                macs = self.costs.macs_of(stage)
                if macs is None:
                    continue
                if macs > paid:
                    break  # more rows would compute more twice
                if self.costs.least(first, last, in_parts=bool(in_parts), tiles=rows * columns) > limit:
                    continue
                peak = self.costs.peak(stage, in_parts)
                if peak is not None and peak <= limit:
                    found.append((macs + price * self.costs.operators(stage), stage))
                    break
        return min(found, key=lambda each: each[0], default=(0, None))[1]

    def _can_all(self, first: int, last: int) -> bool:
        return all(self._can[first : last + 1])


def _offer(ways: list[_Way | None], place: int, way: _Way, price: int) -> None:
    known = ways[place]
    if known is None or way.cost(price) < known.cost(price):
        ways[place] = way
