"""Programs that repeat themselves in the plainest form: the requests of a period, and when each is freed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from hypothesis import strategies as st

from edgemem.trace import Trace

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Request", "periodic_programs", "unrolled"]


class Request(NamedTuple):
    """Asks for `size` bytes at position `start` of every period, in a section, and is freed at `end`, or never (-1).

    An `end` beyond the length of a period is a position of a later one.
    """

    size: int
    start: int
    end: int
    section: int = -1


@st.composite
def periodic_programs(draw: Any) -> tuple[list[Request], int, int]:
    """Requests of a period in order, its length, and how many of its last events come after the iteration."""
    count = draw(st.integers(1, 12))
    frees = [draw(st.booleans()) or draw(st.booleans()) for _ in range(count)]
    events = [(k, False) for k in range(count)] + [(k, True) for k in range(count) if frees[k]]
    order = draw(st.permutations(events))
    numbers = {k: number for number, k in enumerate(k for k, is_free in order if not is_free)}
    start = {numbers[k]: at for at, (k, is_free) in enumerate(order) if not is_free}
    end = {numbers[k]: at for at, (k, is_free) in enumerate(order) if is_free}
    requests = []
    for k in range(count):
        finish = -1
        if k in end:
            finish = end[k] + len(order) * (draw(st.integers(0, 2)) + (end[k] < start[k]))
        requests.append(Request(draw(st.integers(1, 300)), start[k], finish))
    trailing = len(order) - 1 - max(start.values())
    return requests, len(order), draw(st.integers(0, trailing))


def unrolled(requests: Sequence[Request], length: int, after: int, periods: int, **columns: Any) -> Trace:
    """The trace of so many periods, the last of which is whole."""
    happens: list[tuple[int, int, bool]] = []
    for period in range(periods):
        for k, one in enumerate(requests):
            happens.append((one.start + period * length, period * len(requests) + k, False))
            if one.end >= 0 and one.end + period * length < periods * length:
                happens.append((one.end + period * length, period * len(requests) + k, True))
    happens.sort()
    return Trace.from_columns(
        [0 if is_free else requests[k % len(requests)].size for _, k, is_free in happens],
        [k for _, k, _ in happens],
        iteration=[-1 if at % length >= length - after else at // length for at, _, _ in happens],
        section=[-1 if is_free else requests[k % len(requests)].section for _, k, is_free in happens],
        **columns,
    )
