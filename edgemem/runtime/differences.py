"""How far the results of a changed model are from those of the model itself."""

from __future__ import annotations

from decimal import ROUND_UP, Context
from typing import Any

import numpy as np

from edgemem.errors import UnsupportedError

__all__ = ["at_most", "compare_values", "same"]


def compare_values(here: Any, there: Any) -> tuple[bool, float]:
    """Whether two results are the same bit for bit, and how far they differ otherwise.

    The second number is the largest difference of an element, relative to the largest element of both; infinite for
    results of another shape or dtype, and where a number is no number on one side only. Raises UnsupportedError for
    results that are no dense tensors.
    """
    if not isinstance(here, np.ndarray) or not isinstance(there, np.ndarray):
        raise UnsupportedError(
            "an output is no dense tensor, and cannot be compared; change a part of the model without it"
        )
    if here.dtype != there.dtype or here.shape != there.shape:
        return False, float("inf")
    if here.tobytes() == there.tobytes():
        return True, 0.0
    a, b = here.astype(np.float64), there.astype(np.float64)
    both = np.isfinite(a) & np.isfinite(b)
    apart = not np.array_equal(a[~both], b[~both], equal_nan=True)
    scale = float(max(np.abs(a[both]).max(initial=0.0), np.abs(b[both]).max(initial=0.0))) or 1.0
    return False, float("inf") if apart else float(np.abs(a[both] - b[both]).max(initial=0.0)) / scale


def at_most(difference: float) -> str:
    """A difference as text of one digit, which is rounded up: the text is no less than the difference."""
    return f"{float(Context(prec=1, rounding=ROUND_UP).create_decimal_from_float(difference)):.1g}"


def same(a: Any, b: Any) -> bool:
    """Whether two results are the same, bit for bit; sequences element by element."""
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        if a.dtype != b.dtype or a.shape != b.shape:
            return False
        # The bytes of an array of objects, such as strings, are where they lie.
        return a.tolist() == b.tolist() if a.dtype == object else a.tobytes() == b.tobytes()
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same, a, b))
    return bool(a == b)
