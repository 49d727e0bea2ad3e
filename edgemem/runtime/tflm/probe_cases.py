"""Models of one operator that show in which order TensorFlow Lite Micro's kernels read and write.

Each has one input that may lie on its output, and a few hundred bytes, so that every distance between the two can be
tried. Weights are random, and activations are not limited: a clamped value would hide that an input was destroyed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from edgemem.formats import OneOperator, OperandValue

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["ProbeCase", "probe_cases"]

_SHAPE: Final = (1, 7, 6, 4)
_SCALE, _ZERO_POINT, _WEIGHT_SCALE = 0.05, -3, 0.01
_UNIT: Final = (1 / 256, -128)  # what LOGISTIC and SOFTMAX want of int8 outputs
_SAME, _VALID = 0, 1


@dataclass(frozen=True, slots=True)
class ProbeCase:
    """A model of one operator.

    Attributes:
        name: for people.
        dtype: of the input.
        operator: what to write.
    """

    name: str
    dtype: str
    operator: OneOperator


def probe_cases(dtype: str) -> tuple[ProbeCase, ...]:
    """All cases for inputs of float32 or int8."""
    return tuple(ProbeCase(name, dtype, operator) for name, operator in _Cases(dtype).all())


class _Cases:
    def __init__(self, dtype: str) -> None:
        self._dtype = dtype
        self._is_int8 = dtype == "int8"
        self._rng = np.random.default_rng(5)

    def all(self) -> Iterator[tuple[str, OneOperator]]:
        yield from self._windows()
        yield from self._elementwise()
        yield from self._copies()
        yield from self._others()

    def _value(self, shape: Sequence[int], scale: tuple[float, int] = (_SCALE, _ZERO_POINT)) -> OperandValue:
        """An activation."""
        quantised = ((scale[0],), scale[1]) if self._is_int8 else ((), 0)
        return OperandValue(tuple(shape), self._dtype, None, *quantised)

    def _weights(self, shape: Sequence[int], axis: int = 0, *, channels: int = 1) -> OperandValue:
        if self._is_int8:
            data = self._rng.integers(-127, 128, shape).astype(np.int8)
            return OperandValue(tuple(shape), "int8", data.tobytes(), (_WEIGHT_SCALE,) * channels, axis=axis)
        return OperandValue(tuple(shape), "float32", self._rng.standard_normal(shape).astype(np.float32).tobytes())

    def _bias(self, channels: int) -> OperandValue:
        if self._is_int8:
            data = self._rng.integers(-2000, 2000, channels).astype(np.int32)
            return OperandValue((channels,), "int32", data.tobytes(), (_SCALE * _WEIGHT_SCALE,) * channels)
        return OperandValue((channels,), "float32", self._rng.standard_normal(channels).astype(np.float32).tobytes())

    @staticmethod
    def _integers(*values: int, shape: tuple[int, ...] = ()) -> OperandValue:
        return OperandValue(shape or (len(values),), "int32", np.array(values, np.int32).tobytes())

    def _windows(self) -> Iterator[tuple[str, OneOperator]]:
        yield "convolution 3x3", self._conv(5)
        yield "convolution 3x3, stride 2", self._conv(5, stride=2)
        yield "convolution 3x3, no padding", self._conv(4, padding=_VALID)
        yield "convolution 3x3, dilation 2", self._conv(5, dilation=2)
        yield "convolution 3x3, two groups", self._conv(6, groups=2)
        yield "convolution 1x1, fewer channels", self._conv(2, kernel=1)
        yield "convolution 1x1, more channels", self._conv(9, kernel=1)
        yield "convolution 1x1, stride 2", self._conv(4, kernel=1, stride=2)
        yield "depthwise 3x3", self._conv(4, depthwise=True)
        yield "depthwise 3x3, stride 2", self._conv(4, depthwise=True, stride=2)
        yield "depthwise 3x3, no padding", self._conv(4, depthwise=True, padding=_VALID)
        yield "depthwise 5x5", self._conv(4, depthwise=True, kernel=5)
        yield "depthwise 3x3, multiplier 2", self._conv(8, depthwise=True)
        for kind in ("MAX_POOL_2D", "AVERAGE_POOL_2D"):
            yield f"{kind.lower()} 2x2, stride 2", self._pool(kind, 2, 2, _VALID)
            yield f"{kind.lower()} 3x3", self._pool(kind, 3, 1, _SAME)

    def _conv(
        self,
        channels: int,
        *,
        kernel: int = 3,
        stride: int = 1,
        padding: int = _SAME,
        dilation: int = 1,
        groups: int = 1,
        depthwise: bool = False,
    ) -> OneOperator:
        depth = _SHAPE[3] // groups
        shape = (1, kernel, kernel, channels) if depthwise else (channels, kernel, kernel, depth)
        weights = self._weights(shape, 3 if depthwise else 0, channels=channels)
        options = {**_sliding(stride, padding), "dilationHFactor": dilation, "dilationWFactor": dilation}
        if depthwise:
            options["depthMultiplier"] = channels // _SHAPE[3]
        output = self._value((*_slid(kernel, stride, padding, dilation), channels))
        kind = "DEPTHWISE_CONV_2D" if depthwise else "CONV_2D"
        return OneOperator(kind, (self._value(_SHAPE), weights, self._bias(channels)), output, options)

    def _pool(self, kind: str, kernel: int, stride: int, padding: int) -> OneOperator:
        options = {**_sliding(stride, padding), "filterWidth": kernel, "filterHeight": kernel}
        return OneOperator(
            kind, (self._value(_SHAPE),), self._value((*_slid(kernel, stride, padding), _SHAPE[3])), options
        )

    def _elementwise(self) -> Iterator[tuple[str, OneOperator]]:
        x = self._value(_SHAPE)
        for kind in ("RELU", "RELU6", "HARD_SWISH", "ELU"):
            yield kind.lower(), OneOperator(kind, (x,), x)
        yield "leaky_relu", OneOperator("LEAKY_RELU", (x,), x, {"alpha": 0.3})
        yield "logistic", OneOperator("LOGISTIC", (x,), self._value(_SHAPE, _UNIT))
        yield "tanh", OneOperator("TANH", (x,), self._value(_SHAPE, (1 / 128, 0)))
        yield "prelu", OneOperator("PRELU", (x, self._weights((1, 1, _SHAPE[3]))), x)
        if not self._is_int8:
            for kind in ("NEG", "ABS", "SQUARE", "FLOOR", "CEIL", "ROUND", "SIN", "COS", "EXP"):
                yield kind.lower(), OneOperator(kind, (x,), x)
        for kind in ("ADD", "SUB", "MUL", "MAXIMUM"):
            constant = self._weights((1, 1, 1, _SHAPE[3]))
            yield f"{kind.lower()} of a constant a channel", OneOperator(kind, (x, constant), x)
            constant = self._weights(_SHAPE)
            yield f"{kind.lower()} of a constant", OneOperator(kind, (constant, x), x)
        small = self._value((1, 1, 1, _SHAPE[3]))
        yield "add, the input broadcast", OneOperator("ADD", (small, self._weights(_SHAPE)), x)
        if self._is_int8:
            yield "dequantize", OneOperator("DEQUANTIZE", (x,), OperandValue(_SHAPE))
            yield "requantize", OneOperator("QUANTIZE", (x,), self._value(_SHAPE, (0.07, 5)))
        else:
            yield "quantize", OneOperator("QUANTIZE", (x,), OperandValue(_SHAPE, "int8", None, (_SCALE,), _ZERO_POINT))

    def _copies(self) -> Iterator[tuple[str, OneOperator]]:
        x = self._value(_SHAPE)
        n, h, w, c = _SHAPE
        for name, paddings in (("rows and columns", (0, 0, 1, 1, 1, 2, 0, 0)), ("channels", (0, 0, 1, 0, 0, 1, 1, 2))):
            shape = tuple(d + sum(paddings[2 * k : 2 * k + 2]) for k, d in enumerate(_SHAPE))
            constant = self._integers(*paddings, shape=(4, 2))
            yield f"padding of {name}", OneOperator("PAD", (x, constant), self._value(shape))
        for name, begin, size in (
            ("rows", (0, 2, 0, 0), (n, h - 3, w, c)),
            ("columns", (0, 1, 2, 0), (n, h - 2, w - 3, c)),
            ("channels", (0, 0, 0, 1), (n, h, w, 2)),
        ):
            constants = self._integers(*begin), self._integers(*size)
            yield f"slice of {name}", OneOperator("SLICE", (x, *constants), self._value(size))
        for name, axis in (("rows", 1), ("channels", 3)):
            other = (*_SHAPE[:axis], 2, *_SHAPE[axis + 1 :])
            made = self._value((*_SHAPE[:axis], _SHAPE[axis] + 2, *_SHAPE[axis + 1 :]))
            constant = self._weights_like(x, other)
            options = {"axis": axis}
            yield f"concatenation of {name}, first", OneOperator("CONCATENATION", (x, constant), made, options)
            yield f"concatenation of {name}, last", OneOperator("CONCATENATION", (constant, x), made, options)
        double, made = self._integers(2 * h, 2 * w), self._value((n, 2 * h, 2 * w, c))
        for name, option in (("", ""), (", half pixel", "halfPixelCenters"), (", corners", "alignCorners")):
            for kind in ("RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR"):
                yield f"{kind.lower()}{name}", OneOperator(kind, (x, double), made, {option: True} if option else {})
        yield "reshape", OneOperator("RESHAPE", (x, self._integers(n, h * w, c)), self._value((n, h * w, c)))

    def _weights_like(self, x: OperandValue, shape: tuple[int, ...]) -> OperandValue:
        """A constant with the scale of an activation."""
        constant = self._weights(shape)
        return OperandValue(shape, constant.dtype, constant.data, x.scales, x.zero_point)

    def _others(self) -> Iterator[tuple[str, OneOperator]]:
        n, h, w, c = _SHAPE
        x = self._value(_SHAPE)
        rows = self._value((h, c)), self._weights((5, c)), self._bias_of_rows()
        yield "fully connected", OneOperator("FULLY_CONNECTED", rows, self._value((h, 5)))
        yield "softmax", OneOperator("SOFTMAX", (x,), self._value(_SHAPE, _UNIT), {"beta": 1.0})
        pixels, made = self._integers(1, 2), self._value((n, 1, 1, c))
        yield "mean of all pixels", OneOperator("MEAN", (x, pixels), made, {"keepDims": True})
        wide = (n, 2 * h, 2 * w, 5)
        inputs = self._integers(*wide), self._weights((5, 3, 3, c), channels=5), x
        yield "transposed convolution", OneOperator("TRANSPOSE_CONV", inputs, self._value(wide), _sliding(2, _SAME))

    def _bias_of_rows(self) -> OperandValue:
        bias = self._bias(5)
        return OperandValue(bias.shape, bias.dtype, bias.data, bias.scales[:1])


def _sliding(stride: int, padding: int) -> dict[str, int | float | bool]:
    return {"strideW": stride, "strideH": stride, "padding": padding}


def _slid(kernel: int, stride: int, padding: int, dilation: int = 1) -> tuple[int, int, int]:
    """Batch, height and width of what an operator makes whose window slides over the input."""
    reach = (kernel - 1) * dilation + 1
    height, width = (-(-(d - (reach - 1 if padding == _VALID else 0)) // stride) for d in _SHAPE[1:3])
    return 1, height, width
