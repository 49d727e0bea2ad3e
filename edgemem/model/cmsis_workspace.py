"""The workspace that CMSIS-NN's kernels ask for in TensorFlow Lite Micro, by the library's `..._get_buffer_size`.

Read in CMSIS-NN 99f736a63036: for processors with DSP instructions, and for those with MVE, compiled by GCC or Clang.
With MVE a dense layer and SVDF keep their sums in the tail instead where TensorFlow Lite Micro is built with
KERNELS_OPTIMIZED_FOR_SPEED, as its Makefile does; here they count as workspace, as in all other builds.

A transposed convolution of int8 writes more than it asks for, in 99f736a63036 and in 4ab83cc3cc98. It asks for room by
the vertical stride where it writes by the horizontal one, and writes each row that its input makes final, also those
that the result does not have. No other kernel did: 1,000 random shapes each of all operators, with guard bytes around
workspace and results, compiled for Arm with DSP instructions and as plain C (`tests/oracle/kernel_guard`). Builds for
MVE were not run; their loops over rows and columns are the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from edgemem.model.graph import Graph, Op

__all__ = ["cmsis_behind", "cmsis_overrun", "cmsis_workspace"]

_MVE: Final = "cmsis-nn-mve"
_BLOCK: Final = 124  # channels that MVE's depthwise convolution takes at once
# A transposed convolution reverses its weights up to this stride, and with more channels than these.
_REVERSED_STRIDE: Final = 2
_REVERSED_CHANNELS: Final = 16


def cmsis_workspace(graph: Graph, op: Op, kernels: str) -> tuple[int, ...] | None:
    """Bytes of each piece of workspace of an operator; None for what CMSIS-NN does as the reference kernels.

    Args:
        graph: which the operator's tensors are in.
        op: the operator.
        kernels: `cmsis-nn-dsp` or `cmsis-nn-mve`.
    """
    position = _IMAGES.get(op.type, 0)
    if len(op.inputs) <= position:
        return None
    image = graph.tensors[op.inputs[position]]
    weights = graph.tensors[op.inputs[1]] if len(op.inputs) > 1 else None
    is_narrow = weights is not None and weights.dtype == "int4"
    rule = _NARROW.get(op.type) if is_narrow and image.dtype == "int8" else _RULES.get((op.type, image.dtype))
    shapes = [image.shape, weights.shape if weights is not None else (), graph.tensors[op.outputs[0]].shape]
    if rule is None or (op.type in _WINDOWS and not len(shapes[0]) == len(shapes[2]) == 4):
        return None
    return rule(op, shapes, kernels == _MVE)


def cmsis_behind(graph: Graph, op: Op) -> int:
    """Bytes that the kernel writes behind its first piece of workspace."""
    if not _keeps_sums(graph, op):
        return 0
    made, weights, stride = graph.tensors[op.outputs[0]], graph.tensors[op.inputs[1]], op.pair("stride", 1)
    columns = max(weights.shape[2], stride[1]) - max(weights.shape[2], stride[0])
    return max(0, 4 * columns * made.shape[3] * max(weights.shape[1], stride[0]))


def cmsis_overrun(graph: Graph, op: Op) -> int:
    """Bytes that the kernel writes behind its result. With several images it computes wrong values then, too."""
    if not _keeps_sums(graph, op):
        return 0
    image, made = graph.tensors[op.inputs[2]], graph.tensors[op.outputs[0]]
    rows = image.shape[1] * op.pair("stride", 1)[0] - op.pair("pads", 0)[0] - made.shape[1]
    return max(0, rows) * made.shape[0] * made.shape[2] * made.shape[3]


def _keeps_sums(graph: Graph, op: Op) -> bool:
    """Whether it is a transposed convolution of int8 that keeps its sums in workspace."""
    if op.type != "TRANSPOSE_CONV" or len(op.inputs) < 3 or not op.outputs or min(*op.inputs[:3], *op.outputs) < 0:
        return False
    tensors = [graph.tensors[k] for k in (op.inputs[2], op.inputs[1], op.outputs[0])]
    if tensors[0].dtype != "int8" or any(len(tensor.shape) != 4 for tensor in tensors):
        return False
    return not _is_reversed(op, tensors[0].shape[3])


@dataclass(frozen=True, slots=True)
class _Window:
    """A convolution; pairs are (height, width)."""

    image: tuple[int, int, int]
    made: tuple[int, ...]
    kernel: tuple[int, int]
    depth: int
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    pads: tuple[int, ...]

    @property
    def columns(self) -> int:
        """Elements that an output pixel is made of."""
        return self.image[2] * prod(self.kernel)

    def rows(self, *, mve: bool) -> int:
        """The elements of several output pixels."""
        return 4 * _whole(self.columns, 16 if mve else 4)

    def workspace(self, *, mve: bool) -> int:
        """Of a convolution."""
        is_plain = self.dilation == (1, 1) and self.image[2] == self.depth
        if is_plain and self.kernel == (1, 1) and self.pads == (0, 0):
            return 0
        if mve:
            is_row = self.image[0] == 1 and self.dilation[1] == 1 and self.kernel[0] == 1
            if is_row and self.image[2] == self.depth and self.stride[1] * self.image[2] % 4 == 0:
                return self._of_row()
        return self.rows(mve=mve)

    def _of_row(self) -> int:
        """Of a convolution along a row, with MVE: the two ends of the row with their padding."""
        channels, pad, kernel, stride = self.image[2], self.pads[1], self.kernel[1], self.stride[1]
        odd = ((self.made[2] - 1) * stride + kernel - self.image[1]) % 2
        right = max(1, -(-(pad + odd) // stride)) if pad + odd else 0
        left = max(1, -(-pad // stride)) if pad else 0
        if right + max(self.made[2] - right - left, 0) + left != self.made[2]:
            return self.rows(mve=True)
        behind = right * channels if odd else pad * channels
        return max(kernel * channels + pad * channels, (kernel - 1) * channels + behind)


def _window(op: Op, shapes: list[tuple[int, ...]], kernel: tuple[int, int], depth: int) -> _Window:
    stride, dilation, pads = op.pair("stride", 1), op.pair("dilation", 1), op.pair("pads", 0)
    return _Window(shapes[0][1:4], shapes[2], kernel, depth, stride, dilation, pads)  # type: ignore[arg-type]


def _convolution(op: Op, shapes: list[tuple[int, ...]], mve: bool) -> tuple[int, ...]:
    weights = shapes[1]
    return _if_any(_window(op, shapes, (weights[1], weights[2]), weights[3]).workspace(mve=mve))


def _wide_convolution(op: Op, shapes: list[tuple[int, ...]], mve: bool) -> tuple[int, ...]:
    """Of int16, which takes no short cuts."""
    weights = shapes[1]
    columns = _window(op, shapes, (weights[1], weights[2]), weights[3]).columns
    return (8 * _whole(columns, 8) if mve else 4 * columns,)


def _depthwise(op: Op, shapes: list[tuple[int, ...]], mve: bool) -> tuple[int, ...]:
    weights, image, made = shapes[1], shapes[0], shapes[2]
    window = _window(op, shapes, (weights[1], weights[2]), 1)
    if mve and image[3] == 1 and made[3] > 1:
        return (window.workspace(mve=True) + prod(weights),)
    if not mve and window.kernel == (3, 3) and max(window.pads) <= 1:
        return ()
    return _narrow_depthwise(op, shapes, mve)


def _narrow_depthwise(op: Op, shapes: list[tuple[int, ...]], mve: bool) -> tuple[int, ...]:
    weights, image, made = shapes[1], shapes[0], shapes[2]
    window = _window(op, shapes, (weights[1], weights[2]), 1)
    if image[3] != made[3] or image[0] != 1 or window.dilation != (1, 1):
        return ()
    return (4 * _BLOCK * prod(window.kernel) if mve else 2 * window.columns,)


def _transposed(op: Op, shapes: list[tuple[int, ...]], mve: bool) -> tuple[int, ...]:
    """Sums, or what a convolution with the weights reversed asks for, and these weights; one piece may be empty."""
    (_, _, width, channels), (count, *kernel, _), stride = *shapes[:2], op.pair("stride", 1)
    if _is_reversed(op, channels):
        window = _window(op, shapes, (kernel[0], kernel[1]), channels)
        return (window.rows(mve=mve), channels * prod(kernel) * count)
    columns = (width - 1) * stride[1] + max(kernel[1], stride[0])
    return (4 * columns * shapes[2][3] * max(kernel[0], stride[0]), 0)


def _is_reversed(op: Op, channels: int) -> bool:
    """Whether a transposed convolution is run as a convolution with its weights reversed."""
    return max(op.pair("stride", 1)) <= _REVERSED_STRIDE and channels > _REVERSED_CHANNELS


def _mean_of_window(_op: Op, shapes: list[tuple[int, ...]], mve: bool) -> tuple[int, ...]:
    return () if mve else (4 * shapes[0][3],)


def _dense(op: Op, shapes: list[tuple[int, ...]], mve: bool) -> tuple[int, ...]:
    """Run as a 1x1 convolution where it has rows of rows; otherwise MVE keeps a sum for each row of weights."""
    made, depth = shapes[2], shapes[1][-1]
    if len(made) > 2 and depth % 4 == 0:
        return () if op.attributes.get("scales") else (8 * made[-1],)
    return _product(op, shapes, mve)


def _product(_op: Op, shapes: list[tuple[int, ...]], mve: bool) -> tuple[int, ...]:
    return (4 * prod(shapes[2][-1:]),) if mve else ()


def _svdf(_op: Op, shapes: list[tuple[int, ...]], mve: bool) -> tuple[int, ...]:
    """As the reference kernel; MVE keeps a sum for each filter besides."""
    (batch, _), (filters, _), made = shapes
    return (4 * batch * filters, 4 * prod(made), *((4 * filters,) if mve else ()))


def _lstm(_op: Op, shapes: list[tuple[int, ...]], _mve: bool) -> tuple[int, ...]:
    """Three times what is as large as the cells' state."""
    return (2 * prod(shapes[0]),) * 3


