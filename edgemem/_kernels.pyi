# Signatures of the C++ extension (kernels/python). Arrays are C-contiguous int64, taken without conversion: another
# dtype or layout is a TypeError, columns of different lengths or impossible values are a ValueError.

import numpy as np
from numpy.typing import NDArray

# --- offset calculation: kernels/python/offsets.cpp ---

def place_in_smallest_gap(
    first_op: NDArray[np.int64],
    last_op: NDArray[np.int64],
    size: NDArray[np.int64],
    alignment: int,
    order: NDArray[np.int64],
) -> NDArray[np.int64]: ...
def place_on_offset_lines(
    first_op: NDArray[np.int64],
    last_op: NDArray[np.int64],
    size: NDArray[np.int64],
    alignment: int,
    preference: NDArray[np.int64],
) -> NDArray[np.int64]: ...
def offset_lower_bound(
    first_op: NDArray[np.int64],
    last_op: NDArray[np.int64],
    size: NDArray[np.int64],
    alignment: int,
) -> int: ...
def section_breadths(
    first_op: NDArray[np.int64],
    last_op: NDArray[np.int64],
    size: NDArray[np.int64],
) -> tuple[NDArray[np.int64], NDArray[np.int64]]: ...
def range_minimum(
    values: NDArray[np.int64],
    low: NDArray[np.int64],
    high: NDArray[np.int64],
) -> NDArray[np.int64]: ...

# --- shared objects: kernels/python/shared_objects.cpp ---
