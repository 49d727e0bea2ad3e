"""Positions in the input of a resize, as fractions, and how they are rounded."""

from __future__ import annotations

from fractions import Fraction
from math import ceil, floor
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["ROUNDED", "position", "ratio"]

_HALF: Final = Fraction(1, 2)
ROUNDED: Final[dict[str, Callable[[Fraction], int]]] = {
    "round_prefer_floor": lambda p: ceil(p - _HALF),
    "round_prefer_ceil": lambda p: floor(p + _HALF),
    "floor": floor,
    "ceil": ceil,
}


def ratio(scale: float) -> Fraction:
    """What a scale stands for: the simple fraction that it is in 32-bit floats, or itself where there is none.

    1.4285714 is 10 / 7. As it stands, it would put a position that is meant at 10 to the left of it.
    """
    simple = Fraction(scale).limit_denominator(4096)
    return simple if abs(simple - Fraction(scale)) <= abs(simple) / 2**22 else Fraction(scale)


def position(coordinates: str, o: int, scale: Fraction, size_in: int, size_out: int) -> Fraction:
    """Where in the input, of so many elements, an element of the output is. Raises ValueError for another rule."""
    match coordinates:
        case "half_pixel":
            return (o + _HALF) * scale - _HALF
        case "pytorch_half_pixel":
            return (o + _HALF) * scale - _HALF if size_out > 1 else Fraction(0)
        case "asymmetric":
            return o * scale
        case "align_corners":
            return Fraction(o * (size_in - 1), size_out - 1) if size_out > 1 else Fraction(0)
        case "tf_half_pixel":
            return (o + _HALF) * scale
    raise ValueError(f"no coordinates {coordinates}")