def _nothing(_op: Op, _shapes: list[tuple[int, ...]], _mve: bool) -> tuple[int, ...]:
    return ()


def _whole(elements: int, lanes: int) -> int:
    return -(-elements // lanes) * lanes


def _if_any(size: int) -> tuple[int, ...]:
    return (size,) if size else ()


_WINDOWS: Final = frozenset(("AVERAGE_POOL_2D", "CONV_2D", "DEPTHWISE_CONV_2D", "TRANSPOSE_CONV"))
# Which input is the image, or the cells' state; the first one elsewhere.
_IMAGES: Final[Mapping[str, int]] = {"TRANSPOSE_CONV": 2, "UNIDIRECTIONAL_SEQUENCE_LSTM": 19}
_Rule: TypeAlias = "Callable[[Op, list[tuple[int, ...]], bool], tuple[int, ...]]"
# By the element type of the image, or of the cells' state.
_RULES: Final[Mapping[tuple[str, str], _Rule]] = {
    ("AVERAGE_POOL_2D", "int8"): _mean_of_window,
    ("AVERAGE_POOL_2D", "int16"): _mean_of_window,
    ("BATCH_MATMUL", "int8"): _product,
    ("CONV_2D", "int8"): _convolution,
    ("CONV_2D", "int16"): _wide_convolution,
    ("DEPTHWISE_CONV_2D", "int8"): _depthwise,
    ("FULLY_CONNECTED", "int8"): _dense,
    ("SVDF", "int8"): _svdf,
    ("TRANSPOSE_CONV", "int8"): _transposed,
    ("UNIDIRECTIONAL_SEQUENCE_LSTM", "int16"): _lstm,
}
# With weights of four bits.
_NARROW: Final[Mapping[str, _Rule]] = {
    "CONV_2D": _convolution,
    "DEPTHWISE_CONV_2D": _narrow_depthwise,
    "FULLY_CONNECTED": _nothing,
}
