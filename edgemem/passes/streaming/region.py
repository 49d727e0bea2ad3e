"""The operators of a stage as nodes that can run in stripes: paddings explicit, and who reads which rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from edgemem.errors import ModelError, TilingError
from edgemem.model.rewrite import NEW
from edgemem.passes.reach import Window, axis_of, window_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from edgemem.model.graph import Attribute, Graph, Op, Tensor

__all__ = ["DIALECTS", "Dialect", "StripeNode", "StripeRegion", "StripeStage", "region_of"]


_MOST_ROWS: Final = 1 << 16  # of what can be streamed, and stripes; time and memory are linear in both


@dataclass(frozen=True, slots=True)
class StripeStage:
    """Operators that run in stripes together.

    Attributes:
        first_op: index of the first of them in the graph.
        last_op: index of the last of them, inclusive.
        stripes: how many steps they take, at least 1.
    """

    first_op: int
    last_op: int
    stripes: int


@dataclass(frozen=True, slots=True)
class Dialect:
    """How a file format writes the operators that streaming adds.

    Attributes:
        slice: takes a part of a tensor; attributes `begin` and `size`.
        concatenation: joins tensors; attribute `axis`.
        padding: adds a border of zeros (of the zero point in quantised tensors); attribute `paddings`.
        lowest_padding: adds a border of the least number that the dtype has; attributes `paddings` and `value`.
        explicit_pads: windows carry any paddings of their own, so that no operator has to add them.
        most_inputs: of a concatenation.
        derived: operator -> position of a constant input that follows from the shapes and attributes. It is left out
            of a stripe's inputs, because the whole tensor's would be wrong.
    """

    slice: str
    concatenation: str
    padding: str
    lowest_padding: str
    explicit_pads: bool
    most_inputs: int
    derived: Mapping[str, int]


# By the layout of the graph. TensorFlow Lite Micro joins ten tensors at most.
DIALECTS: Final[Mapping[str, Dialect]] = {
    "nhwc": Dialect(
        *("SLICE", "CONCATENATION", "PAD", "PADV2"),
        explicit_pads=False,
        most_inputs=10,
        derived={"PAD": 1, "PADV2": 1, "RESIZE_BILINEAR": 1, "RESIZE_NEAREST_NEIGHBOR": 1},
    ),
    "nchw": Dialect("Slice", "Concat", "Pad", "Pad", explicit_pads=True, most_inputs=1 << 30, derived={"Pad": 1}),
}


@dataclass(frozen=True, slots=True)
class StripeNode:
    """An operator of a stage.

    Attributes:
        source: its index in the graph; NEW for padding that a window had.
        name: of that operator, for people.
        type: of the operator.
        inputs: values; -1 for absent ones.
        output: the value it makes.
        window: which rows of the inputs at `window.cut` a row of the output needs.
        attributes: of its stripes, but for paddings of rows.
        scratch: bytes of workspace.
    """

    source: int
    name: str
    type: str
    inputs: tuple[int, ...]
    output: int
    window: Window
    attributes: Mapping[str, Attribute]
    scratch: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class StripeRegion:
    """A stage, ready to be run in stripes.

    Values are tensors of the graph by index; `padded` ones, which the graph does not have, are numbered after them.

    Attributes:
        stage: what it was made from.
        nodes: in the order of the graph.
        constant_ops: operators of the stage that compute constants from constants, by index.
        padded: the values that paddings make.
        likes: for each of them the tensor whose dtype and quantisation it has.
        readers: value -> the nodes that read its rows, ascending. Inputs of the stage included.
        made: values that the stage makes.
        results: those of them that are needed after it, in the order in which they are made.
    """

    stage: StripeStage
    nodes: tuple[StripeNode, ...]
    constant_ops: tuple[int, ...]
    padded: tuple[Tensor, ...]
    likes: tuple[int, ...]
    readers: Mapping[int, tuple[int, ...]]
    made: frozenset[int]
    results: tuple[int, ...]


def region_of(graph: Graph, stage: StripeStage) -> StripeRegion:
    """The operators of a stage with explicit paddings.

    Raises ModelError for a stage that is not in the graph, and TilingError, with the operator and the reason, for one
    that cannot run in stripes.
    """
    if not 0 <= stage.first_op <= stage.last_op < len(graph.ops) or stage.stripes < 1:
        raise ModelError(
            f"a stage {stage.first_op}:{stage.last_op}:{stage.stripes} is not in a graph of {len(graph.ops)} "
            "operators; give FIRST:LAST:STRIPES with 0 <= FIRST <= LAST and at least one stripe"
        )
    if stage.stripes > _MOST_ROWS:
        raise ModelError(
            f"the stage {stage.first_op}:{stage.last_op} is to have {stage.stripes} stripes; take one for each row at "
            f"most, and no more than {_MOST_ROWS}"
        )
    return _Builder(graph, stage).build()


class _Builder:
    def __init__(self, graph: Graph, stage: StripeStage) -> None:
        self._graph = graph
        self._stage = stage
        self._axis = axis_of(graph, "height")
        self._dialect = DIALECTS[graph.layout]
        self._nodes: list[StripeNode] = []
        self._padded: list[Tensor] = []
        self._likes: list[int] = []
        self._made: dict[int, None] = {}

    def build(self) -> StripeRegion:
        graph, stage = self._graph, self._stage
        inside = range(stage.first_op, stage.last_op + 1)
        constant_ops = []
        for index in inside:
            op = graph.ops[index]
            if op.ordered or any(index in pair for pair in graph.precedence):
                raise TilingError(op.name, "it has to keep its place among other operators")
            if self._computes_constants(op):
                constant_ops.append(index)
            else:
                self._add(index, op)
        readers: dict[int, list[int]] = {}
        for number, node in enumerate(self._nodes):
            for value in dict.fromkeys(node.inputs[k] for k in node.window.cut):
                readers.setdefault(value, []).append(number)
        outside = {i for k, op in enumerate(graph.ops) if k not in inside for i in op.inputs} | set(graph.outputs)
        return StripeRegion(
            stage,
            tuple(self._nodes),
            tuple(constant_ops),
            tuple(self._padded),
            tuple(self._likes),
            {value: tuple(numbers) for value, numbers in readers.items()},
            frozenset(self._made),
            tuple(v for v in self._made if v in outside or v not in readers),
        )

    def _computes_constants(self, op: Op) -> bool:
        tensors = self._graph.tensors
        return bool(op.outputs) and all(tensors[i].kind == "constant" for i in (*op.inputs, *op.outputs) if i >= 0)

    def _add(self, index: int, op: Op) -> None:
        """Append an operator, and its padding as one of its own where the format has no other way."""
        window = window_of(self._graph, op, "height")
        self._check(op, window)
        inputs, attributes = list(op.inputs), op.attributes
        pads = attributes.get("pads")
        if isinstance(pads, tuple) and any(pads) and not self._dialect.explicit_pads:
            if op.type == "AVERAGE_POOL_2D":
                raise TilingError(op.name, "its padding does not count in the average, unlike a border of zeros")
            inputs[0] = self._pad(op, inputs[0], pads)
            attributes = {**attributes, "pads": (0, 0, 0, 0)}
            given = window.given + window.before + window.after
            window = Window(given, window.made, window.reach, window.stride, cut=window.cut)
        derived = self._dialect.derived.get(op.type, len(inputs))
        if derived < len(inputs):
            inputs[derived] = -1
            while inputs[-1] < 0:
                inputs.pop()
        self._made[op.outputs[0]] = None
        self._nodes.append(
            StripeNode(index, op.name, op.type, tuple(inputs), op.outputs[0], window, attributes, op.scratch)
        )

    def _check(self, op: Op, window: Window) -> None:
        tensors = self._graph.tensors
        if not 0 < window.made <= _MOST_ROWS or not 0 < window.given <= _MOST_ROWS:
            rows = f"{window.given} rows and makes {window.made}"
            raise TilingError(op.name, f"it reads {rows}; it can run in stripes of 1 to {_MOST_ROWS}")
        if tensors[op.outputs[0]].shape[0] != 1:
            raise TilingError(op.name, "its batch is not 1, so that a stripe would not be in one piece")
        for position, index in enumerate(op.inputs):
            if index < 0:
                continue
            tensor = tensors[index]
            if position not in window.cut:
                if index in self._made:
                    raise TilingError(op.name, f"every row needs all of {tensor.name!r}, which the stage makes")
            elif tensor.kind == "constant":
                raise TilingError(op.name, f"the constant {tensor.name!r} has a value for each row")
            elif tensor.kind != "activation" or len(tensor.shape) != 4 or tensor.shape[0] != 1:
                raise TilingError(op.name, f"{tensor.name!r} is no activation of one image: {list(tensor.shape)}")

    def _pad(self, op: Op, value: int, pads: tuple[int, ...]) -> int:
        """Append the padding of a window; returns the padded value."""
        tensor = self._graph.tensors[value]
        axis, rank = self._axis, len(tensor.shape)
        paddings = [0] * (2 * rank)
        paddings[2 * axis : 2 * axis + 4] = pads[0], pads[2], pads[1], pads[3]
        shape = tuple(d + paddings[2 * k] + paddings[2 * k + 1] for k, d in enumerate(tensor.shape))
        made = len(self._graph.tensors) + len(self._padded)
        self._padded.append(type(tensor)(f"{tensor.name}.pad", tensor.dtype, shape))
        self._likes.append(value)
        self._made[made] = None
        window = Window(tensor.shape[axis], shape[axis], before=pads[0], after=pads[2])
        attributes: dict[str, Attribute] = {"paddings": tuple(paddings)}
        name, padding = f"{op.name}.pad", self._dialect.padding
        if op.type == "MAX_POOL_2D":
            attributes["value"], padding = "lowest", self._dialect.lowest_padding
        self._nodes.append(StripeNode(NEW, name, padding, (value,), made, window, attributes))
        return made
