"""Runs of operators computed in independent tiles.

    before    x ─► conv ─► y ─► conv ─► z               y and z are in memory as a whole

    after     x ─► Slice ─► conv ─► y0 ─► conv ─► z0    rows 0 to 3 of z need rows 0 to 4 of y
              x ─► Slice ─► conv ─► y1 ─► conv ─► z1    rows 4 to 7 of z need rows 3 to 8 of y
              z0, z1, ... ─► Concat ─► z                where something reads z as a whole

Neighbouring tiles compute the rows between them (the halo) twice, so that no tile waits for another: any order of the
operators that runs one tile after the other needs little memory. The padding of a convolution is explicit: a tile at
the edge of the image has it, one inside has none. A stage that reads what another one made takes its rows from the
parts, each of which ends when the last tile that needs it has run; so the whole is never there, let alone twice, as it
is while parts are joined.

The graph is that of an ONNX model: new operators are Slice and Concat, dimensions are [batch, channels, height, width].
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

from edgemem.errors import TilingError
from edgemem.model.graph import Graph, Op, Tensor
from edgemem.model.rewrite import NEW, Rewrite
from edgemem.passes.reach import Need, Window, window_of
from edgemem.passes.tiling.stage import check_stages

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from edgemem.model.graph import Attribute
    from edgemem.passes.tiling.stage import TileStage

__all__ = ["Part", "TileRegion", "find_region", "parts_of", "tile"]

# Rows [top, bottom) and columns [left, right).
Part: TypeAlias = "tuple[int, int, int, int]"


@dataclass(frozen=True, slots=True)
class TileRegion:
    """The operators of a stage, as a graph sees them.

    Attributes:
        ops: of the graph, by index, in order.
        windows: for each of them, how rows and columns of its result depend on its inputs.
        inputs: tensors that it reads and does not write, constants left out.
        results: tensors that it writes, and that something else reads.
    """

    ops: tuple[int, ...]
    windows: tuple[tuple[Window, Window], ...]
    inputs: tuple[int, ...]
    results: tuple[int, ...]


def tile(graph: Graph, stages: Iterable[TileStage]) -> Rewrite:
    """The graph with the operators of each stage run tile by tile.

    The same values are computed from the same values, so that the outputs are the same wherever a kernel computes an
    element of a part as it does in the whole.

    Raises ModelError for stages that overlap or are not in the graph; TilingError, with the operator and the reason,
    for an operator that cannot be computed in parts, or a result with fewer rows or columns than tiles.
    """
    ordered = check_stages(stages, len(graph.ops))
    if graph.layout != "nchw":
        raise TilingError(graph.name, "tiles are for graphs whose dimensions are [batch, channels, height, width]")
    if graph.precedence:
        raise TilingError(graph.name, "its operators have an order beside what they read and write")
    builder = _Builder(graph)
    at = 0
    for number, stage in enumerate(ordered):
        builder.copy(range(at, stage.first))
        _tile_stage(builder, find_region(graph, stage.first, stage.last), stage, number)
        at = stage.last + 1
    builder.copy(range(at, len(graph.ops)))
    return builder.rewrite()


def find_region(graph: Graph, first: int, last: int) -> TileRegion:
    """The operators from `first` to `last`, inclusive. Raises TilingError as `tile`."""
    ops = tuple(range(first, last + 1))
    windows = []
    for k in ops:
        op = graph.ops[k]
        if op.ordered or op.scratch:
            raise TilingError(op.name, f"{op.type} has side effects or workspace of its own")
        windows.append((window_of(graph, op, "height"), window_of(graph, op, "width")))
        if {*windows[-1][0].cut} != {*windows[-1][1].cut}:
            raise TilingError(op.name, f"the inputs of {op.type} are repeated along one side only")
    written = {i for k in ops for i in graph.ops[k].outputs}
    read = dict.fromkeys(i for k in ops for i in graph.ops[k].inputs if i >= 0 and i not in written)
    outside = {i for k, op in enumerate(graph.ops) if not first <= k <= last for i in op.inputs} | {*graph.outputs}
    for k, (window, _) in zip(ops, windows, strict=True):
        for position, index in enumerate(graph.ops[k].inputs):
            if index in written and position not in window.cut:
                raise TilingError(graph.ops[k].name, f"it reads {graph.tensors[index].name!r} as a whole")
            if index >= 0 and position in window.cut and graph.tensors[index].kind != "activation":
                raise TilingError(graph.ops[k].name, f"{graph.tensors[index].name!r} is a constant with rows")
    results = tuple(i for k in ops for i in graph.ops[k].outputs if i in outside)
    inputs = tuple(i for i in read if graph.tensors[i].kind == "activation")
    return TileRegion(ops, tuple(windows), inputs, results)


def parts_of(
    graph: Graph, region: TileRegion, stage: TileStage, row: int, column: int
) -> tuple[dict[int, Part], dict[int, Part]]:
    """What one tile takes of every tensor: of inputs and inner tensors what is read, and of results its own part.

    The second is what it makes of each result. A tensor that the tile does not need is absent.
    """
    own = {i: _own_part(graph.tensors[i], stage, row, column) for i in region.results}
    taken: dict[int, Part] = dict(own)
    for k, (high, wide) in zip(reversed(region.ops), reversed(region.windows), strict=True):
        op = graph.ops[k]
        wanted = taken.get(op.outputs[0])
        if wanted is None:
            continue
        rows, columns = high.needs(*wanted[:2]), wide.needs(*wanted[2:])
        need = (rows.begin, rows.end, columns.begin, columns.end)
        if rows.begin == rows.end or columns.begin == columns.end:
            raise TilingError(op.name, "a tile of it would consist of padding alone; take fewer tiles")
        for position in high.cut:
            index = op.inputs[position]
            taken[index] = _hull(taken.get(index), need)
    return taken, own


def _own_part(tensor: Tensor, stage: TileStage, row: int, column: int) -> Part:
    height, width = tensor.shape[2:]
    if height < stage.rows or width < stage.columns:
        raise TilingError(
            tensor.name, f"it has {height} rows and {width} columns, fewer than tiles ({stage.rows}x{stage.columns})"
        )
    return (*_share(height, stage.rows, row), *_share(width, stage.columns, column))


def _share(length: int, count: int, number: int) -> tuple[int, int]:
    """The rows (or columns) of one tile of `count`: [begin, end)."""
    return length * number // count, length * (number + 1) // count


def _hull(a: Part | None, b: Part) -> Part:
    return b if a is None else (min(a[0], b[0]), max(a[1], b[1]), min(a[2], b[2]), max(a[3], b[3]))


class _Builder:
    """The new graph while it grows."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._names = {t.name for t in graph.tensors}
        self._tensors: list[Tensor] = []
        self._likes: list[int] = []
        self._ops: list[Op] = []
        self._sources: list[int] = []
        self._index: dict[int, int] = {-1: -1}
        # Old tensor -> the new ones that hold its rows [top, bottom) one after the other; there is no whole.
        self._parts: dict[int, list[tuple[int, int, int]]] = {}
        for index in graph.inputs:
            self.old(index)

    def old(self, index: int) -> int:
        """The new index of a tensor as a whole. One that is in parts is joined, once."""
        if index not in self._index:
            self._index[index] = self._add(self.graph.tensors[index], index)
            if index in self._parts:
                self.new("Concat", tuple(part for part, _, _ in self._parts.pop(index)), self._index[index], axis=2)
        return self._index[index]

    def keep(self, index: int, part: int, top: int, bottom: int) -> None:
        """Note that a new tensor holds the next rows of an old one."""
        if bottom - top == self.graph.tensors[index].shape[2]:
            self._tensors[part] = replace(self._tensors[part], name=self.graph.tensors[index].name)
            self._index[index] = part
        else:
            self._parts.setdefault(index, []).append((part, top, bottom))

    def taken(self, index: int, wanted: Part, name: str) -> int:
        """A part of an old tensor, from the whole or from the parts that there are."""
        tensor = self.graph.tensors[index]
        if index not in self._parts:
            return self.cut(self.old(index), index, (0, tensor.shape[2], 0, tensor.shape[3]), wanted, name)
        pieces = []
        for part, top, bottom in self._parts[index]:
            rows = (max(top, wanted[0]), min(bottom, wanted[1]))
            if rows[0] < rows[1]:
                held = (top, bottom, 0, tensor.shape[3])
                pieces.append(self.cut(part, index, held, (*rows, *wanted[2:]), f"{name}.{top}"))
        if len(pieces) == 1:
            return pieces[0]
        size = (*tensor.shape[:2], wanted[1] - wanted[0], wanted[3] - wanted[2])
        return self.new("Concat", tuple(pieces), self.part(index, name, size), axis=2)

    def part(self, like: int, name: str, size: Sequence[int]) -> int:
        """A new tensor of the type of an old one."""
        while name in self._names:
            name += "_"
        self._names.add(name)
        return self._add(replace(self.graph.tensors[like], name=name, shape=tuple(size)), like)

    def _add(self, tensor: Tensor, like: int) -> int:
        self._tensors.append(tensor)
        self._likes.append(like)
        return len(self._tensors) - 1

    def copy(self, ops: Iterable[int]) -> None:
        """Operators that stay as they are."""
        for k in ops:
            op = self.graph.ops[k]
            inputs, outputs = tuple(map(self.old, op.inputs)), tuple(map(self.old, op.outputs))
            self._ops.append(replace(op, inputs=inputs, outputs=outputs))
            self._sources.append(k)

    def derived(self, k: int, inputs: tuple[int, ...], output: int, attributes: Mapping[str, Attribute]) -> None:
        """An operator like the old one on parts of its tensors."""
        op = self.graph.ops[k]
        name = self._tensors[output].name
        self._ops.append(replace(op, name=name, inputs=inputs, outputs=(output,), attributes=attributes))
        self._sources.append(k)

    def new(self, kind: str, inputs: tuple[int, ...], output: int, **attributes: Attribute) -> int:
        """An operator of its own; returns its output."""
        self._ops.append(Op(self._tensors[output].name, kind, inputs, (output,), attributes=attributes))
        self._sources.append(NEW)
        return output

    def cut(self, source: int, like: int, held: Part, wanted: Part, name: str) -> int:
        """The wanted part of a tensor that holds a larger part of an old one; itself if it is the same."""
        if held == wanted:
            return source
        outer = self._tensors[source].shape[:2]
        begin = (0, 0, wanted[0] - held[0], wanted[2] - held[2])
        size = (*outer, wanted[1] - wanted[0], wanted[3] - wanted[2])
        return self.new("Slice", (source,), self.part(like, name, size), begin=begin, size=size)

    def rewrite(self) -> Rewrite:
        inputs, outputs = (tuple(map(self.old, side)) for side in (self.graph.inputs, self.graph.outputs))
        made = replace(self.graph, tensors=tuple(self._tensors), ops=tuple(self._ops), inputs=inputs, outputs=outputs)
        return Rewrite(made, tuple(self._sources), tuple(self._likes))


