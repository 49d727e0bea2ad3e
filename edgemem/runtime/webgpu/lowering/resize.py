"""Height and width changed by interpolation. Positions are computed here, so that all GPUs round them alike.

Numbers are 32-bit floats in the formulas of ONNX Runtime where the scale is given, and of LiteRT where it follows from
the shapes: with `nearest`, positions on the border between two elements are theirs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from edgemem.errors import UnsupportedError
from edgemem.model.tensor_ops import Resize
from edgemem.runtime.webgpu.lowering.registry import each_texel, lowers

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from edgemem.runtime.webgpu.dispatch import Dispatch
    from edgemem.runtime.webgpu.lowering.registry import Lowering

__all__ = ["resize"]

Floats: TypeAlias = "NDArray[np.float32]"
_HALF: Final = np.float32(0.5)
_TOLERANCE: Final = 1e-6  # what ONNX Runtime takes for a half: measured with version 1.31


@lowers(Resize)
def resize(op: Resize, context: Lowering) -> list[Dispatch]:
    """Height and width changed by interpolation."""
    source, result = context.stored(op.input), context.stored(op.output)
    scale = op.scale or (None, None)
    rows = _taps(op, source.height, result.height, scale[0])
    columns = _taps(op, source.width, result.width, scale[1])
    defines = (("LINEAR", int(op.mode == "linear")),)
    return [each_texel("resize", (op.input,), op.output, context, defines=defines, weights=(rows, columns))]


def _taps(op: Resize, size: int, size_out: int, scale: float | None) -> Floats:
    """For each row or column of the output two positions in the input, and their weights [size_out, 4]."""
    at = _positions(op, size, size_out, scale)
    if op.mode == "nearest":
        first = np.clip(_rounded(op.rounding, at, 0 if scale is None else _TOLERANCE), 0, size - 1)
        return np.stack([first, first, np.ones_like(first), np.zeros_like(first)], axis=1)
    at = np.clip(at, 0, size - 1)
    first = np.floor(at)
    second = np.minimum(first + 1, size - 1)
    return np.stack([first, second, 1 - (at - first), at - first], axis=1).astype(np.float32)


def _positions(op: Resize, size: int, size_out: int, scale: float | None) -> Floats:
    """Where in the input each row or column of the output is, not yet rounded or clipped."""
    o = np.arange(size_out, dtype=np.float32)
    if size_out == 1 and op.coordinates in ("align_corners", "pytorch_half_pixel"):
        return np.zeros(1, np.float32)
    if op.coordinates == "align_corners":
        if scale is None:
            return o * (np.float32(size - 1) / np.float32(size_out - 1))
        return o * np.float32(size - 1) / np.float32(size_out - 1)
    if op.coordinates == "asymmetric":
        return _scaled(o, size, size_out, scale)
    centre = _scaled(o + _HALF, size, size_out, scale)
    return centre if op.coordinates == "tf_half_pixel" else centre - _HALF


def _scaled(o: Floats, size: int, size_out: int, scale: float | None) -> Floats:
    if scale is None:
        return o * (np.float32(size) / np.float32(size_out))
    if not scale > 0:
        raise UnsupportedError(f"a resize with a scale of {scale}")
    return o / np.float32(1 / scale)  # ONNX gives the number of output elements for one of the input


def _rounded(rounding: str, at: Floats, tolerance: float) -> Floats:
    """Whole positions; what is so close to a half counts as one."""
    below = np.floor(at)
    if rounding == "floor":
        return below
    if rounding == "ceil":
        return np.ceil(at)
    is_half = np.abs(at - below - _HALF) <= tolerance
    upper = below + 1
    nearest = np.where(at - below < _HALF, below, upper)
    return np.where(is_half, below if rounding == "round_prefer_floor" else upper, nearest)
