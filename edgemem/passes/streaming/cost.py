r"""What a stage costs in memory and operators, from rows alone: no graph is built.

For each stripe p and each value the simulation knows how many rows there are (`filled`) and which is the first one that
somebody needs again (`kept`). All bytes in use follow from these:

    before the value's operator    rows kept since the last stripe     filled[p-1] - kept[p-1]
    after it                       the window: kept rows and new ones  filled[p]   - kept[p-1]
    after its last reader          rows kept for the next stripe       filled[p]   - kept[p]

Inputs of the stage shrink from the top as they are read, results grow. The stripes of several numbers of stripes stand
side by side in one array, a row for each operator, so that all are computed at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from edgemem.errors import TilingError
from edgemem.records.micro_tail import kind_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from edgemem.passes.streaming.layers import Layers, Map
    from edgemem.passes.streaming.region import StripeNode

    Rows: TypeAlias = NDArray[np.int64]

__all__ = ["RegionCost", "StageCost"]

_MOST_PIECES: Final = 10  # inputs of a CONCATENATION in TensorFlow Lite Micro


@dataclass(frozen=True, slots=True)
class StageCost:
    """What a stage takes.

    Attributes:
        peak: bytes in use at its worst moment, with everything that is alive through the stage: an estimate of the
            lower bound of the arena there.
        operators: that it runs as.
        tail: bytes that these take in TensorFlow Lite Micro's tail, with the tensors that they make.
    """

    peak: int
    operators: int
    tail: int


class RegionCost:
    """The costs of a stage for any number of stripes."""

    def __init__(self, layers: Layers, first: int, last: int, *, through: int, lasting: frozenset[int]) -> None:
        """Of consecutive operators.

        Args:
            layers: the operators of a graph as nodes.
            first: the first operator of the stage.
            last: the last one.
            through: bytes of the tensors that are alive through the stage and that it neither reads nor makes.
            lasting: values that stay whole until its end: inputs of it, and results that are needed later.

        Raises TilingError where every row of an operator needs all of what another one makes.
        """
        nodes = [node for k in range(first, last + 1) for node in layers.nodes[k] or ()]
        maps = layers.maps
        self._nodes, self._through = nodes, through
        self._cut = [layers.cut[node.output] for node in nodes]
        maker = {node.output: k for k, node in enumerate(nodes)}
        readers: dict[int, list[int]] = {}
        for k, (node, cut) in enumerate(zip(nodes, self._cut, strict=True)):
            for value in cut:
                readers.setdefault(value, []).append(k)
            if len(cut) < len(node.inputs) and any(v in maker for v in node.inputs if v not in cut):
                raise TilingError(node.name, "every row needs all of a tensor that the stage makes")
        self._window = _Windows(nodes)
        values = list(readers)
        self._place = place = {value: at for at, value in enumerate(values)}
        counts = [len(readers[v]) for v in values]
        self._reader = np.array([reader for v in values for reader in readers[v]], np.int64)
        self._starts = np.cumsum([0, *counts[:-1]])
        self._height = _column(maps[v].height for v in values for _ in readers[v])
        self._last = np.array([readers[v][-1] for v in values], np.int64)
        given = [v for v in values if v not in maker]
        self._kept_whole = sum(maps[v].size for v in given if v in lasting)
        self._inputs = _Values([v for v in given if v not in lasting], place, maps)
        # Slices of an input that share rows count as copies, but those of one reader. They may all lie inside it, but
        # plans of such stages end further above their bounds: counted so, better stages were chosen (measured).
        self._copies = [(r, maps[v].row) for v in given for r in readers[v][0 if _has_halo(nodes, readers[v]) else 1 :]]
        inner = [v for v in values if v in maker]
        self._inner = _Values(inner, place, maps)
        self._inner_makers = np.array([maker[v] for v in inner], np.int64)
        results = [k for v, k in maker.items() if v in lasting or v not in readers]
        self._results = np.array(results, np.int64)
        self._row = _column(maps[node.output].row for node in nodes)
        over = [
            (k, value)
            for k, node in enumerate(nodes)
            for value in layers.overlapping[node.output]
            if value in place and readers[value][-1] == k and (value in maker or value not in lasting)
        ]
        self._over = _Overlaps(over, nodes, maps)
        order = {v: number for number, v in enumerate(inner)}
        self._over_inner = [order.get(v, -1) for _, v in over]
        self._tails = np.array([layers.tails[node.output] for node in nodes], np.int64)
        constants = [layers.constants[k] for k in range(first, last + 1) if k in layers.constants]
        # What an operator that streaming adds takes of the tail, with its result; a SLICE also has a constant.
        build = layers.build
        self._slice = kind_bytes("SLICE", build) + 2 * build.tensor
        self._join = kind_bytes("CONCATENATION", build) + build.tensor
        self._constant_ops, self._constant_tail = len(constants), sum(constants)

    @property
    def height(self) -> int:
        """The most stripes that make a difference: rows of the first result."""
        return self._nodes[0].window.made

    def costs(self, stripes: Sequence[int]) -> list[StageCost]:
        """What the region costs in so many stripes, for each of these numbers."""
        times = _Times(stripes)
        filled = self._filled(times)
        before = times.shifted(filled)
        kept = self._kept(filled)
        kept_before = times.shifted(kept)
        peaks = self._peaks(times, filled, before, kept, kept_before)
        operators, tails = self._operators(times, filled, before, kept, kept_before)
        return [
            StageCost(int(peak), int(count) + self._constant_ops, int(tail) + self._constant_tail)
            for peak, count, tail in zip(peaks, operators, tails, strict=True)
        ]

    def _filled(self, times: _Times) -> Rows:
        """Rows of every result that exist after each stripe, as `edgemem.passes.streaming.progress` has it."""
        filled = np.empty((len(self._nodes), times.count), np.int64)
        maker: dict[int, int] = {}
        for k, (node, cut) in enumerate(zip(self._nodes, self._cut, strict=True)):
            window = node.window
            feeds = [filled[maker[value]] for value in cut if value in maker]
            maker[node.output] = k
            if not feeds:
                rows = -(-window.made * times.number // times.stripes)
                if window.reach == 1 and window.before + window.after:
                    above = np.maximum(rows, window.before + 1)
                    rows = np.where(rows >= window.given + window.before, window.made, above)
                filled[k] = rows
                continue
            have = feeds[0]
            if len(feeds) > 1:
                have = np.minimum.reduce(feeds)
            lead = window.before + window.shift - 1
            rows = ((have - window.reach + 1) * window.factor + lead) // window.stride + 1
            rows = np.minimum(np.maximum(rows, 0), window.made)
            rows[have <= 0] = 0
            rows[have >= window.given] = window.made
            filled[k] = rows
        return filled

    def _kept(self, filled: Rows) -> Rows:
        """The first row of each value that is needed after each stripe."""
        made, window = filled[self._reader], self._window.of(self._reader)
        first = np.where(made >= window.made, self._height, window.first(made))
        return np.minimum.reduceat(first, self._starts, axis=0)

    def _peaks(self, times: _Times, filled: Rows, before: Rows, kept: Rows, kept_before: Rows) -> Rows:
        """The most bytes in use. Row 2k is the k-th operator of a stripe, row 2k + 1 the concatenation after it."""
        count = len(self._nodes)
        change = np.zeros((2 * count + 1, times.count), np.int64)  # from one moment to the next
        extra = np.zeros((2 * count, times.count), np.int64)  # at one moment alone
        at, size = self._inputs.place, self._inputs.row
        change[0] += (size * (self._inputs.height - kept_before[at])).sum(axis=0)
        np.add.at(change, 2 * self._last[at] + 1, size * (kept_before[at] - kept[at]))
        for reader, row in self._copies:
            window = self._window.of(np.array([reader]))
            made, height = filled[[reader]], window.given
            first = np.where(made >= window.made, height, window.first(made))
            rows = row * times.where_tall(height - times.shifted(first), filled[reader], before[reader])
            change[0] += rows[0]
            change[2 * reader + 1] += (row * times.where_tall(height - first, filled[reader], before[reader]) - rows)[0]
        k, size = self._results, self._row[self._results]
        change[0] += (size * before[k]).sum(axis=0)
        change[2 * k + 1] += size * (filled[k] - before[k])
        at, size, k = self._inner.place, self._inner.row, self._inner_makers
        low, last = kept_before[at], self._last[at]
        tail, window = np.maximum(before[k] - low, 0), np.maximum(filled[k] - low, 0)
        rest = np.maximum(filled[k] - kept[at], 0)
        is_sliced = rest < window
        change[0] += (size * tail).sum(axis=0)
        change[2 * k + 1] += size * (window - tail)
        np.add.at(change, 2 * last + 1, size * (rest - window))
        # A tail that was cut out of a window is copied into the next one; a window that was kept whole lies in it.
        is_copied = times.shifted(is_sliced) & (filled[k] > before[k])
        extra[2 * k + 1] += size * np.where(is_copied, tail, 0)
        np.add.at(extra, 2 * last, size * np.where(is_sliced, rest, 0))
        used = np.cumsum(change[:-1], axis=0) + extra
        made = self._row * (filled - before)
        if self._over.count:
            k = self._over.node
            dies = np.ones((self._over.count, times.count), np.bool_)
            for number, inner in enumerate(self._over_inner):
                if inner >= 0:
                    dies[number] = is_sliced[inner]
            ahead = np.clip(self._over.distances(filled[k], before[k]), 0, made[k])
            over = np.where(dies, ahead, made[k])
            np.minimum.at(made, k, over)
        used[::2] += made
        return np.maximum.reduceat(used.max(axis=0), times.starts) + (self._through + self._kept_whole)

    def _operators(self, times: _Times, filled: Rows, before: Rows, kept: Rows, kept_before: Rows) -> tuple[Rows, Rows]:
        """How many operators the stage runs as, and their bytes in the tail."""
        runs = filled > before
        pieces = times.sums(runs)
        # A reader takes a slice unless it needs exactly what is there.
        window = self._window.of(self._reader)
        begin, end = window.first(before[self._reader]), window.end(filled[self._reader])
        counts = np.diff(self._starts, append=len(self._reader))
        low = np.repeat(kept_before, counts, axis=0)
        high = np.broadcast_to(self._height, low.shape).copy()
        is_inner = np.zeros(len(counts), np.bool_)
        is_inner[self._inner.place] = True
        inner = np.repeat(is_inner, counts)
        makers = np.zeros(len(counts), np.int64)
        makers[self._inner.place] = self._inner_makers
        high[inner] = filled[np.repeat(makers, counts)[inner]]
        low[~inner] = 0
        sliced = runs[self._reader] & ((begin != low) | (end != high))
        at, k = self._inner.place, self._inner_makers
        is_cut = (filled[k] > kept[at]) & (kept[at] > kept_before[at])
        slices = times.sums(sliced).sum(axis=0) + times.sums(is_cut).sum(axis=0)
        joins = times.sums(runs[k] & (before[k] > kept_before[at])).sum(axis=0)
        for count in pieces[self._results]:
            left = count
            while (left > 1).any():
                joined = np.where(left > 1, -(-left // _MOST_PIECES), 0)
                joins, left = joins + joined, joined
        operators = pieces.sum(axis=0) + slices + joins
        return operators, self._tails @ pieces + slices * self._slice + joins * self._join


class _Times:
    """The stripes of several numbers of stripes, side by side."""

    def __init__(self, stripes: Sequence[int]) -> None:
        counts = np.array(stripes, np.int64)
        self.starts = np.cumsum(counts) - counts
        self.count = int(counts.sum())
        self.stripes = np.repeat(counts, counts)
        self.number = np.arange(self.count, dtype=np.int64) - np.repeat(self.starts, counts) + 1

    def shifted(self, rows: NDArray[np.generic]) -> NDArray:  # type: ignore[type-arg]
        """What was there one stripe before; zero before the first."""
        moved = np.empty_like(rows)
        moved[:, 1:] = rows[:, :-1]
        moved[:, self.starts] = 0
        return moved

    def where_tall(self, rows: Rows, filled: Rows, before: Rows) -> Rows:
        """The rows where stripes have more than one row, else 0: slices of one row each are the same for all."""
        tall = np.add.reduceat(filled - before > 1, self.starts, dtype=np.int64)
        return np.where(np.repeat(tall, self.stripes[self.starts]) > 2, rows, 0)

    def sums(self, marks: NDArray[np.bool_]) -> Rows:
        """How many marks each number of stripes has, by row."""
        return np.add.reduceat(marks, self.starts, axis=1, dtype=np.int64)


class _Windows:
    """The windows of several nodes, as columns."""

    def __init__(self, nodes: Sequence[StripeNode]) -> None:
        windows = [node.window for node in nodes]
        self._columns = np.array(
            [(w.given, w.made, w.reach, w.stride, w.before + w.shift, w.factor) for w in windows], np.int64
        ).reshape(len(windows), 6)
        self._nodes = nodes
        self._set(self._columns)

    def of(self, nodes: NDArray[np.int64]) -> _Windows:
        """Those of these nodes."""
        chosen = object.__new__(_Windows)
        chosen._set(self._columns[nodes])
        return chosen

    def first(self, begin: Rows) -> Rows:
        """`Window.needs` of many parts: the first input row of those that begin here."""
        rows: Rows = np.clip((begin * self.stride - self.lead) // self.factor, 0, self.given)
        return rows

    def end(self, end: Rows) -> Rows:
        """The end of the input rows of parts that end here."""
        rows: Rows = np.clip(((end - 1) * self.stride - self.lead) // self.factor + self.reach, 0, self.given)
        return rows

    def _set(self, columns: Rows) -> None:
        self.given, self.made, self.reach, self.stride, self.lead, self.factor = columns.T[..., None]


class _Values:
    """Values of one kind, as columns."""

    def __init__(self, values: Sequence[int], place: dict[int, int], maps: Mapping[int, Map]) -> None:
        self.place = np.array([place[v] for v in values], np.int64)
        self.row = _column(maps[v].row for v in values)
        self.height = _column(maps[v].height for v in values)


class _Overlaps:
    """Pairs of an operator and an input that dies there, where the result may overlap the input."""

    def __init__(self, pairs: Sequence[tuple[int, int]], nodes: Sequence[StripeNode], maps: Mapping[int, Map]) -> None:
        self.count = len(pairs)
        self.node = np.array([k for k, _ in pairs], np.int64)
        made, given = [maps[nodes[k].output] for k, _ in pairs], [maps[v] for _, v in pairs]
        windows = [nodes[k].window for k, _ in pairs]
        across = [max(g.columns // max(m.columns, 1), 1) for m, g in zip(made, given, strict=True)]
        self._is_pad = np.array([nodes[k].type == "PAD" for k, _ in pairs], np.bool_)[:, None]
        self._above = _column(w.before for w in windows)
        self._given_row, self._made_row = _column(g.row for g in given), _column(m.row for m in made)
        self._by_row = _column(m.row - w.stride * g.row for m, g, w in zip(made, given, windows, strict=True))
        by_pixel = [m.pixel - a * g.pixel for m, g, a in zip(made, given, across, strict=True)]
        # A convolution reads its pixels again for each output channel.
        again = [m.pixel if nodes[k].type == "CONV_2D" else 0 for (k, _), m in zip(pairs, made, strict=True)]
        columns = [max((m.columns - 1) * step, 0) for m, step in zip(made, by_pixel, strict=True)]
        self._rest = _column(a + b for a, b in zip(again, columns, strict=True))

    def distances(self, filled: Rows, before: Rows) -> Rows:
        """By how many bytes the new rows must begin before the input, as `edgemem.model.overlap` has it.

        A kernel that goes through the input in order has done with all before the pixel that it is at. The distance is
        linear in row and column, so that it is greatest at the first or last of them.
        """
        last = np.maximum(filled - before - 1, 0)
        above = np.clip(self._above - before, 0, last)
        padding = last * self._made_row + (self._made_row - self._given_row) - (last - above) * self._given_row
        sliding = np.maximum(last * self._by_row, 0) + self._rest
        rows: Rows = np.where(self._is_pad, padding, sliding)
        return rows


def _has_halo(nodes: Sequence[StripeNode], readers: Sequence[int]) -> bool:
    """Whether stripes of the only reader share rows."""
    window = nodes[readers[0]].window
    return len(readers) == 1 and window.reach * window.factor > window.stride


def _column(values: Iterable[int]) -> Rows:
    return np.array(list(values), np.int64)[:, None]
