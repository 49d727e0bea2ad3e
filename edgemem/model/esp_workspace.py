"""The workspace that ESP-NN's int8 kernels ask for in Espressif's TensorFlow Lite Micro, by the library's own rules.

Read in esp-nn d45b843ca5f8 and esp-tflite-micro 99f49e1498b0, for optimised builds. `-`: nothing; of ADD, MUL,
FULLY_CONNECTED and pools, too, and of builds of ESP-NN in plain C.

    operator            esp-nn                      esp-nn-esp32s3                 esp-nn-esp32p4
    CONV_2D             -                           _convolution_s3                _convolution_p4
    DEPTHWISE_CONV_2D   -                           _depthwise_s3                  -
    SOFTMAX             4 bytes for each element of the second dimension, on all chips

Convolutions ask whatever their dilation is, and with weights of four bits, too: then after the reference kernels.
A softmax writes 4 bytes for each element of its *last* dimension, which may be more than it asks for.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from edgemem.model.graph import Graph, Op

__all__ = ["esp_behind", "esp_workspace"]

_MARGIN_S3: Final = 64
_MARGIN_P4: Final = 32
_CACHE_P4: Final = 32 << 10  # of the input that P4's convolution reads at once
_WHOLE_S3: Final = 40 << 10  # of a padded input that S3's depthwise convolution copies as a whole
_WIDE_S3: Final = 48 << 10  # the same in 16 bits, with the weights


def esp_workspace(graph: Graph, op: Op, kernels: str) -> tuple[int, ...]:
    """Bytes of each piece of workspace of an operator beyond what the reference kernel asks for.

    Args:
        graph: which the operator's tensors are in.
        op: the operator.
        kernels: `esp-nn`, `esp-nn-esp32s3` or `esp-nn-esp32p4`.
    """
    rules = _RULES.get(kernels, {})
    if op.type not in ("SOFTMAX", *rules):
        return ()
    image, made = graph.tensors[op.inputs[0]], graph.tensors[op.outputs[0]]
    if image.dtype != "int8" or made.dtype != "int8":
        return ()
    if op.type == "SOFTMAX":
        return (4 * image.shape[1],) if len(image.shape) > 1 else ()
    weights = graph.tensors[op.inputs[1]].shape
    if len(made.shape) != 4:
        return ()
    stride, pads = op.pair("stride", 1), op.pair("pads", 0)
    return (rules[op.type](_Window(image.shape[1:], made.shape[1:], weights[1:3], stride, pads)),)


def esp_behind(graph: Graph, op: Op) -> int:
    """Bytes that a kernel writes behind its piece of workspace, on all chips."""
    if op.type != "SOFTMAX" or any(graph.tensors[k].dtype != "int8" for k in (op.inputs[0], op.outputs[0])):
        return 0
    shape = graph.tensors[op.inputs[0]].shape
    return max(0, 4 * (shape[-1] - shape[1])) if len(shape) > 1 else 0


@dataclass(frozen=True, slots=True)
class _Window:
    """A convolution: (height, width) or (height, width, channels); `pads` are those at the top and the left."""

    image: tuple[int, ...]
    made: tuple[int, ...]
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    pads: tuple[int, ...]

    @property
    def row(self) -> int:
        """Elements of a row of the window."""
        return self.kernel[1] * self.image[2]

    @property
    def size(self) -> int:
        """Elements of the window."""
        return self.kernel[0] * self.row

    @property
    def is_pointwise(self) -> bool:
        """Whether each output pixel is made of one input pixel, in their order."""
        return self.kernel == self.stride == (1, 1) and self.pads == (0, 0)

    def pointwise(self) -> int:
        """Weights of channels in eights, the image in these if it is in others, and eight pixels twice."""
        pixels, channels = prod(self.image[:2]), _up(self.image[2], 8)
        moved = 0 if self.image[2] == channels else pixels * channels
        return moved + channels * self.made[2] + (16 * channels if pixels >= 8 else 0)

    def padded(self, pads: tuple[int, ...]) -> int:
        """Bytes of the image with so many rows and columns more."""
        return (self.image[0] + pads[0]) * (self.image[1] + pads[1]) * self.image[2]

    def missing(self) -> tuple[int, int]:
        """Rows and columns that the image lacks for all windows without padding; negative: it has more than enough."""
        rows, columns = (self.made[k] * self.stride[k] + self.kernel[k] - 1 - self.image[k] for k in (0, 1))
        return rows, columns

    def twice(self) -> tuple[int, int]:
        """Padding of rows and columns at both ends."""
        return 2 * self.pads[0], 2 * self.pads[1]


def _up(number: int, unit: int) -> int:
    return -(-number // unit) * unit


def _convolution_s3(window: _Window) -> int:
    outputs, rows = window.made[2], window.kernel[0]
    if window.is_pointwise:
        return window.pointwise() + _MARGIN_S3
    if window.row < 16 <= window.size:  # windows are copied one by one
        return 4 * outputs + 32 + (outputs + 1) * _up(window.size, 16) + _MARGIN_S3
    weights = prod(window.kernel) * _up(window.image[2], 16) + rows * _up(window.row, 16)
    image = window.padded(window.twice()) if any(window.pads) else 0
    down, right = (max(0, size) for size in window.missing())
    border = window.padded((down, right)) if down or right else 0
    return image + border + (weights + 4) * outputs + _MARGIN_S3


def _convolution_p4(window: _Window) -> int:
    outputs, (rows, columns), channels = window.made[2], window.kernel, window.image[2]
    if window.is_pointwise:
        return 20 * outputs + 32 + _MARGIN_P4 if channels < 16 else window.pointwise() + _MARGIN_P4
    sums = 4 * outputs
    weights = rows * columns * _up(channels, 16) * outputs
    if not any(window.pads) and window.row >= 16:
        return weights + sums + _MARGIN_P4
    if window.size >= 16:  # windows are copied one by one
        return window.size + sums + _MARGIN_P4
    deep = _up(-(-16 // columns), 16)
    deep_weights = rows * columns * deep * outputs
    if not any(window.pads):
        return prod(window.image[:2]) * deep + deep_weights + sums + _MARGIN_P4
    whole = window.padded(window.twice())
    if whole + sums <= _CACHE_P4:
        return whole + weights + sums + _MARGIN_P4
    row = (window.image[1] + 2 * window.pads[1]) * deep
    space = _CACHE_P4 - sums - deep_weights - rows * row
    strip = 1 if space < 0 else min(space // (window.stride[0] * row) + 1, window.made[0])
    read = (strip - 1) * window.stride[0] + rows + 2 * window.pads[0]
    return read * row + deep_weights + sums + _MARGIN_P4


def _depthwise_s3(window: _Window) -> int:
    channels, is_plain = window.image[2], window.made[2] == window.image[2]
    weights, image = prod(window.kernel) * window.made[2], prod(window.image)
    if is_plain and channels % 8 == 0:
        if window.kernel == (3, 3) and channels > 8:
            return _depthwise_of_3x3_s3(window, weights)
        strip = 2 * weights + 2 * window.image[1] * window.kernel[0] * channels
        is_whole = window.kernel == (3, 3) or 2 * (weights + image) <= _WIDE_S3
        return (2 * (weights + image) if is_whole else strip) + 32
    if is_plain and channels > 3:
        deep = _up(channels, 8)
        inputs = (prod(window.kernel), prod(window.image[:2]))
        copies = sum(_up(2 * count * deep, 16) for count in inputs) + _up(prod(window.made[:2]) * deep, 16)
        return copies + 12 * deep + 16  # a bias, a multiplier and a shift for each channel
    return 32 + (2 * (weights + image) if window.made[2] // channels % 4 == 0 else 0)


def _depthwise_of_3x3_s3(window: _Window, weights: int) -> int:
    if window.image[2] % 16 == 0:
        more = window.twice() if any(window.pads) else window.missing()
        if not any(more):
            return weights + 16
        whole = window.padded(more)
        strip = (window.image[1] + more[1]) * window.kernel[0] * window.image[2]
        return weights + (whole if whole <= _WHOLE_S3 else strip) + 16
    deep = _up(window.image[2], 16)
    rows, columns = (
        size + both + max(0, more)
        for size, both, more in zip(window.image[:2], window.twice(), window.missing(), strict=True)
    )
    return (9 + rows * columns + prod(window.made[:2])) * deep + 64


_Rule: TypeAlias = "Callable[[_Window], int]"
_RULES: Final[Mapping[str, Mapping[str, _Rule]]] = {
    "esp-nn": {},
    "esp-nn-esp32s3": {"CONV_2D": _convolution_s3, "DEPTHWISE_CONV_2D": _depthwise_s3},
    "esp-nn-esp32p4": {"CONV_2D": _convolution_p4},
}
