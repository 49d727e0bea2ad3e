"""Values for the inputs of an interpreter of LiteRT."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

__all__ = ["random_inputs"]


def random_inputs(details: Sequence[dict[str, Any]], seed: int = 0) -> list[NDArray[Any]]:
    """A value for each input: numbers in [0, 1), all of a byte, or 0 and 1, which most kernels take for an index."""
    rng = np.random.default_rng(seed)
    values = []
    for entry in details:
        dtype, shape = np.dtype(entry["dtype"]), tuple(entry["shape"])
        if dtype.kind == "f":
            values.append(rng.random(shape).astype(dtype))
        elif dtype.itemsize == 1 and dtype.kind in "iu":
            info = np.iinfo(dtype)
            values.append(rng.integers(info.min, info.max, shape, dtype, endpoint=True))
        else:
            values.append(rng.integers(0, 2, shape).astype(dtype))
    return values
