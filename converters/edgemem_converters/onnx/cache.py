"""A decoder that concatenates its caches, changed to write new rows into buffers of fixed capacity.

    before   past [.., t, ..] ─► Concat(past, new) ─► present [.., t + s, ..] ─► attention

    after    past [.., capacity, ..] ─► ScatterND(past, rows t .. t + s, new) ─► present [.., capacity, ..]
                                                                                  └► Slice [0, t + s) ─► attention

ONNX Runtime's ScatterND copies nothing where `past` and `present` are bound to one buffer. The attention reads the
values that it read before, so that the results are the same bit for bit.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias

from onnx import NodeProto, TensorProto, ValueInfoProto, helper

from edgemem.errors import ModelError, UnsupportedError
from edgemem.formats import Bindings
from edgemem.model.ranges import Range, Sum, resolve
from edgemem.model.states import StatePair
from edgemem_converters.onnx.functions import bodies_of
from edgemem_converters.onnx.node_writer import NodeWriter
from edgemem_converters.onnx.scopes import op_type
from edgemem_converters.onnx.states import APPENDING, declared_dims, source_of, writers

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from onnx import GraphProto, ModelProto

    from edgemem.model.ranges import Dimension

__all__ = ["CAPACITY", "PAST_ROWS", "carried_over", "write_in_place"]

CAPACITY: Final = "capacity"  # the symbol of the buffers' length
PAST_ROWS: Final = "past_rows"  # an input [t, 0], where no other input tells how many rows there are already
GraphForms: TypeAlias = "Mapping[str, Sequence[int | str | None]]"  # dimensions by value
_LEAST_OPSET: Final = 13  # ScatterND and Slice as they are used here
_INTEGERS: Final = (TensorProto.INT64, TensorProto.INT32)


def write_in_place(model: ModelProto, pairs: Sequence[StatePair]) -> tuple[StatePair, ...]:
    """Change the model's `appended` pairs that a Concat writes; the pairs as they are afterwards.

    The model gets the symbol `capacity` for the caches' length. How many rows there are already is the length of
    `attention_mask` less the tokens of this run, or the length of a new input `past_rows` of shape [t, 0].

    Raises UnsupportedError for a pair that something else writes, a cache that other operators read, and an operator
    set below 13.
    """
    wanted = [pair for pair in pairs if pair.growth == "appended"]
    if not wanted:
        return tuple(pairs)
    _check(model, wanted)
    rewriting = _Rewriting(model.graph, NodeWriter(model.graph, "edgemem/cache"))
    rewriting.begin(wanted)
    for pair in wanted:
        rewriting.change(pair)
    rewriting.finish(wanted)
    changed = {pair.past for pair in wanted}
    return tuple(
        StatePair(p.past, p.present, p.axis, "in_place", "ScatterND") if p.past in changed else p for p in pairs
    )


def carried_over(bindings: Bindings, changed: Sequence[StatePair], before: GraphForms, after: GraphForms) -> Bindings:
    """The bindings for a changed model: `capacity` as long as the cache after the run, if they tell how long that is.

    Args:
        bindings: for the model before the change.
        changed: the pairs that were changed.
        before: the dimensions of inputs and outputs that the model declared.
        after: the same of the changed model.

    Raises ModelError for a capacity that is smaller than the cache after the run.
    """
    dims = dict(bindings.dims)
    for pair in changed:
        known = _value(_length(before, pair), bindings.dims)
        if known is not None and dims.setdefault(CAPACITY, known) < known:
            raise ModelError(
                f"{CAPACITY}={dims[CAPACITY]} has no room for {pair.present!r}, which has {known} rows; bind "
                f"{CAPACITY} to {known} or more, or leave it out"
            )
    gone = {before[pair.past][pair.axis] for pair in changed} - {d for shape in after.values() for d in shape}
    smallest = {name: made.low for name, made in bindings.ranges.items() if isinstance(made, Range)}
    low = resolve(bindings.dims, bindings.ranges, smallest)
    ranges: dict[str, Dimension] = {}
    for name, made in bindings.ranges.items():
        if name not in gone:  # a sum with the past is a range by itself now
            is_of_past = isinstance(made, Sum) and not gone.isdisjoint(made.names)
            if not is_of_past:
                ranges[name] = made
            elif low[name] != dims[name]:
                ranges[name] = Range(low[name], dims[name])
    kept = {name: value for name, value in dims.items() if name not in gone}
    return Bindings(kept, bindings.input_shapes, ranges)


def _length(forms: GraphForms, pair: StatePair) -> int | str | None:
    """How the model calls the cache's length after the run; None if it does not say."""
    dims = forms[pair.present]
    return dims[pair.axis] if pair.axis < len(dims) else None


