"""Writes the operators of a stage stripe by stripe.

new rows of a value   ────────────┐
rows kept from before ─ concat ───┴─► window ─► readers of this step
▲                             │
└────────── slice (tail) ◄────┘   what later stripes need again
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgemem.passes.reach import axis_of
from edgemem.passes.sheet import Draft
from edgemem.passes.streaming.progress import progress_of
from edgemem.passes.streaming.region import DIALECTS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from edgemem.model.graph import Attribute, Graph, Tensor
    from edgemem.passes.sheet import Sheet
    from edgemem.passes.streaming.region import StripeNode, StripeRegion

__all__ = ["write_stage"]


def write_stage(graph: Graph, region: StripeRegion, sheet: Sheet, slot_alignment: int) -> None:
    """Append a stage to the sheet, as `edgemem.passes.streaming.stream.stream` describes it."""
    _Writer(graph, region, sheet, slot_alignment).write()


class _Value:
    """A value of the stage: how its parts are named and shaped, and its rows [begin, end) that operators can read."""

    __slots__ = ("begin", "dtype", "end", "head", "held", "is_input", "like", "row_size", "rows", "stem", "tail")

    def __init__(self, tensor: Tensor, like: int, stem: str, axis: int) -> None:
        """Of a tensor whose rows are along this axis."""
        self.dtype = tensor.dtype
        self.like = like
        self.stem = stem
        self.rows = tensor.shape[axis]
        self.row_size = tensor.size // max(self.rows, 1)
        self.head, self.tail = tensor.shape[:axis], tensor.shape[axis + 1 :]
        self.is_input = False
        self.held = -1  # the tensor with these rows; -1: there are none
        self.begin = self.end = 0


class _Writer:
    def __init__(self, graph: Graph, region: StripeRegion, sheet: Sheet, slot_alignment: int) -> None:
        self._graph = graph
        self._region = region
        self._sheet = sheet
        self._axis = axis_of(graph, "height")
        self._dialect = DIALECTS[graph.layout]
        # Only rows of the outermost dimension are in one piece. The batch is 1.
        self._slot_alignment = slot_alignment if self._axis == 1 else 0
        self._joined: Mapping[str, Attribute] = {"axis": self._axis}
        self._first: list[Draft] = []  # slices of the stage's inputs
        self._rest: list[Draft] = []
        self._slices: dict[tuple[int, int, int], int] = {}
        self._padded: dict[tuple[int, int, int], Mapping[str, Attribute]] = {}
        self._pieces: dict[int, list[tuple[int, int, int]]] = {value: [] for value in region.results}
        tensors = (*graph.tensors, *region.padded)
        likes = (*range(len(graph.tensors)), *region.likes)
        self._values: dict[int, _Value] = {}
        for value in (*(v for v in region.readers if v not in region.made), *(n.output for n in region.nodes)):
            stem = sheet.stem(tensors[value].name)
            self._values[value] = _Value(tensors[value], likes[value], stem, self._axis)
        for value in region.readers.keys() - region.made:
            given = self._values[value]
            given.is_input, given.held, given.end = True, value, given.rows

    def write(self) -> None:
        for index in self._region.constant_ops:
            self._sheet.copy(index)
        progress = progress_of(self._region)
        cuts = [tuple(dict.fromkeys(node.inputs[k] for k in node.window.cut)) for node in self._region.nodes]
        before = [0] * len(cuts)
        for after in progress:
            runs = [number for number, made in enumerate(after) if made > before[number]]
            last = {value: number for number in runs for value in cuts[number]}
            for number in runs:
                node, begin, end = self._region.nodes[number], before[number], after[number]
                need = node.window.needs(begin, end)
                parts = {value: self._part(value, need.begin, need.end) for value in cuts[number]}
                for value in cuts[number]:
                    if last[value] == number:
                        self._keep(value, after)
                made = self._run(node, begin, end, parts)
                self._receive(node.output, made, begin, end)
            before = after
        for value, pieces in self._pieces.items():
            if len(pieces) > 1:
                self._join(value, pieces, value)
        self._sheet.ops += (*self._first, *self._rest)

    def _part(self, number: int, begin: int, end: int) -> int:
        """A tensor with the rows [begin, end) of a value, of which at least these are there."""
        value = self._values[number]
        if (begin, end) == (value.begin, value.end):
            return value.held
        key = value.held, begin, end
        if key not in self._slices:
            # All slices that may lie inside an input come first, so that the input dies at once, piece by piece.
            offset = (begin - value.begin) * value.row_size
            is_first = value.is_input and self._slot_alignment > 0 and not offset % self._slot_alignment
            part = self._tensor(value, begin, end, "s")
            self._slice(value.held, begin - value.begin, part, is_first=is_first)
            self._slices[key] = part
        return self._slices[key]

    def _keep(self, number: int, after: list[int]) -> None:
        """Of the rows that are there, keep those that operators need in later steps."""
        value, nodes = self._values[number], self._region.nodes
        if value.is_input:
            return
        need = value.rows
        for reader in self._region.readers[number]:
            window, made = nodes[reader].window, after[reader]
            if made < window.made:
                need = min(need, window.needs(made, made + 1).begin)
        if need >= value.end:
            value.held = -1
        elif need > value.begin:
            tail = self._tensor(value, need, value.end, "t")
            self._slice(value.held, need - value.begin, tail)
            value.held = tail
        value.begin = max(value.begin, need)

    def _run(self, node: StripeNode, begin: int, end: int, parts: Mapping[int, int]) -> int:
        """Append the operator that makes the rows [begin, end); returns the tensor that has them."""
        window, value = node.window, self._values[node.output]
        cut = window.cut
        inputs = tuple(parts[v] if k in cut else v for k, v in enumerate(node.inputs))
        low, high = window.computes(begin, end)
        is_exact = (low, high) == (begin, end)
        made = self._made(node, value, begin, end)
        computed = made if is_exact else self._tensor(value, low, high, "r")
        attributes = node.attributes
        if window.before or window.after:
            attributes = self._with_padding(node, begin, end)
        name = f"{node.name}[{begin}:{end}]"
        self._rest.append(Draft(name, node.type, inputs, (computed,), attributes, node.scratch, node.source))
        if not is_exact:
            self._slice(computed, begin - low, made)
        return made

    def _made(self, node: StripeNode, value: _Value, begin: int, end: int) -> int:
        """The tensor for rows that an operator makes: the old one if they are all of it."""
        if end - begin == value.rows and node.output < len(self._graph.tensors):
            return node.output
        return self._tensor(value, begin, end, "")

    def _with_padding(self, node: StripeNode, begin: int, end: int) -> Mapping[str, Attribute]:
        """The attributes of a stripe that has a share of the paddings."""
        need = node.window.needs(begin, end)
        key = node.output, need.before, need.after
        if key not in self._padded:
            name = "pads" if "pads" in node.attributes else "paddings"
            paddings = node.attributes[name]
            assert isinstance(paddings, tuple)  # `window_of` has read it
            changed = list(paddings)
            first, second = (0, 2) if name == "pads" else (2 * self._axis, 2 * self._axis + 1)
            changed[first], changed[second] = need.before, need.after
            self._padded[key] = {**node.attributes, name: tuple(changed)}
        return self._padded[key]

    def _receive(self, number: int, made: int, begin: int, end: int) -> None:
        """Put new rows after those that are there."""
        value = self._values[number]
        if number in self._pieces:
            self._pieces[number].append((made, begin, end))
        if number not in self._region.readers:
            return
        if value.held < 0:
            value.held, value.begin = made, begin
        else:
            joined = self._tensor(value, value.begin, end, "w")
            self._concatenate((value.held, made), joined)
            value.held = joined
        value.end = end

    def _join(self, number: int, pieces: Sequence[tuple[int, int, int]], into: int) -> None:
        """Append concatenations of pieces (tensor, begin, end), no more than the format allows to each."""
        most, value = self._dialect.most_inputs, self._values[number]
        while len(pieces) > most:
            groups = [pieces[k : k + most] for k in range(0, len(pieces), most)]
            pieces = [self._group(value, group) if len(group) > 1 else group[0] for group in groups]
        self._concatenate(tuple(tensor for tensor, _, _ in pieces), into)

    def _group(self, value: _Value, pieces: Sequence[tuple[int, int, int]]) -> tuple[int, int, int]:
        begin, end = pieces[0][1], pieces[-1][2]
        joined = self._tensor(value, begin, end, "g")
        self._concatenate(tuple(tensor for tensor, _, _ in pieces), joined)
        return joined, begin, end

    def _tensor(self, value: _Value, begin: int, end: int, kind: str) -> int:
        shape = (*value.head, end - begin, *value.tail)
        return self._sheet.add_tensor(f"{value.stem}[{begin}:{end}]{kind}", value.dtype, shape, value.like)

    def _slice(self, source: int, begin: int, into: int, *, is_first: bool = False) -> None:
        """Append a slice that starts at a row of its source."""
        tensor = self._sheet.tensors[into]
        start = tuple(begin if k == self._axis else 0 for k in range(len(tensor.shape)))
        attributes: dict[str, Attribute] = {"begin": start, "size": tensor.shape}
        draft = Draft(tensor.name, self._dialect.slice, (source,), (into,), attributes)
        (self._first if is_first else self._rest).append(draft)

    def _concatenate(self, parts: tuple[int, ...], into: int) -> None:
        name = self._sheet.tensors[into].name
        self._rest.append(Draft(name, self._dialect.concatenation, parts, (into,), self._joined))
