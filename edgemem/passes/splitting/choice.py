"""Chooses the stages by itself: which operators run in parts, along which axis, and in how many.

    bytes alive     ▂▂▅███▅▂▂▁▂▃▇▇▃▂          the highest operator and those around it
    in 4 parts      ▂▂▅▃▃▃▅▂▂▁▂▃▇▇▃▂          what is alive before and behind a stage stays, what is inside it shrinks

The operator with most bytes alive is taken first. A stage around it begins and ends where fewer bytes go from one
operator to the next than anywhere nearer to it. Each such stage, along each axis, is written as the graph it would be
and measured as every graph is. This goes on with the next highest operator until one cannot be made lower, or the
budget is met. At last each stage gets the fewest parts that its bytes allow.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from edgemem.errors import TilingError, UnsupportedError
from edgemem.model.graph import Graph, Op
from edgemem.model.micro_workspace import with_workspace
from edgemem.model.steps import steps_of
from edgemem.passes.splitting.split import check_sizes, find_region, split
from edgemem.passes.splitting.stage import SplitStage
from edgemem.records.lifetime import lifetimes
from edgemem.schedule.peak import peak_of
from edgemem.strategy.bounds import operator_breadths

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from edgemem.targets import Target

__all__ = ["SplitChoice", "find_splits"]

_PARTS: Final = (2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 32, 48, 64)
_TRIED: Final = 8  # parts by which stages are compared, as far as there are so many blocks
_ALIKE: Final = 12  # operators before and behind one that make it like another one, which gets the same stage
_LONGEST: Final = 48  # operators of a stage before and behind the highest
_ENDS: Final = 8  # places where a stage may begin, and where it may end
_MOST_STAGES: Final = 64
_SLACK: Final = 1 / 64  # by which a stage may exceed its least bytes for fewer parts
_WORTH: Final = 1 / 64  # of the bytes at the highest operator, which a stage has to save


@dataclass(frozen=True, slots=True)
class SplitChoice:
    """Stages, and what the graph takes with them.

    Attributes:
        stages: in the order of the graph; () where no parts make the peak smaller.
        peak: bytes (`edgemem.schedule.peak.peak_of`).
    """

    stages: tuple[SplitStage, ...]
    peak: int


def find_splits(
    graph: Graph,
    target: Target,
    *,
    budget: int | None = None,
    among: Collection[int] | None = None,
    others: Sequence[Graph] = (),
) -> SplitChoice:
    """The stages with the least peak, or the fewest parts for a budget.

    Args:
        graph: with its operators in the order in which they run.
        target: whose rules count memory.
        budget: bytes; where they suffice, no more operators are split than it takes.
        among: only the bytes at these operators are to be made fewer, whatever the others need; all by default.
        others: the graph at other sizes, at which the stages have the same parts.

    Returns the same for the same graph on every machine. Raises UnsupportedError for a target with layers of textures.
    """
    if target.layer_rows:
        raise UnsupportedError(f"the target {target.name!r} gives every part whole layers, which costs what parts save")
    graph = _with_workspace(graph, target)
    before = peak_of(graph, target)
    if budget is not None and before <= budget:
        return SplitChoice((), before)
    stages = _Search(graph, target, others).stages(budget or 0, among)
    if not stages:
        return SplitChoice((), before)
    peak = peak_of(_with_workspace(split(graph, stages).graph, target), target)
    return SplitChoice(stages, peak) if peak < before or among is not None else SplitChoice((), before)


class _Search:
    """The stages of one graph."""

    def __init__(self, graph: Graph, target: Target, others: Sequence[Graph]) -> None:
        self._graph, self._target, self._others = graph, target, others
        problem = lifetimes(graph, target).problem
        self._breadths = _breadths(graph, target)
        count = len(graph.ops)
        # Bytes alive both at an operator and at the one before it.
        self._across = np.zeros(count + 1, np.int64)
        ends = (np.searchsorted(_last_steps(graph, target), steps) for steps in (problem.first_op, problem.last_op))
        for first, last, size in zip(*(end.tolist() for end in ends), problem.size.tolist(), strict=True):
            self._across[first + 1 : last + 1] += size
        self._windows: dict[tuple[int, int], _Window] = {}
        self._known: dict[tuple[object, ...], SplitStage] = {}  # surroundings -> a stage counted from the operator
        self._measured: dict[SplitStage, int | None] = {}

    def stages(self, budget: int, among: Collection[int] | None) -> tuple[SplitStage, ...]:
        """Stages that bring every operator as low as the highest that remains, or to the budget."""
        left = self._breadths.copy()
        if among is not None:
            left[[k for k in range(len(left)) if k not in among]] = 0
        chosen: dict[SplitStage, int] = {}
        floor = budget
        while len(chosen) < _MOST_STAGES and len(left):
            k = int(left.argmax())
            if left[k] <= floor:
                break
            found = self._best(k, [(s.first, s.last) for s in chosen], floor)
            if found is None:
                floor = int(left[k])
                break
            stage, peak = found
            chosen[stage] = peak
            left[stage.first : stage.last + 1] = 0
            floor = max(floor, peak)
        kept = [s for s in chosen if self._breadths[s.first : s.last + 1].max() > floor]  # others need no stage
        return tuple(sorted((self._fewest(s, floor) for s in kept), key=lambda s: s.first))

    def _fewest(self, stage: SplitStage, floor: int) -> SplitStage:
        """A stage in as few parts as its bytes allow."""
        for parts in _PARTS:
            fewer = replace(stage, parts=parts)
            if parts < stage.parts and (peak := self._peak(fewer)) is not None and peak <= floor:
                return fewer
        return stage

    def _best(self, k: int, taken: Sequence[tuple[int, int]], floor: int) -> tuple[SplitStage, int] | None:
        """The stage around an operator with the least bytes, and these; None if none saves some."""
        low = max((last + 1 for _, last in taken if last < k), default=0)
        high = min((first - 1 for first, _ in taken if first > k), default=len(self._graph.ops) - 1)
        enough = int(self._breadths[k] * (1 - _WORTH))
        around = self._surroundings(k)
        if (known := self._known.get(around)) is not None:
            stage = replace(known, first=k + known.first, last=k + known.last)
            inside = low <= stage.first and stage.last <= high
            if inside and (peak := self._peak(stage)) is not None and peak <= enough:
                return stage, peak
        best: tuple[tuple[int, int], SplitStage] | None = None
        for stage in self._around(k, low, high):
            peak = self._peak(stage)
            if peak is None or peak > enough:
                continue
            # Bytes below what other operators take in any case are worth nothing.
            rank = max(peak, floor), stage.last - stage.first
            if best is None or rank < best[0]:
                best = rank, stage
        if best is None:
            return None
        divided = [replace(best[1], parts=parts) for parts in _PARTS]
        peaks = [(stage, peak) for stage in divided if (peak := self._peak(stage)) is not None]
        least = min(peak for _, peak in peaks)
        allowed = max(floor, least + int(least * _SLACK) if least > floor else 0)
        stage, peak = next((stage, peak) for stage, peak in peaks if peak <= allowed)
        self._known[around] = replace(stage, first=stage.first - k, last=stage.last - k)
        return stage, peak

    def _surroundings(self, k: int) -> tuple[object, ...]:
        """What operators around one do, by types and shapes; it is the same for the blocks of a network."""
        low = max(k - _ALIKE, 0)
        shapes = self._graph.tensors
        near = self._graph.ops[low : k + _ALIKE + 1]
        ends = tuple((op.type, tuple(shapes[i].shape for i in (*op.inputs, *op.outputs) if i >= 0)) for op in near)
        return (k - low, *ends)

    def _around(self, k: int, low: int, high: int) -> Iterator[SplitStage]:
        begins = self._lows(range(k, max(low, k - _LONGEST) - 1, -1), 0)
        ends = self._lows(range(k, min(high, k + _LONGEST) + 1), 1)
        for first in begins:
            for last in ends:
                outputs = [i for i in self._graph.ops[last].outputs if i >= 0]
                shape = self._graph.tensors[outputs[0]].shape if outputs else ()
                for axis in range(len(shape)):
                    yield from self._cutting(k, SplitStage(first, last, 2, axis))

    def _cutting(self, k: int, stage: SplitStage) -> Iterator[SplitStage]:
        """A stage in the parts by which it is compared, if it cuts an operator."""
        try:
            region = find_region(self._graph, stage)
        except TilingError:
            return
        if k in region.cuts:
            yield replace(stage, parts=min(_TRIED, region.blocks))

    def _lows(self, places: range, behind: int) -> list[int]:
        """Places, the nearest first, where fewer bytes go on than at those around them."""
        found = [places[0]]
        size = self._across[behind:]
        for before, here, after in zip(places, places[1:], (*places[2:], None), strict=False):
            if size[here] < size[before] and (after is None or size[here] <= size[after]):
                found.append(here)
        return found[:_ENDS]

    def _peak(self, stage: SplitStage) -> int | None:
        """Most bytes alive while a stage runs; None where it cannot be."""
        if stage not in self._measured:
            self._measured[stage] = self._measure(stage)
        return self._measured[stage]

    def _measure(self, stage: SplitStage) -> int | None:
        ends = stage.first, stage.last
        try:
            if self._others:
                check_sizes((self._graph, *self._others), [stage])
        except TilingError:
            return None
        if ends not in self._windows:
            self._windows[ends] = _Window(self._graph, self._target, *ends, self._breadths)
        return self._windows[ends].peak(stage)


def _breadths(graph: Graph, target: Target) -> NDArray[np.int64]:
    """Bytes alive at each operator, and in its bodies."""
    found = operator_breadths(lifetimes(graph, target).problem)
    ends = _last_steps(graph, target)
    if not ends:
        return np.zeros(0, np.int64)
    found = np.append(found, np.zeros(max(ends[-1] + 1 - len(found), 0), np.int64))
    return np.maximum.reduceat(found, [0, *(end + 1 for end in ends[:-1])])


def _with_workspace(graph: Graph, target: Target) -> Graph:
    """The graph with the workspace of its operators, where the target counts what follows from their shapes.

    Parts have less of it than the operator that they are of.
    """
    return with_workspace(graph, target.pointer_bytes, target.kernels) if target.scratch == "tflm" else graph


def _last_steps(graph: Graph, target: Target) -> list[int]:
    """The step of each operator, which is behind those of its bodies."""
    steps = steps_of(graph, bodies=target.bodies == "inline")
    return [number for number, step in enumerate(steps) if step.depth == 0]


class _Window:
    """Some operators of a graph as a graph of their own, with what is alive around them.

    The first operator makes all that is there before, the last one reads all that is needed behind.
    """

    def __init__(self, graph: Graph, target: Target, first: int, last: int, breadths: NDArray[np.int64]) -> None:
        inside = graph.ops[first : last + 1]
        made = {i for op in inside for i in op.outputs if i >= 0}
        outer = {*graph.inputs, *graph.outputs}
        before = {i for op in graph.ops[:first] for i in op.outputs if i >= 0}
        read = {i for op in inside for i in op.inputs if i >= 0}
        later = {i for op in graph.ops[last + 1 :] for i in op.inputs if i >= 0} | {*graph.outputs}
        given = tuple(sorted(before & (read | later)))  # results of the graph among them
        kept = tuple(sorted((before | made) & later - outer))
        outputs = {i for i in graph.outputs if i in before | made or i in graph.inputs}
        ops = (Op("before", "", (), given), *inside, Op("behind", "", kept, ()))
        used = sorted({i for op in ops for i in (*op.inputs, *op.outputs) if i >= 0} | outputs | {*graph.inputs})
        place = {old: new for new, old in enumerate(used)} | {-1: -1}

        def placed(tensors: Iterable[int]) -> tuple[int, ...]:
            return tuple(place[i] for i in tensors)

        self._graph = replace(
            graph,
            tensors=tuple(graph.tensors[i] for i in used),
            ops=tuple(replace(op, inputs=placed(op.inputs), outputs=placed(op.outputs)) for op in ops),
            inputs=placed(graph.inputs),
            outputs=placed(sorted(outputs)),
        )
        self._target, self._first = target, first
        own = _breadths(self._graph, target)[1:-1]
        # What the window counts twice (views of tensors from before it) or not at all.
        self._more = int((breadths[first : last + 1] - own).max()) if len(own) == len(inside) else 0

    def peak(self, stage: SplitStage) -> int | None:
        """Most bytes alive while the stage runs; None where it cannot be."""
        moved = replace(stage, first=stage.first - self._first + 1, last=stage.last - self._first + 1)
        try:
            made = _with_workspace(split(self._graph, [moved]).graph, self._target)
        except TilingError:
            return None
        return int(_breadths(made, self._target)[1:-1].max()) + self._more
