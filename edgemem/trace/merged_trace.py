"""One trace for several runs of the same program: what a plan for a range of shapes is made of.

Runs with other shapes make the same requests in the same order, with other sizes, and free them at slightly other
times. Time is therefore counted in requests: a request is freed when so many requests have been made. The merged trace
has the largest size and the latest free of each request, so that a plan of it serves each of its runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from edgemem.trace.trace import Trace

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["between", "common_prefix", "is_part_of", "merge_traces", "overlay", "with_headroom"]

_NEVER = np.iinfo(np.int64).max
_ALIGNMENT = 64
_FEW = 64  # requests of 1 / this of what is alive are small


def merge_traces(first: Trace, second: Trace) -> Trace | None:
    """The trace of which both are parts; None if they have different numbers of requests.

    Times and threads are lost. A request that one of the runs does not free is not freed.
    """
    return overlay(first, second) if len(first.requests) == len(second.requests) else None


def with_headroom(known: Trace, wanted: Trace) -> Trace:
    """Both merged, with twice the room that `wanted` needs where the two differ, if anything in it is larger.

    Shapes that grow step by step, as those of a decoder, need a new plan after each doubling only. What depends on the
    shape gets its room at once, although single requests outgrow theirs at different steps.

    Args:
        known: what the plan serves.
        wanted: a run that does not fit, with the same number of requests.
    """
    room, sizes = _sizes(known), _sizes(wanted)
    merged = np.maximum(room, sizes)
    if np.any(sizes > room):
        doubled = (2 * sizes + _ALIGNMENT - 1) // _ALIGNMENT * _ALIGNMENT
        merged = np.where(sizes != room, np.maximum(merged, doubled), merged)
    return _from_lives(merged, np.maximum(_frees(known), _frees(wanted)))


def between(small: Trace, whole: Trace, amounts: tuple[float, float, float]) -> Trace:
    """A run between two that have as many requests: room for sizes that grow with an amount, or have a constant part.

    The size of a request is on the line between those of the two runs, and at least its share of the larger one's:
    what grows with the square of one dimension is small in a run with as much of another. Requests that are small
    beside the most that is alive at once keep the larger size. It costs little, and they may grow with one dimension.

    Args:
        small: the smaller run.
        whole: the larger one.
        amounts: such as the elements of the inputs: of the smaller run, of the one that is wanted, of the larger one.
    """
    few, wanted, many = amounts
    least, most = _sizes(small), _sizes(whole)
    line = least + (most - least) * ((wanted - few) / (many - few))
    grown = np.ceil(np.maximum(line, most * (wanted / many)) / _ALIGNMENT).astype(np.int64) * _ALIGNMENT
    sizes = np.maximum(least, np.where(most * _FEW <= whole.peak, most, grown))
    return _from_lives(sizes, np.maximum(_frees(small), _frees(whole)))


def is_part_of(trace: Trace, whole: Trace) -> bool:
    """Whether a plan of `whole` serves this run: as many requests, none larger, none freed later."""
    if len(trace.requests) != len(whole.requests):
        return False
    return bool(np.all(_sizes(trace) <= _sizes(whole)) and np.all(_frees(trace) <= _frees(whole)))


def overlay(first: Trace, second: Trace) -> Trace:
    """As `merge_traces`, of runs with different numbers of requests: the rest of the longer one follows.

    It fits runs of one loop that goes round more or less often. Both runs fit into a plan of it; what it costs is for
    the caller to judge, because other runs are laid over each other as badly as they are alike.
    """
    short, long = sorted((first, second), key=lambda trace: len(trace.requests))
    count = len(short.requests)
    sizes, frees = _sizes(long).copy(), _frees(long)
    sizes[:count] = np.maximum(sizes[:count], _sizes(short))
    frees[:count] = np.maximum(frees[:count], _frees(short))
    return _from_lives(sizes, frees)


def common_prefix(first: Trace, second: Trace) -> Trace:
    """The part at the beginning in which the two runs are alike, merged: the same requests are alive at each request.

    Sizes may differ. A request that is alive at the end of the part is freed there if both runs free it later.
    """
    one, other = _frees(first), _frees(second)
    count = min(len(one), len(other))
    one, other = one[:count], other[:count]
    differs = one != other
    end = int(np.minimum(one, other)[differs].min(initial=count))
    frees = np.maximum(one, other)[:end]
    sizes = np.maximum(_sizes(first)[:end], _sizes(second)[:end])
    return _from_lives(sizes, np.where(frees == _NEVER, _NEVER, np.minimum(frees, end)))


def _sizes(trace: Trace) -> NDArray[np.int64]:
    """Bytes of each request."""
    return trace.size[trace.requests]


def _frees(trace: Trace) -> NDArray[np.int64]:
    """How many requests have been made when each request is freed; _NEVER if it is not freed."""
    made = np.cumsum(trace.size > 0)
    ends = trace.ends
    return np.where(ends < 0, _NEVER, made[ends])


def _from_lives(sizes: NDArray[np.int64], frees: NDArray[np.int64]) -> Trace:
    """The trace of requests with these sizes that are freed when so many have been made, in the order of requests."""
    count = len(sizes)
    freed = np.flatnonzero(frees != _NEVER)
    requests = np.arange(count, dtype=np.int64)
    # At each time the frees come before the request.
    time = np.concatenate((2 * requests + 1, 2 * frees[freed]))
    request = np.concatenate((requests, freed))
    size = np.concatenate((sizes, np.zeros(len(freed), np.int64)))
    order = np.lexsort((request, time))
    return Trace.from_columns(size[order], request[order])