def _tile_stage(builder: _Builder, region: TileRegion, stage: TileStage, number: int) -> None:
    if stage.rows * stage.columns == 1:
        builder.copy(region.ops)
        return
    graph = builder.graph
    for row in range(stage.rows):
        pieces: dict[int, list[int]] = {i: [] for i in region.results}
        for column in range(stage.columns):
            one = _Tile(builder, region, stage, row, column, f"/tile{number}.{row}.{column}")
            one.emit()
            for index, found in pieces.items():
                found.append(one.piece(index))
        for index, found in pieces.items():
            tensor = graph.tensors[index]
            top, bottom = _share(tensor.shape[2], stage.rows, row)
            rows = found[0]
            if len(found) > 1:
                rows = builder.part(
                    index, f"{tensor.name}/row{number}.{row}", (*tensor.shape[:2], bottom - top, tensor.shape[3])
                )
                builder.new("Concat", tuple(found), rows, axis=3)
            builder.keep(index, rows, top, bottom)
    for index in region.results:
        if index in graph.outputs:
            builder.old(index)


class _Tile:
    """The operators of one tile."""

    def __init__(
        self, builder: _Builder, region: TileRegion, stage: TileStage, row: int, column: int, suffix: str
    ) -> None:
        self._builder, self._region, self._suffix = builder, region, suffix
        self._graph = builder.graph
        self._taken, self._own = parts_of(self._graph, region, stage, row, column)
        # Old tensor -> the new one that holds the part of it which this tile takes, once it is there.
        self._held: dict[int, int] = {}

    def emit(self) -> None:
        for k, (high, wide) in zip(self._region.ops, self._region.windows, strict=True):
            op = self._graph.ops[k]
            result = op.outputs[0]
            if result not in self._taken:
                continue
            wanted = self._taken[result]
            rows, columns = high.needs(*wanted[:2]), wide.needs(*wanted[2:])
            need = (rows.begin, rows.end, columns.begin, columns.end)
            read = {i: self._read(i, need) for i in dict.fromkeys(op.inputs[p] for p in high.cut)}
            inputs = tuple(
                read[index] if position in high.cut else self._builder.old(index)
                for position, index in enumerate(op.inputs)
            )
            made = (*high.computes(*wanted[:2]), *wide.computes(*wanted[2:]))
            self._held[result] = self._compute(k, inputs, made, wanted, (rows, columns))

    def piece(self, result: int) -> int:
        """The tile's own part of a result."""
        name = f"{self._graph.tensors[result].name}{self._suffix}.own"
        return self._builder.cut(self._held[result], result, self._taken[result], self._own[result], name)

    def _read(self, index: int, need: Part) -> int:
        tensor = self._graph.tensors[index]
        taken = self._taken[index]
        if index not in self._held:  # an input of the region
            self._held[index] = self._builder.taken(index, taken, f"{tensor.name}{self._suffix}")
        return self._builder.cut(self._held[index], index, taken, need, f"{tensor.name}{self._suffix}.part")

    def _compute(self, k: int, inputs: tuple[int, ...], made: Part, wanted: Part, needs: tuple[Need, Need]) -> int:
        op = self._graph.ops[k]
        result = op.outputs[0]
        tensor = self._graph.tensors[result]
        size = (*tensor.shape[:2], made[1] - made[0], made[3] - made[2])
        output = self._builder.part(result, f"{tensor.name}{self._suffix}", size)
        attributes = dict(op.attributes)
        (rows, columns), outer = needs, attributes.get("paddings")
        if isinstance(outer, tuple):
            attributes["paddings"] = (*outer[:4], rows.before, rows.after, columns.before, columns.after)
        elif "pads" in attributes and made == wanted:
            attributes["pads"] = (rows.before, columns.before, rows.after, columns.after)
        self._builder.derived(k, inputs, output, attributes)
        return self._builder.cut(output, result, made, wanted, f"{tensor.name}{self._suffix}.cut")
