"""Widths of the element types of tensors, and the bytes that a dense tensor takes."""

from __future__ import annotations

from edgemem.errors import UnsupportedError

__all__ = ["DTYPE_BITS", "byte_size", "is_sub_byte"]

DTYPE_BITS: dict[str, int] = {
    "bool": 8,
    **{f"{sign}int{bits}": bits for sign in ("", "u") for bits in (2, 4, 8, 16, 32, 64)},
    "float4e2m1": 4,
    "float8e4m3fn": 8,
    "float8e4m3fnuz": 8,
    "float8e5m2": 8,
    "float8e5m2fnuz": 8,
    "float8e8m0": 8,
    "float16": 16,
    "bfloat16": 16,
    "float32": 32,
    "float64": 64,
    "complex64": 64,
    "complex128": 128,
}


def byte_size(dtype: str, elements: int) -> int:
    """Bytes of a dense tensor; elements narrower than a byte are packed and the last byte is filled up.

    Raises UnsupportedError for a dtype without a fixed width, such as strings.
    """
    bits = DTYPE_BITS.get(dtype)
    if bits is None:
        raise UnsupportedError(f"dtype {dtype!r} has no fixed width; edgemem knows {', '.join(DTYPE_BITS)}")
    return (elements * bits + 7) // 8


def is_sub_byte(dtype: str) -> bool:
    """Whether an element is narrower than a byte, so that runtimes differ in how they keep it."""
    return DTYPE_BITS.get(dtype, 8) < 8
