"""Weights as a GPU holds them: int8 with a scale a channel, float16 or float32."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from edgemem.runtime.webgpu.dispatch import Dispatch

__all__ = ["stored_weights"]

# Kernels whose first weights are factors of sums, which a plan in fp16 rounds as it does activations.
_FACTORS: Final = frozenset(
    ("convolution", "depthwise", "transposed", "fully_connected", "matmul", "matmul_heads", "line_convolution")
)
# Kernels that multiply int8 by scales, and the axes of their first weights that are output channels.
_CHANNELS: Final = {"convolution": (0, 4, 6), "transposed": (0, 4, 6), "fully_connected": (1, 3), "depthwise": (0, 3)}
_LEAST_INT8: Final = 1024  # weights: fewer are not worth a kernel of their own
_LEAST_HALF, _MOST_HALF = float(np.finfo(np.float16).smallest_normal), float(np.finfo(np.float16).max)
_LEAST_SIZE: Final = 1e-30  # of a channel's largest weight: drivers may take smaller multiples of its scale for 0


def stored_weights(dispatch: Dispatch, precision: str) -> tuple[NDArray[Any], ...]:
    """The weights of a dispatch in as few bytes as lose nothing, or no more than a plan in fp16 loses anyway.

    int8 weights have the scales of their channels behind the second array, which is the bias.
    """
    if dispatch.kernel in _CHANNELS and dispatch.weights[0].size >= _LEAST_INT8:
        packed, bias = dispatch.weights
        axes = _CHANNELS[dispatch.kernel]
        by_channel = np.moveaxis(packed, axes, range(len(axes)))
        found = _as_int8(by_channel.reshape(bias.size, -1))
        if found is not None and np.abs(packed).max() <= _MOST_HALF:
            counts, scales = found
            ordered = np.moveaxis(counts.reshape(by_channel.shape), range(len(axes)), axes)
            return np.ascontiguousarray(ordered), _in_halves(np.concatenate((bias.ravel(), scales)))
    rounds = precision == "fp16" and dispatch.kernel in _FACTORS
    return tuple(_in_halves(array, rounds=rounds and k == 0) for k, array in enumerate(dispatch.weights))


def _in_halves(array: NDArray[np.float32], *, rounds: bool = False) -> NDArray[Any]:
    """The array in float16 if that is exact, or if it `rounds` and all are small enough; else as it is."""
    with np.errstate(over="ignore"):
        half = array.astype(np.float16)
    size = np.abs(array)
    if rounds:
        return half if (size <= _MOST_HALF).all() else array
    # what is too small for a normal number, drivers may take for 0
    return half if ((half == array) & ((size >= _LEAST_HALF) | (size == 0))).all() else array


def _as_int8(rows: NDArray[np.float32]) -> tuple[NDArray[np.int8], NDArray[np.float32]] | None:
    """Whole numbers from -128 to 127 and a scale a row whose products are these numbers bit for bit; None without.

    Files that store int8 weights with scales are read as floats, so that every way to store them is found here.
    """
    scales = np.ones(len(rows), np.float32)
    for k, row in enumerate(rows):
        scale = _scale(row, scales[k - 1])
        if scale is None:
            return None
        scales[k] = scale
    return np.rint(rows / scales[:, None]).astype(np.int8), scales


def _scale(row: NDArray[np.float32], likely: np.float32) -> np.float32 | None:
    most = np.abs(row).max(initial=0)
    if most == 0:
        return np.float32(1)
    if not _LEAST_SIZE < most < np.inf:
        return None
    steps = most / np.arange(128, 0, -1, dtype=np.float32)  # how many of them the largest is, is unknown
    ends = np.float32(0), np.float32(np.inf)
    near = np.concatenate(([likely], steps, *(np.nextafter(steps, end) for end in ends)))
    few = row[row != 0][:8]
    fitting = near[(np.rint(few / near[:, None]) * near[:, None] == few).all(axis=1)]
    for scale in fitting:
        counts = np.rint(row / scale)
        if counts.min() >= -128 and counts.max() <= 127 and (counts * scale == row).all():
            return np.float32(scale)
    return None
