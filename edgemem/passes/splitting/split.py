"""Runs of operators computed in parts along one axis.

    before    x ─► MatMul ─► s ─► Softmax ─► p ─► MatMul ─► y         s and p are in memory as a whole

    after     x rows ─► MatMul ─► s0 ─► Softmax ─► p0 ─► MatMul ─► y0
              x rows ─► MatMul ─► s1 ─► Softmax ─► p1 ─► MatMul ─► y1
              y0, y1 ─► Concat ─► y

No part needs what another one computes, and nothing is computed twice. The axis is that of the last operator's results;
`edgemem.passes.splitting.rules` says which axis of its inputs that is, and so back to the first operator. Weights that
have the axis are cut in the file. An operator of the run whose result a part needs as a whole runs before all parts,
one that no part needs behind them.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd
from typing import TYPE_CHECKING, Final

from edgemem.errors import TilingError
from edgemem.model.rewrite import ConstantPart
from edgemem.passes.sheet import Draft, Sheet
from edgemem.passes.splitting.rules import cut_of
from edgemem.passes.splitting.stage import check_stages
from edgemem.passes.streaming.region import DIALECTS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from edgemem.model.graph import Attribute, Graph
    from edgemem.model.rewrite import Rewrite
    from edgemem.passes.splitting.rules import Cut
    from edgemem.passes.splitting.stage import SplitStage

__all__ = ["SplitRegion", "check_sizes", "find_region", "split"]

# ONNX Runtime computes channels of convolutions in blocks of so many, and fills up the last one of every part.
_CHANNELS: Final = (16, 8, 4)
_BLOCKED: Final = frozenset({"Conv", "com.microsoft::FusedConv"})

# What they write of a part has sizes in the file, also of axes that are not cut.
_SIZED: Final = frozenset({"Reshape", "Slice", "Pad", "Resize"})


@dataclass(frozen=True, slots=True)
class SplitRegion:
    """The operators of a stage.

    Attributes:
        before: those that run as they are before the parts, in order.
        cuts: those that run in parts, in order, and how.
        behind: those that run as they are behind the parts, in order.
        axes: tensor that the parts make -> the axis along which it is cut.
        blocks: parts begin and end at multiples of this share of every axis.
    """

    before: tuple[int, ...]
    cuts: Mapping[int, Cut]
    behind: tuple[int, ...]
    axes: Mapping[int, int]
    blocks: int


def split(graph: Graph, stages: Iterable[SplitStage]) -> Rewrite:
    """The graph with the operators of each stage run part by part.

    The same values are computed from the same values, so that the outputs are the same wherever a kernel computes an
    element of a part as it does in the whole.

    Raises ModelError for stages that overlap or are not in the graph; TilingError, with the operator and the reason,
    for an operator that cannot be computed in so many parts along the axis.
    """
    ordered = check_stages(stages, len(graph.ops))
    if graph.precedence:
        raise TilingError(graph.name, "its operators have an order beside what they read and write")
    if graph.layout not in DIALECTS:
        raise TilingError(graph.name, "its file format has no operators that cut and join tensors")
    sheet = Sheet(graph)
    constants: dict[tuple[int, int, int, int], int] = {}
    at = 0
    for stage in ordered:
        region = find_region(graph, stage)
        for k in (*range(at, stage.first), *region.before):
            sheet.copy(k)
        _Writer(graph, region, stage, sheet, constants).write()
        for k in region.behind:
            sheet.copy(k)
        at = stage.last + 1
    for k in range(at, len(graph.ops)):
        sheet.copy(k)
    return sheet.rewrite()


def find_region(graph: Graph, stage: SplitStage) -> SplitRegion:
    """The operators of a stage and how each is cut. Raises TilingError as `split`."""
    ops = graph.ops[stage.first : stage.last + 1]
    made = {i for op in ops for i in op.outputs if i >= 0}
    axes = {i: stage.axis for i in ops[-1].outputs if i >= 0}
    whole: set[int] = set()
    cuts: dict[int, Cut] = {}
    for k in range(stage.last, stage.first - 1, -1):
        op = graph.ops[k]
        own = {axes[i] for i in op.outputs if i in axes}
        if whole & {*op.outputs} or len(own) > 1:
            whole.update(made & {*op.inputs})
            for i in op.outputs:
                axes.pop(i, None)
        elif own:
            along = own.pop()
            cut = cuts[k] = cut_of(graph, op, along)
            axes.update(dict.fromkeys((i for i in op.outputs if i >= 0), along))
            for position, index in enumerate(op.inputs):
                if index not in made or position in cut.derived:
                    continue
                axis = cut.inputs.get(position, -1)
                if axis < 0 or axes.get(index, axis) != axis:
                    whole.add(index)
                else:
                    axes[index] = axis
    if not cuts:
        raise TilingError(ops[-1].name, "its result is needed as a whole")
    for index in whole:
        axes.pop(index, None)
    late: set[int] = set()
    before: list[int] = []
    behind: list[int] = []
    for k in range(stage.first, stage.last + 1):
        op = graph.ops[k]
        if k in cuts:
            continue
        is_late = any(i in axes or i in late for i in op.inputs)
        (behind if is_late else before).append(k)
        if is_late:
            late.update(op.outputs)
    blocks = gcd(*(cut.blocks for cut in cuts.values()))
    if blocks < stage.parts:
        raise TilingError(ops[-1].name, f"it has {blocks} blocks along axis {stage.axis}, fewer than {stage.parts}")
    if any(graph.ops[k].type in _BLOCKED and axes[graph.ops[k].outputs[0]] == 1 for k in cuts):
        fitting = (n for n in _CHANNELS if blocks % n == 0 and blocks // n >= stage.parts)
        blocks //= next(fitting, 1)
    return SplitRegion(tuple(before), {k: cuts[k] for k in sorted(cuts)}, tuple(behind), axes, blocks)


def check_sizes(graphs: Sequence[Graph], stages: Iterable[SplitStage]) -> None:
    """Raise TilingError for stages whose parts are not the same at all sizes.

    `graphs` are of one model whose dimensions have ranges, at several of their values.
    """
    for stage in check_stages(stages, len(graphs[0].ops)):
        regions = [find_region(graph, stage) for graph in graphs]
        ops = graphs[0].ops
        for k in regions[0].cuts:
            if ops[k].type in _SIZED:
                raise TilingError(ops[k].name, f"the sizes that a part of {ops[k].type} has follow a range")
        lengths = [_cut_lengths(graph, region) for graph, region in zip(graphs, regions, strict=True)]
        if any(region != regions[0] for region in regions) or any(each != lengths[0] for each in lengths):
            raise TilingError(ops[stage.last].name, f"what is cut along axis {stage.axis} follows a range")


def _cut_lengths(graph: Graph, region: SplitRegion) -> list[int]:
    """The lengths of all axes that are cut."""
    lengths = [graph.tensors[i].shape[axis] for i, axis in sorted(region.axes.items())]
    for k, cut in region.cuts.items():
        read = ((graph.ops[k].inputs[position], axis) for position, axis in sorted(cut.inputs.items()))
        lengths += [graph.tensors[i].shape[axis] for i, axis in read if i >= 0]
    return lengths


def _axis_of(axes: Mapping[int, int], outputs: Sequence[int]) -> int:
    return next(axes[i] for i in outputs if i in axes)


class _Writer:
    """Appends a stage to a sheet."""

    def __init__(
        self,
        graph: Graph,
        region: SplitRegion,
        stage: SplitStage,
        sheet: Sheet,
        constants: dict[tuple[int, int, int, int], int],
    ) -> None:
        self._graph, self._region, self._stage, self._sheet = graph, region, stage, sheet
        self._constants = constants
        self._dialect = DIALECTS[graph.layout]
        self._stems: dict[int, str] = {}
        inner = {i for k in region.cuts for i in graph.ops[k].inputs}
        outer = {i for k, op in enumerate(graph.ops) if k not in region.cuts for i in op.inputs} | {*graph.outputs}
        # What nothing else reads is not joined; a result that nothing reads at all stays one.
        self._joined = [i for i in region.axes if i in outer or i not in inner]

    def write(self) -> None:
        pieces: dict[int, list[int]] = {i: [] for i in self._joined}
        for part in range(self._stage.parts):
            held = self._part(part)
            for index, found in pieces.items():
                found.append(held[index])
        for index, found in pieces.items():
            self._join(index, found)

    def _part(self, part: int) -> dict[int, int]:
        """Append the operators of one part; returns what it made of each tensor."""
        held: dict[int, int] = {}
        sliced: dict[tuple[int, int], int] = {}
        for k, cut in self._region.cuts.items():
            op = self._graph.ops[k]
            inputs = []
            for position, index in enumerate(op.inputs):
                axis = cut.inputs.get(position, -1)
                if position in cut.derived:
                    inputs.append(-1)
                elif index < 0 or axis < 0:
                    inputs.append(index)
                elif index in self._region.axes:
                    inputs.append(held[index])
                else:
                    if (index, axis) not in sliced:
                        sliced[index, axis] = self._sliced(index, axis, part)
                    inputs.append(sliced[index, axis])
            while cut.derived and inputs[-1] < 0:
                inputs.pop()
            outputs = tuple(self._made(i, part) for i in op.outputs)
            held.update(zip(op.outputs, outputs, strict=True))
            name = f"{op.name}[{part}]"
            attributes = self._attributes(k, cut, part)
            self._sheet.ops.append(Draft(name, op.type, tuple(inputs), outputs, attributes, op.scratch, k))
        return held

    def _range(self, length: int, part: int) -> tuple[int, int]:
        """The items [begin, end) of an axis that belong to a part."""
        blocks, parts = self._region.blocks, self._stage.parts
        low, high = blocks * part // parts, blocks * (part + 1) // parts
        return length // blocks * low, length // blocks * high

    def _made(self, index: int, part: int) -> int:
        if index < 0 or self._stage.parts == 1:
            return index
        tensor = self._graph.tensors[index]
        axis = self._region.axes[index]
        begin, end = self._range(tensor.shape[axis], part)
        name = f"{self._stem(index)}[{begin}:{end}]"
        return self._sheet.add_tensor(name, tensor.dtype, _with(tensor.shape, axis, end - begin), index)

    def _sliced(self, index: int, axis: int, part: int) -> int:
        """A part of what the stage does not make."""
        tensor = self._graph.tensors[index]
        begin, end = self._range(tensor.shape[axis], part)
        if end - begin == tensor.shape[axis]:
            return index
        shape = _with(tensor.shape, axis, end - begin)
        name = f"{self._stem(index)}[{begin}:{end}]"
        if tensor.kind == "constant":
            key = index, axis, begin, end
            if key not in self._constants:
                self._constants[key] = self._sheet.add_constant(name, index, shape, ConstantPart(axis, begin))
            return self._constants[key]
        made = self._sheet.add_tensor(f"{name}s", tensor.dtype, shape, index)
        start = tuple(begin if a == axis else 0 for a in range(len(shape)))
        attributes: dict[str, Attribute] = {"begin": start, "size": shape}
        self._sheet.ops.append(Draft(name, self._dialect.slice, (index,), (made,), attributes))
        return made

    def _attributes(self, k: int, cut: Cut, part: int) -> Mapping[str, Attribute]:
        op = self._graph.ops[k]
        axis = _axis_of(self._region.axes, op.outputs)
        shape = self._graph.tensors[op.outputs[0]].shape
        begin, end = self._range(shape[axis], part)
        size = op.attributes.get("size")
        if isinstance(size, tuple):
            return {**op.attributes, "size": _with(size, axis, end - begin)}
        if cut.grouped:
            begin, end = self._range(cut.blocks, part)
            return {**op.attributes, "group": end - begin}
        return op.attributes

    def _join(self, index: int, pieces: Sequence[int]) -> None:
        """Append concatenations, with no more inputs than the format allows to each."""
        if self._stage.parts == 1:
            return
        tensor, axis, most = self._graph.tensors[index], self._region.axes[index], self._dialect.most_inputs
        while len(pieces) > most:
            groups = [pieces[n : n + most] for n in range(0, len(pieces), most)]
            pieces = [self._group(index, group) if len(group) > 1 else group[0] for group in groups]
        self._concatenate(tensor.name, pieces, index, axis)

    def _group(self, index: int, pieces: Sequence[int]) -> int:
        tensor, axis = self._graph.tensors[index], self._region.axes[index]
        length = sum(self._sheet.tensors[i].shape[axis] for i in pieces)
        name = f"{self._stem(index)}[{length}]g"
        made = self._sheet.add_tensor(name, tensor.dtype, _with(tensor.shape, axis, length), index)
        self._concatenate(name, pieces, made, axis)
        return made

    def _concatenate(self, name: str, pieces: Sequence[int], made: int, axis: int) -> None:
        self._sheet.ops.append(Draft(name, self._dialect.concatenation, tuple(pieces), (made,), {"axis": axis}))

    def _stem(self, index: int) -> str:
        if index not in self._stems:
            self._stems[index] = self._sheet.stem(self._graph.tensors[index].name)
        return self._stems[index]


def _with(shape: tuple[int, ...], axis: int, length: int) -> tuple[int, ...]:
    """A shape with another length of one axis."""
    return (*shape[:axis], length, *shape[axis + 1 :])
