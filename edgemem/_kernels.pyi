# Signatures of the C++ extension (kernels/python). Arrays are C-contiguous int64, taken without conversion: another
# dtype or layout is a TypeError, columns of different lengths or impossible values are a ValueError. `pinned` holds
# offsets, -1 for a free record; `reserved` begin and end of each range by turns.

from collections.abc import Callable, Sequence
from typing import Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

_Result = TypeVar("_Result")

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
def plan_spatio_temporal(
    first_op: NDArray[np.int64],
    last_op: NDArray[np.int64],
    size: NDArray[np.int64],
    alignment: int,
    as_printed: bool = False,
    seconds: float | None = None,
    phases: NDArray[np.int64] | None = None,
    pinned: NDArray[np.int64] | None = None,
    reserved: NDArray[np.int64] | None = None,
) -> tuple[NDArray[np.int64], int, Literal["bound", "work", "time"], int]: ...
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

# --- calls of Python between two calls of C: kernels/python/calls.cpp; `enter` is the address of a C function that
# takes a state and gives the one before ---

def call_within(enter: int, state: int, function: Callable[..., _Result], *arguments: object) -> _Result: ...

# --- PyTorch's caching allocator: kernels/python/caching.cpp ---

# Bytes requested, allocated and reserved after each event, up to the one that finds no memory; counters (most bytes
# reserved, times that a segment was taken or pages were mapped); blocks at the end, flat rows of segment, size, bytes
# requested, state (0 free, 1 used, 2 without memory).
def simulate_caching(
    size: NDArray[np.int64],
    request: NDArray[np.int64],
    stream: NDArray[np.int64],
    large_segment_size: int,
    max_split_size: int,
    max_non_split_rounding: int,
    roundup_power2_divisions: NDArray[np.int64],
    expandable_segments: bool,
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]: ...

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
def search_related_offsets(
    first_op: NDArray[np.int64],
    last_op: NDArray[np.int64],
    size: NDArray[np.int64],
    alignment: int,
    work: int,
    seed: int = 1,
    seconds: float | None = None,
    pinned: NDArray[np.int64] | None = None,
    reserved: NDArray[np.int64] | None = None,
    overlap: NDArray[np.int64] | None = None,
    within: NDArray[np.int64] | None = None,
    roles: NDArray[np.int64] | None = None,
) -> tuple[NDArray[np.int64], int, Literal["bound", "proof", "work", "time"], int]: ...
def related_lower_bound(
    first_op: NDArray[np.int64],
    last_op: NDArray[np.int64],
    size: NDArray[np.int64],
    alignment: int,
    pinned: NDArray[np.int64] | None = None,
    reserved: NDArray[np.int64] | None = None,
    overlap: NDArray[np.int64] | None = None,
    within: NDArray[np.int64] | None = None,
) -> int: ...
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

# --- the order of operators: kernels/python/schedule.cpp; fields as in edgemem/schedule/problem.py; a problem
# that contradicts itself and an order that is not topological are a ValueError ---

class OrderProblem:
    def __init__(
        self,
        before: Sequence[Sequence[int]],
        size: Sequence[int],
        reads: Sequence[Sequence[int]],
        writes: Sequence[Sequence[int]],
        over: Sequence[Sequence[int]],
        start: Sequence[int],
        kept: Sequence[int],
        lingers: Sequence[int],
        guarded: Sequence[int],
        own: Sequence[int],
        inside: Sequence[int],
        early: Sequence[int],
        leaves: Sequence[int],
        entry: Sequence[int],
        opening: int,
    ) -> None: ...
    def peak(self, order: Sequence[int]) -> int: ...
    def greedy(self) -> list[int]: ...
    def bound(self, order: Sequence[int], work: int) -> int: ...
    def beam(
        self, work: int, seconds: float | None = None, order: Sequence[int] = (), bound: int = 0
    ) -> tuple[list[int], int, Literal["bound", "proof", "work", "time"], int]: ...
    def improve(
        self, work: int, seed: int = 1, seconds: float | None = None, order: Sequence[int] = (), bound: int = 0
    ) -> tuple[list[int], int, Literal["bound", "proof", "work", "time"], int]: ...
    def parts(
        self, work: int, seconds: float | None = None, order: Sequence[int] = (), bound: int = 0
    ) -> tuple[list[int], int, Literal["bound", "proof", "work", "time"], int]: ...

# --- runs of operators, some of them several times: kernels/python/recompute.cpp ---

class RecomputeProgram:
    def __init__(
        self,
        problem: OrderProblem,
        sources: Sequence[Sequence[Sequence[int]]],
        direct: Sequence[Sequence[int]],
        keeps_unread: bool,
    ) -> None: ...
    def peak(self, runs: Sequence[int]) -> int: ...
    def search(
        self,
        costs: Sequence[int],
        repeatable: Sequence[bool],
        runs: Sequence[int],
        budget: int,
        most_cost: int,
        least_cost: int,
        improve: bool,
        work: int,
        seed: int = 1,
        seconds: float | None = None,
    ) -> tuple[list[int], Literal["bound", "proof", "work", "time"], int]: ...

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
