"""What an operator needs to compute a part of its results along one axis.

    Conv, output channels        Softmax, rows            MatMul, rows                Transpose

    x ──────► part 1             x part 1 ─► part 1       a part 1 ─┐                 the axis has
    w part 1 ─┘                  x part 2 ─► part 2       b ────────┴► part 1         another number

A rule says which axis of which inputs is cut with the results. What it does not name is read whole by every part. Each
element of a part is then computed from the same values as in the whole; `POINTWISE` and others need no more than that.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import gcd, prod
from typing import TYPE_CHECKING, Final, TypeAlias

from edgemem.errors import TilingError
from edgemem.passes.reach import POINTWISE

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from edgemem.model.graph import Graph, Op

__all__ = ["Cut", "cut_of"]

Shape: TypeAlias = "tuple[int, ...]"


@dataclass(frozen=True, slots=True)
class Cut:
    """How an operator is cut along one axis of its results.

    Attributes:
        blocks: along every axis that is cut parts begin and end at multiples of its length / blocks.
        inputs: position of an input that is cut -> the axis of it.
        derived: positions of inputs that say the shape of the result; parts go without them.
        grouped: the operator's `group` is cut, too.
    """

    blocks: int
    inputs: Mapping[int, int] = field(hash=False)
    derived: frozenset[int] = frozenset()
    grouped: bool = False


def cut_of(graph: Graph, op: Op, axis: int) -> Cut:
    """How an operator is cut along this axis of its results, all of which have it.

    Raises TilingError, with the reason, for an operator that cannot be computed in parts along it.
    """
    rule = _RULES.get(op.type)
    if rule is None:
        raise TilingError(op.name, f"{op.type} is not known to compute its results in parts")
    case = _Case(graph, op, axis)
    cut = rule(case)
    if cut.blocks < 2:
        raise TilingError(op.name, f"{op.type} has one item along axis {axis}")
    for position, a in cut.inputs.items():
        if case.shape(position)[a] % cut.blocks:
            raise case.refusal(f"the shapes of this {op.type} do not fit each other")
    return cut


class _Case:
    """An operator and the axis of its results."""

    def __init__(self, graph: Graph, op: Op, axis: int) -> None:
        self.op, self.axis = op, axis
        self._graph = graph
        made = [graph.tensors[i].shape for i in op.outputs if i >= 0]
        if op.bodies or op.ordered or not made or op.outputs[0] < 0 or not op.inputs or op.inputs[0] < 0:
            raise self.refusal(f"{op.type} has bodies or side effects, or lacks an input or a result")
        self.result = made[0]
        if not axis < len(self.result):
            raise self.refusal(f"its result has {len(self.result)} dimensions, and no axis {axis}")
        self.made = self.result[axis]
        if any(len(shape) != len(self.result) or shape[axis] != self.made for shape in made):
            raise self.refusal(f"its results have different lengths along axis {axis}")

    def refusal(self, why: str = "") -> TilingError:
        return TilingError(self.op.name, why or f"{self.op.type} needs all of axis {self.axis} at once")

    def has(self, position: int) -> bool:
        return position < len(self.op.inputs) and self.op.inputs[position] >= 0

    def shape(self, position: int) -> Shape:
        return self._graph.tensors[self.op.inputs[position]].shape if self.has(position) else ()

    def number(self, name: str) -> int:
        value = self.op.attributes.get(name)
        if not isinstance(value, int):
            raise self.refusal(f"the {name} of this {self.op.type} is unknown")
        return value

    def numbers(self, name: str) -> Shape:
        value = self.op.attributes.get(name)
        if not isinstance(value, tuple):
            raise self.refusal(f"the {name} of this {self.op.type} are unknown")
        return value

    def refuse_scaled_input(self) -> None:
        """Raise for quantised weights and an input that is not: the kernel scales it by the largest of its values."""
        dtypes = [self._graph.tensors[i].dtype for i in self.op.inputs[:2] if i >= 0]
        if len(dtypes) > 1 and dtypes[0].startswith("float") and not dtypes[1].startswith("float"):
            raise self.refusal(f"this {self.op.type} scales its input by the largest value in all of it")

    def broadcast(self, positions: Sequence[int]) -> dict[int, int]:
        """The axes of these inputs that lie at the axis of the result and are as long as it."""
        found = {}
        for position in positions:
            shape = self.shape(position)
            own = self.axis - (len(self.result) - len(shape))
            if not self.has(position) or own < 0 or (shape[own] == 1 and self.made != 1):
                continue
            if shape[own] != self.made:
                raise self.refusal(f"the inputs of this {self.op.type} do not have the items of its result")
            found[position] = own
        return found


def _pointwise(case: _Case) -> Cut:
    cut = case.broadcast(range(len(case.op.inputs)))
    if not cut:
        raise case.refusal(f"no input of this {case.op.type} has the items of its result")
    return Cut(case.made, cut)


def _convolution(weights: int, vectors: Sequence[int], added: int = -1) -> Callable[[_Case], Cut]:
    """[batch, channels, ...] with weights [filters, channels / groups, ...]; vectors have an item for each filter."""

    def rule(case: _Case) -> Cut:
        x, w = case.shape(0), case.shape(weights)
        more = {added: case.axis} if added >= 0 and case.has(added) else {}
        if len(w) < 3 or len(x) != len(w) or case.axis > 1:
            raise case.refusal()
        if case.axis == 0:
            return Cut(case.made, {0: 0, **more})
        per_filter = {p: 0 for p in vectors if case.has(p) and case.shape(p) == (w[0],)}
        groups = x[1] // max(w[1], 1)
        if groups <= 1:
            return Cut(w[0], {weights: 0, **per_filter, **more})
        return Cut(groups, {0: 1, weights: 0, **per_filter, **more}, grouped=True)

    return rule


def _transposed_convolution(case: _Case) -> Cut:
    """Weights are [channels, filters / groups, ...]."""
    x, w = case.shape(0), case.shape(1)
    if len(w) < 3 or len(x) != len(w) or case.axis > 1:
        raise case.refusal()
    if case.axis == 0:
        return Cut(case.made, {0: 0})
    bias = {2: 0} if case.has(2) else {}
    groups = case.made // max(w[1], 1)
    if groups <= 1:
        return Cut(case.made, {1: 1, **bias})
    return Cut(groups, {0: 1, 1: 0, **bias}, grouped=True)


def _tflite_convolution(case: _Case) -> Cut:
    """[batch, height, width, channels] with weights [filters, height, width, channels]."""
    case.refuse_scaled_input()
    x, w = case.shape(0), case.shape(1)
    if len(w) != 4 or len(x) != 4 or case.axis in (1, 2) or x[3] != w[3]:
        raise case.refusal()
    return Cut(case.made, {0: 0} if case.axis == 0 else {1: 0, **({2: 0} if case.has(2) else {})})


def _depthwise(case: _Case) -> Cut:
    """Weights are [1, height, width, channels * multiplier]."""
    case.refuse_scaled_input()
    x, w = case.shape(0), case.shape(1)
    if len(w) != 4 or len(x) != 4 or case.axis in (1, 2):
        raise case.refusal()
    return Cut(case.made, {0: 0}) if case.axis == 0 else Cut(x[3], {0: 3, 1: 3, **({2: 0} if case.has(2) else {})})


def _product(left: int = 0, right: int = 1, names: tuple[str, str] = ("transA", "transB")) -> Callable[[_Case], Cut]:
    """[..., rows, inner] times [..., inner, columns], whose dimensions may be turned; a third input is added."""

    def axes(case: _Case, shape: Shape, name: str) -> list[int]:
        """The dimensions of an input in the order in which they are multiplied."""
        order = list(range(len(shape)))
        if case.op.attributes.get(f"transBatch{name[-1]}"):
            order = [*order[1:-1], 0, order[-1]]
        return [*order[:-2], order[-1], order[-2]] if case.number(name) else order

    def rule(case: _Case) -> Cut:
        case.refuse_scaled_input()
        a, b = case.shape(left), case.shape(right)
        if min(len(a), len(b)) < 2 or max(len(a), len(b)) != len(case.result):
            raise case.refusal()
        is_quantised = right != 1
        if is_quantised and any(prod(case.shape(p)) > 1 for p in (1, 2, 4, 5)):
            raise case.refusal(f"this {case.op.type} has several scales")
        added = {} if is_quantised else case.broadcast([2])
        behind = len(case.result) - case.axis
        orders = axes(case, a, names[0]), axes(case, b, names[1])
        if behind == 1:
            return Cut(case.made, {right: orders[1][-1], **added})
        if behind == 2:
            return Cut(case.made, {left: orders[0][-2], **added})
        sides = ((left, a, orders[0]), (right, b, orders[1]))
        cut = {p: own[-behind] for p, s, own in sides if len(s) >= behind and s[own[-behind]] != 1}
        if not cut:
            raise case.refusal()
        return Cut(case.made, {**cut, **added})

    return rule


def _fully_connected(case: _Case) -> Cut:
    """[rows..., inner] with weights [units, inner]; rows may be written in other dimensions in the result."""
    case.refuse_scaled_input()
    w = case.shape(1)
    if len(w) != 2:
        raise case.refusal()
    if case.axis == len(case.result) - 1:
        return Cut(case.made, {1: 0, **({2: 0} if case.has(2) else {})})
    own, blocks = _kept_axis(case, case.shape(0), (*case.result[:-1], w[1]))
    return Cut(blocks, {0: own})


def _before_axis(others: Sequence[int] = (), default: int = 1) -> Callable[[_Case], Cut]:
    """Operators that work along an axis and those behind it; inputs besides the first that are cut like it."""

    def rule(case: _Case) -> Cut:
        axis = case.op.attributes.get("axis", default % len(case.result))
        if not isinstance(axis, int) or case.axis >= axis or case.shape(0) != case.result:
            raise case.refusal()
        return Cut(case.made, {0: case.axis, **case.broadcast([p for p in others if case.has(p)])})

    return rule


def _transposed(case: _Case) -> Cut:
    return Cut(case.made, {0: case.numbers("permutation")[case.axis]})


def _kept_axis(case: _Case, given: Shape, made: Shape) -> tuple[int, int]:
    """The axis of a reshaped tensor that begins where the axis of the result does, and in how many blocks both lie."""
    before = prod(made[: case.axis])
    for own in range(len(given)):
        blocks = gcd(given[own], made[case.axis])
        if prod(given[:own]) == before and blocks > 1:
            return own, blocks
    raise case.refusal(f"{case.op.type} from {list(given)} to {list(made)} does not keep axis {case.axis}")


def _reshaped(*derived: int) -> Callable[[_Case], Cut]:
    def rule(case: _Case) -> Cut:
        own, blocks = _kept_axis(case, case.shape(0), case.result)
        return Cut(blocks, {0: own}, frozenset(p for p in derived if p < len(case.op.inputs)))

    return rule


def _reduced(case: _Case) -> Cut:
    axes, rank = case.numbers("axes"), len(case.shape(0))
    if rank == len(case.result):
        if case.axis in axes:
            raise case.refusal()
        return Cut(case.made, {0: case.axis})
    kept = [k for k in range(rank) if k not in axes]
    if len(kept) != len(case.result):
        raise case.refusal()
    return Cut(case.made, {0: kept[case.axis]})


def _channels_first(vectors: Sequence[int] = ()) -> Callable[[_Case], Cut]:
    """Operators on the places of [batch, channels, ...]; vectors have an item for each channel."""

    def rule(case: _Case) -> Cut:
        if case.axis > 1 or case.shape(0)[: case.axis + 1] != case.result[: case.axis + 1] or len(case.op.outputs) > 1:
            raise case.refusal()
        return Cut(case.made, {0: case.axis, **({p: 0 for p in vectors if case.has(p)} if case.axis else {})})

    return rule


def _channels_last(case: _Case) -> Cut:
    """Operators on the places of [batch, height, width, channels]."""
    if case.axis in (1, 2) or len(case.result) != 4:
        raise case.refusal()
    return Cut(case.made, {0: case.axis})


def _batch_normalised(case: _Case) -> Cut:
    return Cut(case.made, {0: case.axis, **(dict.fromkeys(range(1, 5), 0) if case.axis == 1 else {})})


def _resized(case: _Case) -> Cut:
    if "mode" not in case.op.attributes:
        raise case.refusal("the mode of this Resize is unknown")
    return _channels_first()(case)


def _along_another_axis(case: _Case) -> Cut:
    if case.number("axis") == case.axis:
        raise case.refusal()
    return Cut(case.made, {p: case.axis for p in range(len(case.op.inputs)) if case.has(p)})


def _split_along_another(position: int) -> Callable[[_Case], Cut]:
    def rule(case: _Case) -> Cut:
        if case.number("axis") == case.axis:
            raise case.refusal()
        return Cut(case.made, {position: case.axis})

    return rule


def _sliced(derived: Sequence[int]) -> Callable[[_Case], Cut]:
    def rule(case: _Case) -> Cut:
        if case.numbers("begin")[case.axis] or case.shape(0)[case.axis] != case.made:
            raise case.refusal()
        return Cut(case.made, {0: case.axis}, frozenset(derived))

    return rule


def _padded(derived: Sequence[int]) -> Callable[[_Case], Cut]:
    def rule(case: _Case) -> Cut:
        if any(case.numbers("paddings")[2 * case.axis : 2 * case.axis + 2]):
            raise case.refusal()
        return Cut(case.made, {0: case.axis}, frozenset(derived))

    return rule


def _gathered(case: _Case) -> Cut:
    along, indices = case.number("axis"), len(case.shape(1))
    if case.axis < along:
        return Cut(case.made, {0: case.axis})
    if case.axis < along + indices:
        return Cut(case.made, {1: case.axis - along})
    return Cut(case.made, {0: case.axis - indices + 1})


def _scaled(case: _Case) -> Cut:
    """A conversion of numbers with one scale, or one for each item along an axis."""
    vectors = [p for p in range(1, len(case.op.inputs)) if prod(case.shape(p)) > 1]
    if any(len(case.shape(p)) > 1 for p in vectors):
        raise case.refusal(f"this {case.op.type} has scales of blocks")
    along = case.number("axis") if vectors else -1
    return Cut(case.made, {0: case.axis, **(dict.fromkeys(vectors, 0) if along == case.axis else {})})


_MICROSOFT: Final = ("BiasGelu", "FastGelu", "QLinearAdd", "QLinearMul", "QLinearSigmoid", "QLinearLeakyRelu")
_REDUCTIONS: Final = (
    *("ReduceL1", "ReduceL2", "ReduceLogSumExp", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum"),
    *("ReduceSumSquare", "MEAN", "SUM", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_PROD"),
)
_POOLS: Final = ("MaxPool", "AveragePool", "LpPool", "GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool")
_RULES: Final[Mapping[str, Callable[[_Case], Cut]]] = {
    **dict.fromkeys(POINTWISE, _pointwise),
    **dict.fromkeys(("GreaterOrEqual", "LessOrEqual", "Swish", "IsNaN", "Mod", "BitShift"), _pointwise),
    **{f"com.microsoft::{name}": _pointwise for name in _MICROSOFT},
    "Conv": _convolution(1, (2,)),
    "com.microsoft::FusedConv": _convolution(1, (2,), added=3),
    "QLinearConv": _convolution(3, (4, 5, 8)),
    "ConvTranspose": _transposed_convolution,
    "CONV_2D": _tflite_convolution,
    "DEPTHWISE_CONV_2D": _depthwise,
    **dict.fromkeys(("MatMul", "Gemm"), _product()),
    **dict.fromkeys(("com.microsoft::FusedMatMul", "com.microsoft::FusedGemm"), _product()),
    "QLinearMatMul": _product(0, 3),
    "BATCH_MATMUL": _product(names=("adj_x", "adj_y")),
    "FULLY_CONNECTED": _fully_connected,
    **dict.fromkeys(("Softmax", "LogSoftmax"), _before_axis()),
    **dict.fromkeys(("SOFTMAX", "LOG_SOFTMAX", "L2_NORMALIZATION"), _before_axis(default=-1)),
    **dict.fromkeys(("LayerNormalization", "SimplifiedLayerNormalization"), _before_axis((1, 2))),
    "com.microsoft::SkipLayerNormalization": _before_axis((1,), default=-1),
    "com.microsoft::SkipSimplifiedLayerNormalization": _before_axis((1,), default=-1),
    **dict.fromkeys(("Transpose", "TRANSPOSE"), _transposed),
    **dict.fromkeys(("Reshape", "RESHAPE"), _reshaped(1)),
    **dict.fromkeys(("Unsqueeze", "Flatten", "EXPAND_DIMS"), _reshaped()),
    **dict.fromkeys(_REDUCTIONS, _reduced),
    **dict.fromkeys(_POOLS, _channels_first()),
    "InstanceNormalization": _channels_first((1, 2)),
    **dict.fromkeys(("MAX_POOL_2D", "AVERAGE_POOL_2D", "RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR"), _channels_last),
    "BatchNormalization": _batch_normalised,
    "Resize": _resized,
    **dict.fromkeys(("CONCATENATION", "Concat"), _along_another_axis),
    **dict.fromkeys(("Split", "SPLIT_V"), _split_along_another(0)),
    "SPLIT": _split_along_another(1),
    "Slice": _sliced(()),
    "SLICE": _sliced((1, 2)),
    "Pad": _padded(()),
    **dict.fromkeys(("PAD", "PADV2"), _padded((1,))),
    "Gather": _gathered,
    **dict.fromkeys(("QuantizeLinear", "DequantizeLinear"), _scaled),
}
