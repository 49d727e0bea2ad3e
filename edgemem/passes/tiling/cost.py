"""What a stage of tiles costs: bytes at its peak, and arithmetic; estimated without making the tiles.

Rows and columns do not depend on each other, and all tiles of a column have the same columns: the rows of all tiles are
computed at once, as an array, and so are the columns. The estimate agrees with the lifetimes of the tiled graph but for
what dies during the last tile, and for grids, where each tile counts as wide as the widest.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from edgemem.errors import TilingError
from edgemem.model.aliasing import RULES
from edgemem.model.macs import macs_of
from edgemem.passes.tiling.kernels import is_same_sum, product_of, workspace
from edgemem.passes.tiling.tile import find_region

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from edgemem.model.graph import Graph
    from edgemem.passes.reach import Window
    from edgemem.passes.tiling.stage import TileStage
    from edgemem.passes.tiling.tile import TileRegion
    from edgemem.targets import Target

__all__ = ["PADDING", "Costs", "Parts", "needs_of"]

Parts: TypeAlias = "frozenset[tuple[int, int]]"
_Items: TypeAlias = "NDArray[np.int64]"
PADDING: Final = 64  # of sizes in bytes: the alignment of the targets for ONNX Runtime


@dataclass(frozen=True, slots=True)
class _Ranges:
    """Rows (or columns) of every tile: [begin, end) arrays.

    Attributes:
        taken: of each tensor. own: of each result. needs: of each operator's inputs. made: how many each computes.
    """

    taken: Mapping[int, tuple[_Items, _Items]]
    own: Mapping[int, tuple[_Items, _Items]]
    needs: tuple[tuple[_Items, _Items], ...]
    made: tuple[_Items, ...]


class Costs:
    """The costs of the stages of one graph. Remembers what it has computed."""

    def __init__(self, graph: Graph, target: Target, *, threads: Sequence[int] = (1,)) -> None:
        """Counts memory by the rules of a target; `threads` as in `is_same_sum`.

        Without any, convolutions are those of the level `all`: kernels for blocks of channels, which add up a part as
        the whole and have no workspace.
        """
        self.graph = graph
        self.macs = tuple(macs_of(graph, op) for op in graph.ops)
        self.threads = threads
        self._in_place = RULES[target.aliasing].in_place
        self.products = tuple(
            product_of(graph, op) if threads or op.type == "ConvTranspose" else None for op in graph.ops
        )
        self._peaks: dict[tuple[TileStage, Parts], int | None] = {}
        self._simulations: dict[TileStage, _Simulation | None] = {}
        self._same: dict[tuple[int, int], bool] = {}
        self._macs: dict[TileStage, int | None] = {}
        self._ends: dict[tuple[int, int], tuple[int, int, int]] = {}
        self._across: dict[tuple[int, int], int] = {}
        self._regions: dict[tuple[int, int], TileRegion | None] = {}
        self._ranges: dict[tuple[int, int, int, int], _Ranges | None] = {}
        self._readers: dict[tuple[int, int], dict[int, int]] = {}
        self._first = {i: k for k, op in enumerate(graph.ops) for i in op.outputs}
        self._last = {i: k for k, op in enumerate(graph.ops) for i in op.inputs}
        self._last |= dict.fromkeys(graph.outputs, len(graph.ops))
        held = set(graph.inputs if target.inputs == "outside" else ())
        held |= set(graph.outputs if target.outputs == "outside" else ())
        self._sizes = {
            i: 0 if i in held or t.kind != "activation" else _padded(t.size) for i, t in enumerate(graph.tensors)
        }

        kept = [(size, self._first.get(i, -1), self._last.get(i, -1)) for i, size in self._sizes.items() if size]
        self._kept_sizes, self._kept_first, self._kept_last = np.array(kept, np.int64).reshape(len(kept), 3).T

    def region(self, first: int, last: int) -> TileRegion | None:
        """The operators from first to last, inclusive; None if they cannot be computed in parts."""
        key = (first, last)
        if key not in self._regions:
            try:
                self._regions[key] = find_region(self.graph, first, last)
            except TilingError:
                self._regions[key] = None
        return self._regions[key]

    def across(self, first: int, last: int) -> int:
        """Bytes of what is there before an operator and still there after another."""
        key = (first, last)
        if key not in self._across:
            self._across[key] = int(self._kept_sizes[(self._kept_first < first) & (self._kept_last > last)].sum())
        return self._across[key]

    def peak(self, stage: TileStage, in_parts: Parts) -> int | None:
        """Bytes at the worst moment of a stage, with what other operators keep and the workspace of kernels.

        Inputs that are in parts (tensor, number of parts) end part by part. None where `macs_of` gives None.
        """
        key = (stage, in_parts)
        if key not in self._peaks:
            simulation = self._simulated(stage)
            self._peaks[key] = None
            if simulation is not None:
                ending = [i for i in simulation.region.inputs if self._last[i] <= stage.last]
                self._peaks[key] = simulation.peak(stage, ending, in_parts) + self.across(stage.first, stage.last)
        return self._peaks[key]

    def operators(self, stage: TileStage) -> int:
        """How many operators a stage has."""
        simulation = self._simulated(stage)
        return simulation.operators * stage.rows * stage.columns if simulation else 0

    def producer(self, index: int) -> int:
        """The operator that writes a tensor; -1 if none does."""
        return self._first.get(index, -1)

    def least(self, first: int, last: int, *, in_parts: bool, tiles: int = 0) -> int:
        """Bytes that no stage of these operators goes below: its inputs, or its results, beside what is kept.

        More if none of its inputs is in parts: they stay to the end. With a number of tiles, a tile's share of what the
        largest operator reads and writes inside the stage is there, too.
        """
        key = (first, last)
        if key not in self._ends:
            region = self.region(first, last)
            ending = [i for i in region.inputs if self._last[i] <= last] if region else []
            inputs, results = (sum(self._sizes[i] for i in side) for side in (ending, region.results if region else ()))
            self._ends[key] = inputs, results, self._largest(region) if region else 0
        inputs, results, inner = self._ends[key]
        used = max(inputs, results - results // max(tiles, 2)) if in_parts else inputs + results // 2
        return self.across(first, last) + used + (inner // tiles if tiles else 0)

    def _largest(self, region: TileRegion) -> int:
        """The most bytes that an operator of a region reads and writes of what nothing else has."""
        outer, most = {*region.inputs, *region.results}, 0
        for k in region.ops:
            op = self.graph.ops[k]
            own = [self._sizes[i] for i in {*op.inputs, *op.outputs} if i >= 0 and i not in outer]
            most = max(most, max(own, default=0) if self.in_place(op.type) else sum(own))
        return most

    def macs_of(self, stage: TileStage) -> int | None:
        """Multiply-accumulate operations of a stage's tiles; None if it cannot be done, or changes the sums' blocks."""
        if stage not in self._macs:
            self._macs[stage] = self._counted(stage)
        return self._macs[stage]

    def _counted(self, stage: TileStage) -> int | None:
        region = self.region(stage.first, stage.last)
        sides = self._sides(stage)
        if region is None or sides is None:
            return None
        macs = 0
        for at, k in enumerate(region.ops):
            op = self.graph.ops[k]
            high, wide = (side.made[at] for side in sides)
            whole = prod(self.graph.tensors[op.outputs[0]].shape[2:])
            macs += self.macs[k] * int(high.sum()) * int(wide.sum()) // whole
            if not self._is_same(k, high, wide):
                return None
        return macs

    def _is_same(self, k: int, high: _Items, wide: _Items) -> bool:
        product = self.products[k]
        if product is None or not self.threads:
            return True
        if product.has_one_block and int(high.min()) * int(wide.min()) > max(product.scatters, 1):
            return True
        for pixels in {a * b for a in set(high.tolist()) for b in set(wide.tolist())}:
            key = (k, pixels)
            if key not in self._same:
                self._same[key] = is_same_sum(product, (pixels,), threads=self.threads)
            if not self._same[key]:
                return False
        return True

    def _simulated(self, stage: TileStage) -> _Simulation | None:
        if stage not in self._simulations:
            macs, region, sides = self.macs_of(stage), self.region(stage.first, stage.last), self._sides(stage)
            possible = macs is not None and region is not None and sides is not None
            self._simulations[stage] = _Simulation(self, region, *sides) if possible and region and sides else None
        return self._simulations[stage]

    def _sides(self, stage: TileStage) -> tuple[_Ranges, _Ranges] | None:
        region = self.region(stage.first, stage.last)
        if region is None:
            return None
        rows = self._side(region, stage, 0, stage.rows)
        columns = self._side(region, stage, 1, stage.columns) if rows is not None else None
        return None if rows is None or columns is None else (rows, columns)

    def _side(self, region: TileRegion, stage: TileStage, side: int, count: int) -> _Ranges | None:
        key = (stage.first, stage.last, side, count)
        if key not in self._ranges:
            self._ranges[key] = _find_ranges(self.graph, region, side, count)
        return self._ranges[key]

    def tensor_bytes(self, index: int) -> int:
        """Of a tensor of the graph; 0 if the caller holds it."""
        return self._sizes[index]

    def last_reader(self, index: int, region: TileRegion) -> int:
        """The last operator of a region that reads a tensor; -1 if none does."""
        key = (region.ops[0], region.ops[-1])
        if key not in self._readers:
            self._readers[key] = {i: k for k in region.ops for i in self.graph.ops[k].inputs}
        return self._readers[key].get(index, -1)

    def in_place(self, kind: str) -> tuple[int, ...]:
        """The inputs that the result of an operator may lie on."""
        return self._in_place.get(kind, ())


def _padded(size: int) -> int:
    return -(-size // PADDING) * PADDING


def _find_ranges(graph: Graph, region: TileRegion, side: int, count: int) -> _Ranges | None:
    """The rows (side 0) or columns (side 1) of `count` tiles; None if there are too many tiles."""
    number = np.arange(count, dtype=np.int64)
    own = {}
    for i in region.results:
        length = graph.tensors[i].shape[2 + side]
        if length < count:
            return None
        own[i] = (length * number // count, length * (number + 1) // count)
    taken = dict(own)
    needs, made = [], []
    for k, windows in zip(reversed(region.ops), reversed(region.windows), strict=True):
        op, window = graph.ops[k], windows[side]
        wanted = taken.get(op.outputs[0])
        if wanted is None:
            return None  # nothing reads it: an operator without use
        low, high = needs_of(window, *wanted)
        if (low == high).any():
            return None
        for position in window.cut:
            index = op.inputs[position]
            before = taken.get(index)
            hull = (low, high) if before is None else (np.minimum(before[0], low), np.maximum(before[1], high))
            taken[index] = hull
        needs.append((low, high))
        made.append(wanted[1] - wanted[0] if window.factor == 1 else (high - low) * window.factor)
    return _Ranges(taken, own, tuple(reversed(needs)), tuple(reversed(made)))


def needs_of(window: Window, begin: _Items, end: _Items) -> tuple[_Items, _Items]:
    """As `Window.needs`, for arrays."""
    lead = window.before + window.shift
    first = (begin * window.stride - lead) // window.factor
    last = ((end - 1) * window.stride - lead) // window.factor + window.reach
    low = np.minimum(np.maximum(first, 0), window.given)
    return low, np.maximum(np.minimum(last, window.given), low)


class _Simulation:
    """What is in memory while one tile runs, for all rows of tiles at once."""

    def __init__(self, costs: Costs, region: TileRegion, rows: _Ranges, columns: _Ranges) -> None:
        self._costs, self._graph, self.region = costs, costs.graph, region
        self._rows, self._columns = rows, columns
        self._count = len(next(iter(rows.own.values()))[0])
        self._step = 0
        self._lives: list[tuple[int, int, _Items]] = []  # first step, last step, bytes in each row of tiles
        self._held: dict[int, tuple[int, int, _Items]] = {}  # tensor -> since, until, bytes
        self._gathered: dict[int, int] = {}  # input -> the step at which its part is taken
        self.operators = 0
        self._run()

    def _bytes(self, index: int, rows: _Items, columns: _Items) -> _Items:
        tensor = self._graph.tensors[index]
        pixel = tensor.size // max(prod(tensor.shape[2:]), 1)
        return -(-rows * (int(columns.max()) * pixel) // PADDING) * PADDING

    def _run(self) -> None:
        graph, region = self._graph, self.region
        for at, k in enumerate(region.ops):
            op = graph.ops[k]
            window = region.windows[at][0]
            need = (*self._rows.needs[at], *self._columns.needs[at])
            cut = dict.fromkeys(op.inputs[p] for p in window.cut)
            slices = [self._slice(index, need) for index in cut]
            self._step += 1
            self.operators += 1
            high, wide = self._rows.made[at], self._columns.made[at]
            result = op.outputs[0]
            size = self._bytes(result, high, wide)
            if (product := self._costs.products[k]) is not None:
                extra = workspace(product, high * int(wide.max()), threads=max(self._costs.threads, default=1))
                self._lives.append((self._step, self._step, extra))
            since = self._step
            taken = self._taken(result)
            for index, part in zip(cut, slices, strict=True):
                if part is not None:
                    self._lives.append((part[0], self._step, part[1]))
                elif index in self._held:
                    begun, _, held = self._held[index]
                    self._held[index] = (begun, self._step, held)
            self._take_over(k, cut, slices, size)
            if any((a != b).any() for a, b in ((high, taken[1] - taken[0]), (wide, taken[3] - taken[2]))):
                self._lives.append((since, self._step + 1, size))
                self._step += 1
                self.operators += 1
                size = self._bytes(result, taken[1] - taken[0], taken[3] - taken[2])
                since = self._step
            self._held[result] = (since, self._step, size)

    def _take_over(
        self, k: int, cut: Mapping[int, None], slices: list[tuple[int, _Items] | None], size: _Items
    ) -> None:
        """Let the result lie on an input that ends here, if the operator may."""
        op = self._graph.ops[k]
        for position in self._costs.in_place(op.type):
            index = op.inputs[position] if position < len(op.inputs) else -1
            place = list(cut).index(index) if index in cut else -1
            if place < 0 or slices[place] is not None or index not in self._held:
                continue
            begun, _, held = self._held[index]
            is_last = self._costs.last_reader(index, self.region) == k and index not in self.region.results
            if is_last and (held == size).all():
                self._held[index] = (begun, self._step - 1, held)
                return

    def _taken(self, index: int) -> tuple[_Items, _Items, _Items, _Items]:
        return (*self._rows.taken[index], *self._columns.taken[index])

    def _slice(self, index: int, need: tuple[_Items, _Items, _Items, _Items]) -> tuple[int, _Items] | None:
        """Since when there is a slice of a tensor, and its bytes; None if the operator reads the tensor itself."""
        taken = self._taken(index)
        if index not in self._held:
            height, width = self._graph.tensors[index].shape[2:]
            is_whole = (taken[1] - taken[0] == height) & bool((taken[3] - taken[2] == width).all())
            if is_whole.all():
                return None
            self._step += 1
            self.operators += 1
            size = self._bytes(index, taken[1] - taken[0], taken[3] - taken[2])
            self._held[index] = (self._step, self._step, np.where(is_whole, 0, size))
            self._gathered[index] = self._step
        if all((a == b).all() for a, b in zip(taken, need, strict=True)):
            return None
        self._step += 1
        self.operators += 1
        begun, _, held = self._held[index]
        self._held[index] = (begun, self._step, held)
        return self._step, self._bytes(index, need[1] - need[0], need[3] - need[2])

    def peak(self, stage: TileStage, inputs: Sequence[int], in_parts: Parts) -> int:
        """Bytes at the worst moment of the stage. `inputs` end in it: after the last tile, or part by part."""
        end = self._step + 1
        results = self.region.results
        lives = list(self._lives)
        for index, (since, until, size) in self._held.items():
            lives.append((since, end if index in results else until, size))
        parts = dict(in_parts)
        # What is taken from several parts is there twice while they are joined.
        lives += [(since, since, self._held[i][2]) for i, since in self._gathered.items() if i in parts]
        steps = np.zeros((end + 2, self._count), np.int64)
        for since, until, size in lives:
            steps[since] += size
            steps[until + 1] -= size
        total = np.cumsum(steps, axis=0).max(axis=0)
        for index in results:
            own = self._rows.own[index]
            size = self._bytes(index, own[1] - own[0], np.array([self._graph.tensors[index].shape[3]]))
            total += np.cumsum(size) - size
            if stage.columns > 1:
                total += size  # the row's tiles so far
        for index in inputs:
            height = self._graph.tensors[index].shape[2]
            ended = np.zeros(self._count, np.int64)
            if index in parts:
                begin = np.minimum.accumulate(self._rows.taken[index][0][::-1])[::-1]
                ends = height * np.arange(1, parts[index] + 1) // parts[index]
                ended = np.concatenate(([0], ends))[np.searchsorted(ends, begin, side="right")]
            total += self._costs.tensor_bytes(index) * (height - ended) // height
        return int(total.max())