def _value(length: int | str | None, dims: Mapping[str, int]) -> int | None:
    """A length that is bound, or a sum of such, as exporters write it: `past + sequence`; None for another."""
    if not isinstance(length, str) or length in dims:
        return dims.get(length) if isinstance(length, str) else length
    terms = [term.strip() for term in length.split("+")]
    sizes = [int(term) if term.isdecimal() else dims.get(term) for term in terms]
    return None if len(terms) < 2 or None in sizes else sum(size for size in sizes if size is not None)


def _check(model: ModelProto, pairs: Sequence[StatePair]) -> None:
    other = next((pair for pair in pairs if pair.operator != "Concat"), None)
    if other is not None:
        remedy = (
            "the caches then take turns in two buffers"
            if other.operator in APPENDING
            else "if it does not grow by every token, DecoderState does not run it; a session does"
        )
        raise UnsupportedError(
            f"{other.present!r} is written by {other.operator or 'no operator'}, and only a Concat of a cache and its "
            f"new rows is changed; leave --state out: {remedy}"
        )
    version = next((o.version for o in model.opset_import if o.domain in ("", "ai.onnx")), 0)
    if version < _LEAST_OPSET:
        raise UnsupportedError(f"caches are changed from operator set {_LEAST_OPSET} on, and the model has {version}")
    names = {name for pair in pairs for name in (pair.past, pair.present)}
    for node in model.graph.node:
        captured = names.intersection(_read_in_bodies(node))
        if captured:
            raise UnsupportedError(f"{min(captured)!r} is read in a body of {node.name or node.op_type!r}")


def _read_in_bodies(node: NodeProto) -> Iterator[str]:
    for body, _ in bodies_of(node):
        for inner in body.node:
            yield from inner.input
            yield from _read_in_bodies(inner)


