r"""Which items of its inputs an operator reads for a part of its output, along the height or the width.

    output rows      begin ........ end                 row r reads `reach` rows from (r * stride - before) // factor on
                      /                \
    input rows   0 [ first .......... last ) given      what lies outside [0, given) is padding

One `Window` describes an operator along one dimension. Everything is exact: computing the rows of a part from the
rows that `needs` names, with the padding that it names, gives the same bits as computing the whole.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias

from edgemem.errors import TilingError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from edgemem.model.graph import Graph, Op

__all__ = ["POINTWISE", "Dimension", "Need", "Window", "axis_of", "window_of"]

Dimension: TypeAlias = Literal["height", "width"]


class Need(NamedTuple):
    """What a part of an output needs: input items [begin, end), and the padding items before and after them.

    Plain unpacking is quick: streaming asks for tens of thousands of them.
    """

    begin: int
    end: int
    before: int
    after: int


@dataclass(frozen=True, slots=True)
class Window:
    """How the items of an operator's output depend on those of its inputs along one dimension.

    Attributes:
        given: items of each input that is cut.
        made: items of the output.
        reach: input items that one output item reads, from the first to the last of them.
        stride: input items from one output item to the next, times `factor`.
        before: padding before the first input item.
        after: padding after the last input item.
        factor: output items for each input item; 1 except for operators that enlarge.
        shift: output items by which the grid of one that enlarges is shifted; 0 for others.
        cut: positions of the inputs that are cut; every other input is read whole for each part.
    """

    given: int
    made: int
    reach: int = 1
    stride: int = 1
    before: int = 0
    after: int = 0
    factor: int = 1
    shift: int = 0
    cut: tuple[int, ...] = (0,)

    def needs(self, begin: int, end: int) -> Need:
        """What the output items [begin, end) need, with 0 <= begin < end <= made.

        The input range is within [0, given). It is empty where a part consists of padding alone.
        """
        lead = self.before + self.shift
        first = (begin * self.stride - lead) // self.factor
        last = ((end - 1) * self.stride - lead) // self.factor + self.reach
        low = min(max(first, 0), self.given)
        high = max(min(last, self.given), low)
        if self.factor > 1:
            return Need(low, high, 0, 0)  # a resize repeats its outermost items; it has no padding
        before = min(max(-first, 0), last - first)
        return Need(low, high, before, last - first - before - (high - low))

    def makes(self, items: int) -> int:
        """How many output items, counted from the first, the first `items` input items suffice for."""
        if items >= self.given:
            return self.made
        count = ((items - self.reach + 1) * self.factor - 1 + self.before + self.shift) // self.stride + 1
        return min(max(count, 0), self.made)

    def computes(self, begin: int, end: int) -> tuple[int, int]:
        """The output items [begin, end) that come of computing the part [begin, end) from what `needs` names.

        They are the part itself, except for operators that enlarge: these compute `factor` items for each input item,
        of which those outside the part are to be dropped.
        """
        if self.factor == 1:
            return begin, end
        need = self.needs(begin, end)
        return need.begin * self.factor, need.end * self.factor


def window_of(graph: Graph, op: Op, dimension: Dimension) -> Window:
    """The window of an operator of a graph whose layout is known.

    Raises TilingError, with the reason, for an operator that cannot be computed in parts along this dimension.
    """
    rule = _RULES.get(op.type)
    if rule is None:
        raise TilingError(op.name, f"{op.type} is not known to compute its output row by row")
    return rule(_Case(graph, op, axis_of(graph, dimension)))


def axis_of(graph: Graph, dimension: Dimension) -> int:
    """The axis of the height or width in the shapes of a graph. Raises TilingError where its layout is unknown."""
    if not graph.layout:
        raise TilingError(graph.name, "the file format does not say which dimensions are height and width")
    return (1 if graph.layout == "nhwc" else 2) + (dimension == "width")


class _Case:
    """An operator along one axis of tensors with four dimensions."""

    def __init__(self, graph: Graph, op: Op, axis: int) -> None:
        self.op = op
        self.axis = axis
        self.side = axis - (1 if graph.layout == "nhwc" else 2)  # 0 height, 1 width
        self._graph = graph
        if not op.outputs or op.outputs[0] < 0 or not op.inputs or op.inputs[0] < 0:
            raise self.refusal(f"{op.type} lacks an input or output")
        if len(op.outputs) != 1 or op.bodies:
            raise self.refusal(f"{op.type} has {len(op.outputs)} outputs and {len(op.bodies)} bodies")
        self.shape = graph.tensors[op.outputs[0]].shape
        if len(self.shape) != 4:
            raise self.refusal(f"the result of {op.type} has the shape {list(self.shape)}, not four dimensions")
        self.made = self.shape[axis]

    def refusal(self, why: str) -> TilingError:
        return TilingError(self.op.name, why)

    def input_shape(self, position: int) -> tuple[int, ...]:
        """The shape of an input with four dimensions: missing ones in front are 1, as in broadcasting."""
        shape = self._graph.tensors[self.op.inputs[position]].shape
        if len(shape) > 4:
            raise self.refusal(f"an input of {self.op.type} has {len(shape)} dimensions")
        return (1,) * (4 - len(shape)) + shape

    def quantises_its_input(self) -> bool:
        """Whether its weights are quantised and its input is not: its kernel quantises the input then."""
        dtypes = [self._graph.tensors[i].dtype for i in self.op.inputs[:2] if i >= 0]
        return len(dtypes) > 1 and dtypes[0].startswith("float") and not dtypes[1].startswith("float")

    def is_constant(self, position: int) -> bool:
        """Whether an input is a constant."""
        return self._graph.tensors[self.op.inputs[position]].kind == "constant"

    @property
    def given(self) -> int:
        """Items of the first input."""
        return self.input_shape(0)[self.axis]

    def pair(self, name: str) -> int:
        """The value of a (height, width) attribute on this side."""
        value = self.op.attributes.get(name)
        if not isinstance(value, tuple) or len(value) != 2:
            raise self.refusal(f"the {name} of this {self.op.type} is unknown")
        return value[self.side]

    def numbers(self, name: str, count: int) -> tuple[int, ...]:
        value = self.op.attributes.get(name)
        if not isinstance(value, tuple) or len(value) != count:
            raise self.refusal(f"the {name} of this {self.op.type} are unknown")
        return value


def _pointwise(case: _Case) -> Window:
    """Every output item depends on the input items at its place; an input with one item there is read whole."""
    sizes = {p: case.input_shape(p)[case.axis] for p, index in enumerate(case.op.inputs) if index >= 0}
    if any(size not in (1, case.made) for size in sizes.values()) or case.made not in sizes.values():
        raise case.refusal(f"the inputs of this {case.op.type} do not have the rows of its result")
    cut = tuple(p for p, size in sizes.items() if size == case.made and not (size == 1 and case.is_constant(p)))
    return Window(case.made, case.made, cut=cut)


def _pointwise_in_the_first(case: _Case) -> Window:
    """Pointwise along height and width; further inputs have an item for each channel."""
    if case.given != case.made:
        raise case.refusal(f"the input of this {case.op.type} does not have the rows of its result")
    return Window(case.made, case.made)


def _scaled(case: _Case) -> Window:
    """A conversion of numbers with one scale, or one for each item along an axis: it may not be the one that is cut."""
    if any(prod(case.input_shape(position)) > 1 for position, i in enumerate(case.op.inputs) if position and i >= 0):
        axis = case.op.attributes.get("axis")
        if axis is None or axis == case.axis:
            raise case.refusal(f"this {case.op.type} has scales along the dimension that is to be cut")
    return _pointwise_in_the_first(case)


def _along_another_axis(case: _Case) -> Window:
    """A concatenation: pointwise unless it joins along this very axis."""
    if case.op.attributes.get("axis") is None:
        raise case.refusal(f"the axis of this {case.op.type} is unknown")
    if case.op.attributes["axis"] == case.axis:
        raise case.refusal(f"this {case.op.type} works along the dimension that is to be cut")
    cut = tuple(position for position, index in enumerate(case.op.inputs) if index >= 0)
    if any(case.input_shape(position)[case.axis] != case.made for position in cut):
        raise case.refusal(f"the inputs of this {case.op.type} do not have the rows of its result")
    return Window(case.made, case.made, cut=cut)


def _sliding(case: _Case) -> Window:
    """Convolutions and pools, with explicit paddings."""
    if case.quantises_its_input():
        raise case.refusal(f"this {case.op.type} scales its input by the largest value in all of it")
    reach = (case.pair("kernel") - 1) * case.pair("dilation") + 1
    pads = case.numbers("pads", 4)
    before, after = pads[case.side], pads[2 + case.side]
    stride = case.pair("stride")
    if case.made != (case.given + before + after - reach) // stride + 1:
        raise case.refusal(f"the shapes of this {case.op.type} do not fit its kernel and paddings")
    return Window(case.given, case.made, reach, stride, before, after)


def _fused(case: _Case) -> Window:
    """A convolution with an activation; the sum that it may add has other rows than its first input."""
    if len(case.op.inputs) > 3 and case.op.inputs[3] >= 0:
        raise case.refusal(f"this {case.op.type} adds another tensor to its result")
    return _sliding(case)


def _enlarging(case: _Case) -> Window:
    """A transposed convolution whose kernel is as large as its stride: each input row makes rows of its own."""
    factor = case.pair("stride")
    pads = case.numbers("pads", 4)
    if case.pair("kernel") != factor or (case.pair("dilation") != 1 and factor > 1):
        raise case.refusal(f"the windows of this {case.op.type} overlap")
    if pads[case.side] or pads[2 + case.side] or case.made != case.given * factor:
        raise case.refusal(f"this {case.op.type} leaves out rows")
    return Window(case.given, case.made, factor=factor)


def _padding(case: _Case) -> Window:
    paddings = case.numbers("paddings", 8)
    before, after = paddings[2 * case.axis : 2 * case.axis + 2]
    if min(before, after) < 0 or case.made != case.given + before + after:
        raise case.refusal(f"the shapes of this {case.op.type} do not fit its paddings")
    return Window(case.given, case.made, before=before, after=after)


def _factor(case: _Case) -> int:
    if not case.given or case.made % case.given:
        raise case.refusal(f"{case.op.type} from {case.given} to {case.made} rows is not by an integer factor")
    return case.made // case.given


def _nearest(case: _Case) -> Window:
    factor = _exact_factor(case)
    return Window(case.given, case.made, factor=factor) if factor > 1 else Window(case.given, case.made)


def _bilinear(case: _Case) -> Window:
    factor = _exact_factor(case)
    if factor == 1:
        return Window(case.given, case.made)
    # Row r lies at (r + 1/2) / factor - 1/2 with half-pixel centers, else at r / factor, and reads the rows around it.
    shift = factor // 2 if case.op.attributes.get("half_pixel_centers") else 0
    return Window(case.given, case.made, 2, factor=factor, shift=shift)


def _exact_factor(case: _Case) -> int:
    """The factor of a resize whose coordinates are computed without rounding, so that a shift of rows is exact."""
    factor = _factor(case)
    if case.op.attributes.get("align_corners", 1) or "half_pixel_centers" not in case.op.attributes:
        raise case.refusal(f"this {case.op.type} aligns corners, so that every row depends on the number of rows")
    if factor & (factor - 1):
        raise case.refusal(f"{case.op.type} by {factor}, which is no power of two, rounds differently in each row")
    return factor


def _resize(case: _Case) -> Window:
    """ONNX: `mode` is in the attributes; `nearest` only where row r is a copy of row r // factor."""
    rule = {"nearest": _nearest, "linear": _bilinear}.get(str(case.op.attributes.get("mode")))
    if rule is None:
        raise case.refusal("the mode of this Resize is unknown")
    return rule(case)


