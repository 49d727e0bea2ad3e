"""What operators compute, in words that no file format has: what an executor of our own runs.

A converter turns each operator of its format into tensor operations over the tensors of the graph. Shapes are those of
the graph's tensors. Operations with a window (convolutions, pools, resizes) work on the batch, height, width and
channels of four-dimensional tensors, which the graph's layout tells apart (`edgemem.model.texture_layout`); all others
work on the axes as the graph has them. Padding on the lower and the right edge follows from the shape of the output.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

from edgemem.model.convolution_ops import Convolution, LineConvolution, TransposedConvolution
from edgemem.model.scalar_function import IDENTITY, Function

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    from numpy.typing import NDArray

    from edgemem.model.graph import Graph

__all__ = [
    "IDENTITY",
    "AffineMap",
    "ArgMax",
    "Binary",
    "Concat",
    "Convolution",
    "FullyConnected",
    "Function",
    "Gather",
    "LineConvolution",
    "LocalResponse",
    "MatMul",
    "Normalization",
    "Pool",
    "Reduce",
    "Resize",
    "Select",
    "Softmax",
    "TensorOp",
    "TensorProgram",
    "TransposedConvolution",
    "Unary",
]


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class FullyConnected:
    """Rows of the input's elements, in the order of its axes, times the transpose of the weights.

    Attributes:
        weights: float32 [units, elements of a row].
        bias: float32 [units], or None.
    """

    input: int
    output: int
    weights: NDArray[np.float32]
    bias: NDArray[np.float32] | None = None
    function: Function = IDENTITY


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class MatMul:
    """NumPy's matmul of two tensors, either of which may be a constant; leading axes are broadcast.

    Attributes:
        transpose_a, transpose_b: swap the last two axes first.
        alpha: a factor of the product.
        bias: a constant that is added, of a shape that is broadcast to the output's; None: none.
        a_shape, b_shape: shapes that operands are seen in, in the order of their elements; None: their own. Where they
            are given, the output has the elements of the product in any shape.
    """

    a: int
    b: int
    output: int
    transpose_a: bool = False
    transpose_b: bool = False
    a_shape: tuple[int, ...] | None = None
    b_shape: tuple[int, ...] | None = None
    alpha: float = 1.0
    bias: NDArray[np.float32] | None = None
    function: Function = IDENTITY


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Unary:
    """A function of each element. `identity` copies."""

    function: Function
    input: int
    output: int


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Binary:
    """A function of two elements; shapes are broadcast as NumPy does. Either tensor may be a constant.

    Attributes:
        name: `add`, `sub`, `mul`, `div`, `max`, `min`, `pow`, `squared_difference`, `prelu` (a where a >= 0, else
            a * b), `less`, `less_equal`, `greater`, `greater_equal`, `equal`, `not_equal`, `and`, `or`, `xor`
            (0 or 1).
    """

    name: str
    a: int
    b: int
    output: int
    function: Function = IDENTITY


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Select:
    """`a` where `condition` is not 0, else `b`; shapes are broadcast as NumPy does. Any of them may be a constant."""

    condition: int
    a: int
    b: int
    output: int


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Gather:
    """Elements at places that another tensor holds. Either may be a constant.

    With the input as [before, *sizes, after] and the output as [before, N, after], output (i, k, j) is input
    (i, *indices[k], j), with the indices as [N, len(sizes)]. A negative index counts from the end; one that lies
    outside counts as the nearest inside.

    Attributes:
        of_each: each element of the output has an index of its own: there is one size, and the indices have the shape
            of the output.
    """

    input: int
    indices: int
    output: int
    before: int
    sizes: tuple[int, ...]
    after: int
    of_each: bool = False


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Pool:
    """The largest number or the mean under a window.

    Attributes:
        kernel, stride, dilation: (height, width).
        pads: (top, left, bottom, right).
        counts_padding: the mean counts padding as zeros. What lies beyond the padding (of a rounded-up size) never
            counts.
    """

    kind: Literal["max", "average"]
    input: int
    output: int
    kernel: tuple[int, int]
    stride: tuple[int, int] = (1, 1)
    dilation: tuple[int, int] = (1, 1)
    pads: tuple[int, int, int, int] = (0, 0, 0, 0)
    counts_padding: bool = False
    function: Function = IDENTITY


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Reduce:
    """One number for all elements along axes, which the output has with size 1 or not at all.

    Attributes:
        kind: `l2` is the root of the sum of squares.
        axes: 0 or more, in order.
    """

    kind: Literal["mean", "sum", "max", "min", "prod", "l2", "sum_square"]
    input: int
    output: int
    axes: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Concat:
    """Tensors behind each other along an axis. Each may be a constant, and one may be there twice.

    An input with one dimension fewer than the output lacks the axis: it has size 1 along it.
    """

    inputs: tuple[int, ...]
    output: int
    axis: int
    function: Function = IDENTITY


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class AffineMap:
    """Elements moved by an affine map of indices: reshapes, transposes, slices, paddings, tiles, pixel shuffles.

    The output's elements in the order of its axes are numbered by `out_dims`, a factoring of their number into one to
    six dimensions; the input's by `in_dims`. Of each output index i with its shift and split there are a quotient
    q = (i + shift) // split and a remainder r = (i + shift) % split; input index k is
    `offset[k] + sum(quotients[k][d] * q[d] + remainders[k][d] * r[d])`. `edgemem.model.affine` makes them.

    Attributes:
        out_dims, shift, split: by output dimension [D]; shifts are 0 or more.
        in_dims, offset: by input dimension [K].
        quotients, remainders: [K][D].
        border: what an input index outside of its dimension gives: `value`, the nearest element (`edge`), or the
            mirrored one, with the element at the edge once (`reflect`) or twice (`symmetric`).
        value: for `value`.
    """

    input: int
    output: int
    out_dims: tuple[int, ...]
    shift: tuple[int, ...]
    split: tuple[int, ...]
    in_dims: tuple[int, ...]
    offset: tuple[int, ...]
    quotients: tuple[tuple[int, ...], ...]
    remainders: tuple[tuple[int, ...], ...]
    border: Literal["value", "edge", "reflect", "symmetric"] = "value"
    value: float = 0.0


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Resize:
    """Height and width changed by interpolation.

    With s the scale (input size / output size unless it is given) output position o is at input position:
    `half_pixel` (o + 0.5) * s - 0.5; `pytorch_half_pixel` the same, 0 where the output has size 1;
    `asymmetric` o * s; `align_corners` o * (input - 1) / (output - 1), 0 where the output has size 1;
    `tf_half_pixel` (o + 0.5) * s. Positions outside of the input count as its edge.

    Attributes:
        rounding: of a position with `nearest`.
        scale: (height, width), input elements per output element; None follows from the shapes.
    """

    mode: Literal["nearest", "linear"]
    input: int
    output: int
    coordinates: Literal["half_pixel", "pytorch_half_pixel", "asymmetric", "align_corners", "tf_half_pixel"]
    rounding: Literal["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"] = "floor"
    scale: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Softmax:
    """Along one axis. `beta` is a factor of the input; `is_log` gives the logarithm."""

    input: int
    output: int
    axis: int
    beta: float = 1.0
    is_log: bool = False


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class ArgMax:
    """The index of the largest element along an axis, which the output has with size 1 or not at all.

    Attributes:
        is_min: of the smallest one.
        last: of equal elements the last one counts, not the first.
    """

    input: int
    output: int
    axis: int
    is_min: bool = False
    last: bool = False


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Normalization:
    """(x - mean) / sqrt(variance + epsilon) * scale + shift, with the mean and the variance over axes.

    Attributes:
        axes: 0 or more, in order; () for neither mean nor variance: x * scale + shift.
        scale, shift: of the rank of the input, to be broadcast to it; None: 1 and 0.
        is_l2: x / sqrt(max(sum of squares, epsilon)) instead of mean and variance.
    """

    input: int
    output: int
    axes: tuple[int, ...]
    scale: NDArray[np.float32] | None = None
    shift: NDArray[np.float32] | None = None
    epsilon: float = 0.0
    is_l2: bool = False
    function: Function = IDENTITY


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class LocalResponse:
    """x / (bias + alpha * the sum of squares over neighbouring channels) ** beta.

    Attributes:
        before, after: channels that count on each side, within the tensor.
        alpha: as it is multiplied; ONNX divides its own by the size first.
    """

    input: int
    output: int
    before: int
    after: int
    alpha: float
    beta: float
    bias: float


TensorOp: TypeAlias = (
    Convolution
    | LineConvolution
    | TransposedConvolution
    | FullyConnected
    | MatMul
    | Unary
    | Binary
    | Select
    | Gather
    | Pool
    | Reduce
    | Concat
    | AffineMap
    | Resize
    | Softmax
    | ArgMax
    | Normalization
    | LocalResponse
)


@dataclass(frozen=True, slots=True, eq=False)
class TensorProgram:
    """A graph whose operators can be computed without its file.

    Attributes:
        graph: tensors are named by their indices in it.
        steps: for each operator of the graph in order, its tensor operations, each of which writes one of its outputs
            whole; or why it has none, in words for people (`Loop`, or `Conv with weights that are computed`).
        constants: values of the constant tensors that tensor operations name as inputs, float32, by index.
    """

    graph: Graph
    steps: tuple[tuple[TensorOp, ...] | str, ...]
    constants: Mapping[int, NDArray[np.float32]] = field(default_factory=dict)