@dataclass(slots=True)
class _Rewriting:
    """The state of one rewriting: nodes that go before the others, and those that replace them."""

    graph: GraphProto
    write: NodeWriter
    before: list[NodeProto] = field(default_factory=list)
    replaced: dict[int, list[NodeProto]] = field(default_factory=dict)  # number of a node -> nodes in its place
    renamed: dict[str, str] = field(default_factory=dict)  # what readers of a value read instead
    rows: dict[tuple[object, ...], str] = field(default_factory=dict)  # indices of new rows, by leading dimensions
    past: str = ""  # [1]: rows that there are already
    total: str = ""  # [1]: rows after this run
    made: dict[str, NodeProto] = field(default_factory=dict)
    places: dict[str, int] = field(default_factory=dict)  # output -> number of its node
    forms: dict[str, tuple[int | str | None, ...]] = field(default_factory=dict)
    types: dict[str, int] = field(default_factory=dict)  # element types of inputs
    whole: dict[tuple[object, ...], str] = field(default_factory=dict)  # `_is_whole` by shape and axis

    def begin(self, pairs: Sequence[StatePair]) -> None:
        """How many rows there are before and after this run."""
        graph = self.graph
        self.made = writers(graph)
        self.places = {name: number for number, node in enumerate(graph.node) for name in node.output}
        self.forms = {v.name: declared_dims(v) for v in (*graph.input, *graph.output)}
        self.types = {v.name: v.type.tensor_type.elem_type for v in graph.input}
        states = {pair.past for pair in pairs}
        mask, tokens = _mask_of(graph, _length(self.forms, pairs[0])), _tokens_of(graph, states)
        first = self._concat(pairs[0])
        if mask and tokens:
            self.total = self.write.node(
                self.before, "Slice", self.write.shape(self.before, mask), *self.write.range(1, 2)
            )
            new = self.write.node(self.before, "Slice", self.write.shape(self.before, tokens), *self.write.range(1, 2))
            self.past = self.write.node(self.before, "Sub", self.total, new)
        else:
            rows = self.write.name(PAST_ROWS)
            symbol = self.forms[pairs[0].past][pairs[0].axis] or "past"
            graph.input.append(helper.make_tensor_value_info(rows, TensorProto.FLOAT, [symbol, 0]))
            self.past = self.write.node(
                self.before, "Slice", self.write.shape(self.before, rows), *self.write.range(0, 1)
            )
            if tokens:
                new = self.write.node(
                    self.before, "Slice", self.write.shape(self.before, tokens), *self.write.range(1, 2)
                )
                self.total = self.write.node(self.before, "Add", self.past, new)
            else:
                nodes = self.replaced.setdefault(self.places[first.output[0]], [])
                axis = pairs[0].axis
                new = self.write.node(
                    nodes, "Slice", self.write.shape(nodes, first.input[1]), *self.write.range(axis, axis + 1)
                )
                self.total = self.write.node(nodes, "Add", self.past, new)

    def change(self, pair: StatePair) -> None:
        """Put ScatterND and Slice in the place of a pair's Concat, and give readers of its shape the old one."""
        concat = self._concat(pair)
        nodes = self.replaced.setdefault(self.places[concat.output[0]], [])
        rows = self._rows(nodes, pair)
        nodes.append(self._either(pair, self._is_whole(nodes, pair), rows, concat.input[1]))
        start, axes = self.write.constant(0), self.write.constant(pair.axis)
        valid = self.write.node(nodes, "Slice", pair.present, start, self.total, axes)
        # The graph's output takes the buffer, and everything else reads the rows that are there.
        self.renamed.update(dict.fromkeys(self._copies(concat.output[0], pair), valid))
        self._shapes_of_past(pair)

    def _is_whole(self, nodes: list[NodeProto], pair: StatePair) -> str:
        """Whether the past has no row without a token, as a scalar; one value for all caches of equal shape."""
        key = (*self.forms[pair.past], pair.axis)
        if key not in self.whole:
            length = self.write.node(
                nodes, "Slice", self.write.shape(nodes, pair.past), *self.write.range(pair.axis, pair.axis + 1)
            )
            self.whole[key] = self.write.scalar(nodes, self.write.node(nodes, "Equal", length, self.past))
        return self.whole[key]

    def _either(self, pair: StatePair, is_whole: str, rows: str, new: str) -> NodeProto:
        """The node If that writes new rows into the buffer, or puts them behind a past without unused rows."""
        bodies = {}
        for body, kind, inputs, attributes in (
            ("then_branch", "Concat", [pair.past, new], {"axis": pair.axis}),
            ("else_branch", "ScatterND", [pair.past, rows, new], {}),
        ):
            output = self.write.name(f"{pair.present}/{kind}")
            info = ValueInfoProto(name=output)
            info.type.tensor_type.elem_type = self.types[pair.past]
            node = self.write.named(kind, inputs, [output], **attributes)
            bodies[body] = helper.make_graph([node], self.write.name(f"{output}/{body}"), [], [info])
        node = self.write.named("If", [is_whole], [pair.present])
        node.attribute.extend(helper.make_attribute(name, body) for name, body in bodies.items())
        return node

    def finish(self, pairs: Sequence[StatePair]) -> None:
        """Write the nodes in their new order, and the caches' new shapes."""
        graph = self.graph
        nodes = list(self.before)
        for number, node in enumerate(graph.node):
            if number in self.replaced:
                nodes += self.replaced[number]
                continue
            for k, name in enumerate(node.input):
                node.input[k] = self.renamed.get(name, name)
            nodes.append(node)
        kept = [NodeProto.FromString(node.SerializeToString()) for node in nodes]
        del graph.node[:]
        graph.node.extend(kept)
        axes = {name: pair.axis for pair in pairs for name in (pair.past, pair.present)}
        infos = [v for v in graph.value_info if v.name not in axes and v.name not in self.renamed]
        del graph.value_info[:]
        graph.value_info.extend(infos)
        for value in (*graph.input, *graph.output):
            if value.name in axes:
                _set_symbol(value, axes[value.name])

    def _concat(self, pair: StatePair) -> NodeProto:
        return self.made[source_of(pair.present, self.made)]

    def _copies(self, name: str, pair: StatePair) -> set[str]:
        """The value and its copies, whose nodes are left out. Raises UnsupportedError for another graph output."""
        names = {name}
        for number, node in enumerate(self.graph.node):
            if _copies_one(node) and node.input[0] in names:
                names.update(node.output)
                self.replaced[number] = []
        also = (names & {value.name for value in self.graph.output}) - {pair.present}
        if also:
            raise UnsupportedError(f"{min(also)!r} is the same value as {pair.present!r}, which is to be a buffer")
        return names

    def _shapes_of_past(self, pair: StatePair) -> None:
        """Readers of the past's shape get the one without unused rows. Raises UnsupportedError for other readers."""
        past = {pair.past}
        concat = self.places[self._concat(pair).output[0]]
        shape = ""
        for number, node in enumerate(self.graph.node):
            if number == concat or not past.intersection(node.input):
                continue
            if _copies_one(node):
                past.update(node.output)
                self.replaced[number] = []
            elif op_type(node) == "Shape":
                shape = shape or self._past_shape(pair)
                self.replaced[number] = [
                    self.write.named("Slice", [shape, *self._shape_range(node)], list(node.output))
                ]
            else:
                raise UnsupportedError(
                    f"{pair.past!r} is also read by {node.name or node.op_type!r} ({node.op_type}), which would find "
                    "unused rows in it; leave --state out: the caches then take turns in two buffers"
                )

    def _shape_range(self, node: NodeProto) -> tuple[str, str]:
        bounds = {a.name: a.i for a in node.attribute}
        return self.write.constant(bounds.get("start", 0)), self.write.constant(bounds.get("end", 2**31 - 1))

    def _past_shape(self, pair: StatePair) -> str:
        shape = self.write.shape(self.before, pair.past)
        head = self.write.node(self.before, "Slice", shape, *self.write.range(0, pair.axis))
        tail = self.write.node(self.before, "Slice", shape, *self.write.range(pair.axis + 1, 2**31 - 1))
        return self.write.node(self.before, "Concat", head, self.past, tail, axis=0)

    def _rows(self, nodes: list[NodeProto], pair: StatePair) -> str:
        """The indices of the new rows, [.., s, axis + 1]; one value for all caches with the same leading dimensions."""
        dims = self.forms[pair.past][: pair.axis]
        key = dims if all(d is not None for d in dims) else (*dims, pair.past)
        if key in self.rows:
            return self.rows[key]
        begin, end, step = (
            self.write.scalar(nodes, self.past),
            self.write.scalar(nodes, self.total),
            self.write.constant_scalar(1),
        )
        shape = self.write.shape(nodes, pair.past)
        lead = self.write.node(nodes, "Slice", shape, *self.write.range(0, pair.axis))
        new = self.write.node(nodes, "Sub", self.total, self.past)
        full = self.write.node(nodes, "Concat", lead, new, self.write.constant(1), axis=0)
        columns = []
        for axis in range(pair.axis + 1):
            if axis == pair.axis:
                numbers = self.write.node(nodes, "Range", begin, end, step)
            else:
                size = self.write.node(nodes, "Slice", shape, *self.write.range(axis, axis + 1))
                numbers = self.write.node(
                    nodes, "Range", self.write.constant_scalar(0), self.write.scalar(nodes, size), step
                )
            form = [1] * (pair.axis + 2)
            form[axis] = -1
            column = self.write.node(nodes, "Reshape", numbers, self.write.constant(*form))
            columns.append(self.write.node(nodes, "Expand", column, full))
        self.rows[key] = self.write.node(nodes, "Concat", *columns, axis=pair.axis + 1)
        return self.rows[key]


def _copies_one(node: NodeProto) -> bool:
    """Whether the node gives its only input back as it is."""
    return op_type(node) in ("Identity", "Concat") and len(node.input) == 1


def _mask_of(graph: GraphProto, length: int | str | None) -> str:
    """The input [batch, rows after this run] that masks tokens; "" if there is none."""
    for value in _token_inputs(graph):
        dims = declared_dims(value)
        if value.name == "attention_mask" or (isinstance(length, str) and dims[1] == length):
            return value.name
    return ""


def _tokens_of(graph: GraphProto, states: set[str]) -> str:
    """The input whose second dimension counts the tokens of this run; "" if there is none."""
    known = ("input_ids", "inputs_embeds", "decoder_input_ids", "tokens")
    return next((v.name for v in graph.input if v.name in known and v.name not in states), "")


def _token_inputs(graph: GraphProto) -> Iterator[ValueInfoProto]:
    for value in graph.input:
        if value.type.tensor_type.elem_type in _INTEGERS and len(declared_dims(value)) == 2:
            yield value


def _set_symbol(value: ValueInfoProto, axis: int) -> None:
    dim = value.type.tensor_type.shape.dim[axis]
    dim.Clear()
    dim.dim_param = CAPACITY