def _depth_to_space(case: _Case) -> Window:
    return Window(case.given, case.made, factor=_factor(case))


def _space_to_depth(case: _Case) -> Window:
    if not case.made or case.given % case.made:
        raise case.refusal(f"{case.op.type} from {case.given} to {case.made} rows is not by an integer factor")
    block = case.given // case.made
    return Window(case.given, case.made, block, block)


POINTWISE: Final = (
    # TensorFlow Lite
    *("ABS", "ADD", "CAST", "CEIL", "COS", "DEQUANTIZE", "DIV", "ELU", "EQUAL", "EXP", "FLOOR", "FLOOR_DIV"),
    *("FLOOR_MOD", "GELU", "GREATER", "GREATER_EQUAL", "HARD_SWISH", "LEAKY_RELU", "LESS", "LESS_EQUAL", "LOG"),
    *("LOGICAL_AND", "LOGICAL_NOT", "LOGICAL_OR", "LOGISTIC", "MAXIMUM", "MINIMUM", "MUL", "NEG", "NOT_EQUAL"),
    *("POW", "PRELU", "QUANTIZE", "RELU", "RELU6", "RELU_0_TO_1", "RELU_N1_TO_1", "ROUND", "RSQRT", "SELECT_V2"),
    *("SIGN", "SIN", "SQRT", "SQUARE", "SQUARED_DIFFERENCE", "SUB", "TANH"),
    # ONNX
    *("Abs", "Add", "And", "Cast", "Ceil", "Celu", "Clip", "Cos", "Div", "Elu", "Equal", "Erf", "Exp", "Floor"),
    *("Gelu", "Greater", "HardSigmoid", "HardSwish", "Identity", "LeakyRelu", "Less", "Log", "Max", "Min", "Mish"),
    *("com.microsoft::Gelu", "com.microsoft::QuickGelu"),
    *("Mul", "Neg", "Not", "Or", "PRelu", "Pow", "Reciprocal", "Relu", "Round", "Selu", "Sigmoid", "Sign", "Sin"),
    *("Softplus", "Softsign", "Sqrt", "Sub", "Tanh", "ThresholdedRelu", "Where", "Xor"),
)
# SOFTMAX and L2_NORMALIZATION work along the channels, which come last.
_POINTWISE_IN_THE_FIRST: Final = (
    *("SOFTMAX", "LOG_SOFTMAX", "L2_NORMALIZATION"),
    "BatchNormalization",
)
_RULES: Final[Mapping[str, Callable[[_Case], Window]]] = {
    **dict.fromkeys(POINTWISE, _pointwise),
    **dict.fromkeys(_POINTWISE_IN_THE_FIRST, _pointwise_in_the_first),
    **dict.fromkeys(("DequantizeLinear", "QuantizeLinear"), _scaled),
    **dict.fromkeys(("CONCATENATION", "Concat"), _along_another_axis),
    **dict.fromkeys(("CONV_2D", "DEPTHWISE_CONV_2D", "MAX_POOL_2D", "AVERAGE_POOL_2D"), _sliding),
    **dict.fromkeys(("Conv", "MaxPool", "AveragePool", "QLinearConv"), _sliding),
    "com.microsoft::FusedConv": _fused,
    "ConvTranspose": _enlarging,
    **dict.fromkeys(("PAD", "PADV2", "Pad"), _padding),
    "RESIZE_BILINEAR": _bilinear,
    "RESIZE_NEAREST_NEIGHBOR": _nearest,
    "Resize": _resize,
    **dict.fromkeys(("DEPTH_TO_SPACE", "DepthToSpace"), _depth_to_space),
    **dict.fromkeys(("SPACE_TO_DEPTH", "SpaceToDepth"), _space_to_depth),
}
