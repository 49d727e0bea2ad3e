"""The workspace that CMSIS-NN's int8 kernels ask for in TensorFlow Lite Micro, by the library's `..._get_buffer_size`.

Read in CMSIS-NN 99f736a63036: for processors with DSP instructions, and for those with MVE, compiled by GCC or Clang.
With MVE a dense layer keeps its sums in the tail instead where TensorFlow Lite Micro is built with
KERNELS_OPTIMIZED_FOR_SPEED, as its Makefile does; here they count as workspace, as in all other builds.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from edgemem.model.graph import Graph, Op

__all__ = ["cmsis_workspace"]

_MVE: Final = "cmsis-nn-mve"
_BLOCK: Final = 124  # channels that MVE's depthwise convolution takes at once


def cmsis_workspace(graph: Graph, op: Op, kernels: str) -> tuple[int, ...] | None:
    """Bytes of each piece of workspace of an operator; None for what CMSIS-NN does as the reference kernels.

    Args:
        graph: which the operator's tensors are in.
        op: the operator.
        kernels: `cmsis-nn-dsp` or `cmsis-nn-mve`.
    """
    dtypes = [graph.tensors[i].dtype for i in op.inputs[:2] if i >= 0]
    rule = (_NARROW if dtypes[1:] == ["int4"] else _RULES).get(op.type)
    if rule is None or dtypes[0] not in (("int8", "int16") if rule is _mean_of_window else ("int8",)):
        return None
    shapes = [graph.tensors[i].shape for i in (*op.inputs[:2], op.outputs[0])]
    if op.type != "FULLY_CONNECTED" and any(len(shape) != 4 for shape in shapes if shape is not shapes[1]):
        return None
    return tuple(size for size in rule(op, shapes, kernels == _MVE) if size)


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

    def workspace(self, *, mve: bool) -> int:
        """Of a convolution."""
        is_plain = self.dilation == (1, 1) and self.image[2] == self.depth
        if is_plain and self.kernel == (1, 1) and self.pads == (0, 0):
            return 0
        if mve:
            is_row = self.image[0] == 1 and self.dilation[1] == 1 and self.kernel[0] == 1
            if is_row and self.image[2] == self.depth and self.stride[1] * self.image[2] % 4 == 0:
                return self._of_row()
            return 4 * (-(-self.columns // 16) * 16)
        return 4 * (-(-self.columns // 4) * 4)

    def _of_row(self) -> int:
        """Of a convolution along a row, with MVE: the two ends of the row with their padding."""
        channels, pad, kernel, stride = self.image[2], self.pads[1], self.kernel[1], self.stride[1]
        odd = ((self.made[2] - 1) * stride + kernel - self.image[1]) % 2
        right = max(1, -(-(pad + odd) // stride)) if pad + odd else 0
        left = max(1, -(-pad // stride)) if pad else 0
        if right + max(self.made[2] - right - left, 0) + left != self.made[2]:
            return 4 * (-(-self.columns // 16) * 16)
        behind = right * channels if odd else pad * channels
        return max(kernel * channels + pad * channels, (kernel - 1) * channels + behind)


def _window(op: Op, shapes: list[tuple[int, ...]], kernel: tuple[int, int], depth: int) -> _Window:
    stride, dilation, pads = op.pair("stride", 1), op.pair("dilation", 1), op.pair("pads", 0)
    return _Window(shapes[0][1:4], shapes[2], kernel, depth, stride, dilation, pads)  # type: ignore[arg-type]


def _convolution(op: Op, shapes: list[tuple[int, ...]], mve: bool) -> tuple[int, ...]:
    weights = shapes[1]
    return (_window(op, shapes, (weights[1], weights[2]), weights[3]).workspace(mve=mve),)


def _depthwise(op: Op, shapes: list[tuple[int, ...]], mve: bool) -> tuple[int, ...]:
    weights, image, made = shapes[1], shapes[0], shapes[2]
    window = _window(op, shapes, (weights[1], weights[2]), 1)
    if mve and image[3] == 1 and made[3] > 1:
        return (window.workspace(mve=True) + prod(weights),)
    if image[3] != made[3] or image[0] != 1 or window.dilation != (1, 1):
        return ()
    if mve:
        return (4 * _BLOCK * prod(window.kernel),)
    return () if window.kernel == (3, 3) and max(window.pads) <= 1 else (2 * window.columns,)


def _mean_of_window(_op: Op, shapes: list[tuple[int, ...]], mve: bool) -> tuple[int, ...]:
    return () if mve else (4 * shapes[0][3],)


def _dense(op: Op, shapes: list[tuple[int, ...]], mve: bool) -> tuple[int, ...]:
    """Run as a 1x1 convolution where it has rows of rows; otherwise MVE keeps a sum for each row of weights."""
    made, depth = shapes[2], shapes[1][-1]
    if len(made) > 2 and depth % 4 == 0:
        return () if op.attributes.get("scales") else (8 * made[-1],)
    return (4 * made[-1],) if mve else ()


def _narrow_depthwise(op: Op, shapes: list[tuple[int, ...]], mve: bool) -> tuple[int, ...]:
    weights, image, made = shapes[1], shapes[0], shapes[2]
    window = _window(op, shapes, (weights[1], weights[2]), 1)
    if image[3] != made[3] or image[0] != 1 or window.dilation != (1, 1):
        return ()
    return (4 * _BLOCK * prod(window.kernel) if mve else 2 * window.columns,)


def _nothing(_op: Op, _shapes: list[tuple[int, ...]], _mve: bool) -> tuple[int, ...]:
    return ()


_Rule: TypeAlias = "Callable[[Op, list[tuple[int, ...]], bool], tuple[int, ...]]"
_RULES: Final[Mapping[str, _Rule]] = {
    "AVERAGE_POOL_2D": _mean_of_window,
    "CONV_2D": _convolution,
    "DEPTHWISE_CONV_2D": _depthwise,
    "FULLY_CONNECTED": _dense,
}
# With weights of four bits.
_NARROW: Final[Mapping[str, _Rule]] = {
    "CONV_2D": _convolution,
    "DEPTHWISE_CONV_2D": _narrow_depthwise,
    "FULLY_CONNECTED": _nothing,
}
