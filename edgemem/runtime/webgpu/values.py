"""Values at the borders of the GPU, where every number is a float: what goes in, and what comes out, by dtype."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

from edgemem.errors import RuntimeBindError, UnsupportedError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from edgemem.model.graph import Tensor

__all__ = ["DTYPES", "EXACT", "from_floats", "to_floats"]

# What tensors may have at the borders. Numbers of float64 would lose digits.
DTYPES: Final = frozenset(
    ("float32", "float16", "bool", *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)))
)
# Up to here, each integer is a float of its own.
EXACT: Final = {"fp32": 2**24, "fp16": 2**11}
_MOST_HALF: Final = 65504.0

Precision = Literal["fp32", "fp16"]


def to_floats(values: Any, tensor: Tensor, precision: Precision) -> NDArray[np.float32]:
    """Values for a tensor as float32, of its shape.

    Raises:
        RuntimeBindError: they have another shape or dtype, or numbers that floats of this precision cannot hold.
        UnsupportedError: the tensor's dtype has no place on GPUs.
    """
    given = np.asarray(values)
    if tensor.dtype not in DTYPES:
        raise UnsupportedError(f"{tensor.name!r} is {tensor.dtype}, which GPU kernels have no numbers for")
    if given.dtype.name != tensor.dtype:
        raise RuntimeBindError(f"{tensor.name!r} takes {tensor.dtype}, not {given.dtype.name}")
    if tuple(given.shape) != tuple(tensor.shape):
        raise RuntimeBindError(f"{tensor.name!r} has the shape {list(tensor.shape)}, not {list(given.shape)}")
    if given.dtype.kind in "iu" and given.size:
        largest = max(abs(int(given.max())), abs(int(given.min())))
        if largest > EXACT[precision]:
            raise RuntimeBindError(_inexact(tensor, largest, precision))
    found = np.ascontiguousarray(given, np.float32)
    if precision == "fp16" and found.size:
        with np.errstate(invalid="ignore"):
            largest_float = float(np.nanmax(np.where(np.isfinite(found), np.abs(found), 0)))
        if largest_float > _MOST_HALF:
            raise RuntimeBindError(
                f"{tensor.name!r} has the value {largest_float:g}, and fp16 ends at {_MOST_HALF:g}; use fp32"
            )
    return found


def from_floats(values: NDArray[np.float32], tensor: Tensor, precision: Precision) -> NDArray[Any]:
    """A tensor's values, in its shape and dtype, from floats in the order of its axes.

    Raises RuntimeBindError for integers beyond those that floats of this precision tell apart, and for what is no
    integer at all.
    """
    if tensor.dtype not in DTYPES:
        raise UnsupportedError(f"{tensor.name!r} is {tensor.dtype}, which GPU kernels have no numbers for")
    dtype = np.dtype(tensor.dtype)
    shaped = values.reshape(tensor.shape)
    if dtype.kind == "b":
        return np.asarray(shaped != 0)
    if dtype.kind not in "iu":
        with np.errstate(over="ignore"):
            return shaped.astype(dtype)
    if not np.isfinite(shaped).all():
        raise RuntimeBindError(f"{tensor.name!r} is {tensor.dtype}, and a value of it is no number on the GPU")
    largest = float(np.abs(shaped).max(initial=0.0))
    if largest > EXACT[precision]:
        raise RuntimeBindError(_inexact(tensor, int(largest), precision))
    info = np.iinfo(dtype)
    whole = np.rint(shaped)
    if whole.size and (whole.min() < info.min or whole.max() > info.max):
        raise RuntimeBindError(f"{tensor.name!r} has the value {largest:g}, which is no {tensor.dtype}")
    return whole.astype(dtype)


def _inexact(tensor: Tensor, largest: int, precision: Precision) -> str:
    remedy = "use fp32" if precision == "fp16" else "run it on the CPU"
    return (
        f"{tensor.name!r} has the integer {largest:,}, and {precision} keeps integers apart up to "
        f"{EXACT[precision]:,}; {remedy}"
    )
