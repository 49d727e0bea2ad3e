# Signatures of the C++ extension (kernels/python). Arrays are C-contiguous int64, taken without conversion: another
# dtype or layout is a TypeError, columns of different lengths or impossible values are a ValueError. `pinned` holds
# offsets, -1 for a free record; `reserved` begin and end of each range by turns.

from typing import Literal

import numpy as np
from numpy.typing import NDArray

# --- offset calculation: kernels/python/offsets.cpp ---

def place_in_smallest_gap(
    first_op: NDArray[np.int64],
    last_op: NDArray[np.int64],
    size: NDArray[np.int64],
    alignment: int,
    order: NDArray[np.int64],
    pinned: NDArray[np.int64] | None = None,
    reserved: NDArray[np.int64] | None = None,
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
    pinned: NDArray[np.int64] | None = None,
    reserved: NDArray[np.int64] | None = None,
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

# --- shared objects: kernels/python/shared_objects.cpp; `extent` is [n, 1] bytes, or [n, 2 or 3] texels ---

def assign_in_order(
    first_op: NDArray[np.int64],
    last_op: NDArray[np.int64],
    extent: NDArray[np.int64],
    order: NDArray[np.int64],
    pick: Literal["first", "closest"],
) -> NDArray[np.int64]: ...
def assign_nearest(
    first_op: NDArray[np.int64],
    last_op: NDArray[np.int64],
    extent: NDArray[np.int64],
    stage: NDArray[np.int64],
    new_first: bool,
) -> NDArray[np.int64]: ...
def assign_by_min_cost_flow(
    first_op: NDArray[np.int64],
    last_op: NDArray[np.int64],
    extent: NDArray[np.int64],
) -> NDArray[np.int64]: ...
def search_shared_objects(
    first_op: NDArray[np.int64],
    last_op: NDArray[np.int64],
    extent: NDArray[np.int64],
    work: int,
    seed: int = 1,
    seconds: float | None = None,
) -> tuple[NDArray[np.int64], int, Literal["bound", "proof", "work", "time"], int]: ...
def positional_maxima(
    first_op: NDArray[np.int64],
    last_op: NDArray[np.int64],
    size: NDArray[np.int64],
) -> NDArray[np.int64]: ...

# --- the search for offsets: kernels/python/search.cpp; returns (offsets, bound, stopped, work) ---

def search_offsets(
    first_op: NDArray[np.int64],
    last_op: NDArray[np.int64],
    size: NDArray[np.int64],
    alignment: int,
    work: int,
    seed: int = 1,
    seconds: float | None = None,
    threads: int = 1,
    pinned: NDArray[np.int64] | None = None,
    reserved: NDArray[np.int64] | None = None,
) -> tuple[NDArray[np.int64], int, Literal["bound", "proof", "work", "time"], int]: ...

# --- the proof: kernels/python/proof.cpp; `overlap` and `within` are rows of three numbers, flat; faults are rows of
# seven (edgemem/proof/faults.py), flat ---

def find_offset_faults(
    first_op: NDArray[np.int64],
    last_op: NDArray[np.int64],
    size: NDArray[np.int64],
    alignment: int,
    offsets: NDArray[np.int64],
    arena: NDArray[np.int64],
    pinned: NDArray[np.int64] | None = None,
    reserved: NDArray[np.int64] | None = None,
    overlap: NDArray[np.int64] | None = None,
    within: NDArray[np.int64] | None = None,
    region: NDArray[np.int64] | None = None,
    reserved_region: NDArray[np.int64] | None = None,
) -> NDArray[np.int64]: ...
def find_object_faults(
    first_op: NDArray[np.int64],
    last_op: NDArray[np.int64],
    extent: NDArray[np.int64],
    assignment: NDArray[np.int64],
    objects: NDArray[np.int64],
) -> NDArray[np.int64]: ...
def recompute_claims(
    first_op: NDArray[np.int64],
    last_op: NDArray[np.int64],
    size: NDArray[np.int64],
    alignment: int,
    pinned: NDArray[np.int64] | None = None,
    reserved: NDArray[np.int64] | None = None,
    overlap: NDArray[np.int64] | None = None,
    within: NDArray[np.int64] | None = None,
) -> tuple[int, int, int]: ...
