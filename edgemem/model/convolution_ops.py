"""Convolutions as tensor operations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from edgemem.model.scalar_function import IDENTITY, Function

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["Convolution", "LineConvolution", "TransposedConvolution"]


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class _Weighted:
    """What every convolution has.

    Attributes:
        weights: float32 [out channels, the kernel's sizes, in channels / groups].
        bias: float32 [out channels], or None.
        function: of the result.
    """

    input: int
    output: int
    weights: NDArray[np.float32]
    bias: NDArray[np.float32] | None = None
    groups: int = 1
    function: Function = IDENTITY


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Convolution(_Weighted):
    """A two-dimensional convolution (cross-correlation), grouped or not; depthwise where groups == input channels.

    Attributes:
        stride, dilation: (height, width).
        pads: rows above and columns left of the input, which are zero.
        added: a tensor of the output's shape that is added before the function; -1: none.
    """

    stride: tuple[int, int] = (1, 1)
    dilation: tuple[int, int] = (1, 1)
    pads: tuple[int, int] = (0, 0)
    added: int = -1


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class LineConvolution(_Weighted):
    """A convolution along the last axis of [batch, channels, width], whatever the layout is.

    `pad`: elements before the first one, which are zero.
    """

    stride: int = 1
    dilation: int = 1
    pad: int = 0


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class TransposedConvolution(_Weighted):
    """The transpose of a convolution: input (y, x) adds to output (y * stride + k * dilation - pad).

    Attributes:
        stride, dilation: (height, width).
        pads: rows above and columns left that are cut off the result.
    """

    stride: tuple[int, int] = (1, 1)
    dilation: tuple[int, int] = (1, 1)
    pads: tuple[int, int] = (0, 0)
