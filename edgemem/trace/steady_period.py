"""The iteration that a training loop repeats, found by comparing the last iterations of a trace.

    iteration     0 0 0 0 -1   1 1 1 1 -1   2 2 2 2
    period        |--------|   |--------|   |-----      from the first event of an iteration to that of the next
    event         a b   B  A   a b   B  A   a b   B     a, b: requests; A, B: their frees, A after the iteration

Periods are compared as rows: what a request asks for, and for a free which request it frees, counted within the period
that made it, and how many periods ago that was. Requests made outside of iterations have no place in a plan; they and
their frees are left out.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from edgemem.errors import ModelError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from edgemem.trace.trace import Trace

__all__ = ["Period", "dynamic_requests", "steady_period"]


class Period(NamedTuple):
    """One period as int64 columns, a row for each of its requests in order.

    Attributes:
        length: events in the period.
        request: number of the request in the trace.
        start: position of the event that makes it, from 0 on.
        end: position of the event that frees it, `length` more for each period later; -1 if nothing does.
        free_event: an event of the trace that `end` is the position of, or -1.
    """

    length: int
    request: NDArray[np.int64]
    start: NDArray[np.int64]
    end: NDArray[np.int64]
    free_event: NDArray[np.int64]


def dynamic_requests(trace: Trace, patterns: Sequence[str] = ()) -> NDArray[np.bool_]:
    """Whether each request is made in a section that is dynamic, or whose name matches a pattern such as `*.experts*`.

    Upper and lower case differ, as for `fnmatch.fnmatchcase`.
    """
    sections = [s.is_dynamic or any(fnmatchcase(s.name, p) for p in patterns) for s in trace.sections]
    return np.array([*sections, False])[trace.section[trace.requests]]  # the last one is that of the section -1


def steady_period(trace: Trace, lane: NDArray[np.int64], is_dynamic: NDArray[np.bool_]) -> Period:
    """The last period that is as the one before it.

    What follows the last iteration of a trace may be missing, so it is taken from the iteration before.

    Args:
        trace: of two iterations at least.
        lane: of each event.
        is_dynamic: for each request, whether it is left out of the comparison.

    Raises:
        ModelError: no two iterations in a row agree; says where the last two differ.
    """
    periods = _Periods(trace, lane, is_dynamic)
    if periods.count < 2:
        raise ModelError(f"a plan needs two iterations that agree, and the trace has {periods.count}; record more")
    why = ""
    for later in range(periods.count - 1, 0, -1):
        differs = periods.difference(later - 1, later)
        if differs is None:
            return periods.period(later)
        why = why or differs
    raise ModelError(f"no two iterations in a row agree: {why}; record more iterations, or mark what is dynamic")


class _Periods:
    """A trace cut into periods; the events of requests that are made in iterations, as columns.

    Attributes:
        count: of periods.
        event: number of the event in the trace.
        request: that it makes or frees.
        rows: int64 [n, 4]: (0, bytes, lane, section) for a request, (1, periods since it was made, ordinal, 0) for a
            free. The ordinal counts the requests of a period that are compared.
        is_static: whether the event is compared.
        begins: first row of each period, and the number of rows.
        over: the row at which each period's iteration is over.
    """

    def __init__(self, trace: Trace, lane: NDArray[np.int64], is_dynamic: NDArray[np.bool_]) -> None:
        self._trace = trace
        inside = np.flatnonzero(trace.iteration >= 0)
        changes = np.flatnonzero(np.diff(trace.iteration[inside])) + 1
        first = inside[np.concatenate((np.zeros(min(len(inside), 1), np.int64), changes))]
        last = inside[np.concatenate((changes, np.full(min(len(inside), 1), len(inside), np.int64))) - 1]
        self.count = len(first)
        self._number = trace.iteration[first]
        period = np.searchsorted(first, np.arange(len(trace)), "right") - 1
        made = trace.requests
        self._made_in = np.where(trace.iteration[made] >= 0, period[made], -1)
        self.event = np.flatnonzero(self._made_in[trace.request] >= 0)
        self.request = trace.request[self.event]
        self.is_static = ~is_dynamic[self.request]
        self._dynamic = is_dynamic
        compared = (self._made_in >= 0) & ~is_dynamic
        before: NDArray[np.int64] = np.cumsum(compared) - compared
        starts = np.searchsorted(made, first)
        ordinal = before - np.concatenate((before, [0]))[starts][self._made_in] if self.count else before
        size = trace.size[self.event]
        age = period[self.event] - self._made_in[self.request]
        self.rows = np.where(
            (size > 0)[:, None],
            np.stack((np.zeros_like(size), size, lane[self.event], trace.section[self.event]), axis=1),
            np.stack((np.ones_like(size), age, ordinal[self.request], np.zeros_like(size)), axis=1),
        )
        self.begins = np.append(np.searchsorted(self.event, first), len(self.event))
        self.over = np.searchsorted(self.event, last, "right")

    def difference(self, earlier: int, later: int) -> str | None:
        """Where two periods differ, in words; None if they agree."""
        parts = [(self._inside(earlier), self._inside(later))]
        if later + 1 < self.count:
            parts.append((self._after(earlier), self._after(later)))
        for one, other in parts:
            a, b = (rows[self.is_static[rows]] for rows in (one, other))
            shared = min(len(a), len(b))
            unequal = (self.rows[a[:shared]] != self.rows[b[:shared]]).any(axis=1)
            at = int(unequal.argmax()) if unequal.any() else shared
            if at < max(len(a), len(b)):
                said = [self._said(rows, at) for rows in (a, b)]
                return f"iteration {self._number[earlier]} {said[0]} where iteration {self._number[later]} {said[1]}"
        frees = self.rows[self._frees(later)]
        times = np.bincount(frees[:, 2])
        own = (self._made_in == later) & ~self._dynamic
        if len(times) > np.count_nonzero(own) or times.max(initial=0) > 1:
            return f"iteration {self._number[later]} frees requests of iterations that were others"
        return None

    def period(self, k: int) -> Period:
        """Period k, which agrees with the one before it."""
        rows = self._all(k)
        length = len(rows)
        position = np.full(len(self.event), -1, np.int64)
        position[rows] = np.arange(length)
        requests = np.flatnonzero(self._made_in == k)
        start, end, free_event = (np.full(len(requests), -1, np.int64) for _ in range(3))
        makes = rows[self.rows[rows, 0] == 0]
        start[:] = position[makes]
        frees = self._frees(k)
        static = np.flatnonzero(~self._dynamic[requests])[self.rows[frees, 2]]
        end[static] = position[frees] + self.rows[frees, 1] * length
        free_event[static] = self.event[frees]
        self._end_dynamic(requests, k, (end, free_event), length)
        end[end >= 0] = np.maximum(end, start + 1)[end >= 0]  # sizes differ, and so may the order of events
        return Period(length, requests, start, end, free_event)

    def _end_dynamic(
        self, requests: NDArray[np.int64], k: int, columns: tuple[NDArray[np.int64], NDArray[np.int64]], length: int
    ) -> None:
        """Fill in where dynamic requests were freed; a position in another period is the nearest in this one.

        What is freed after the end of the trace is freed as its counterpart of the period before: the request with the
        same ordinal in its section.
        """
        end, free_event = columns
        for source, targets in self._counterparts(requests, k):
            freed_by = self._trace.ends[source]
            known = freed_by >= 0
            row = np.searchsorted(self.event, freed_by[known])
            period = np.searchsorted(self.begins, row, "right") - 1
            made_in = self._made_in[source[known]]
            end[targets[known]] = np.minimum(row - self.begins[period], length - 1) + (period - made_in) * length
            free_event[targets[known]] = freed_by[known]

    def _counterparts(
        self, requests: NDArray[np.int64], k: int
    ) -> tuple[tuple[NDArray[np.int64], NDArray[np.int64]], ...]:
        """Requests whose frees tell when dynamic requests of period k are freed, and the indices of those."""
        dynamic = np.flatnonzero(self._dynamic[requests])
        own = requests[dynamic]
        before = np.flatnonzero((self._made_in == k - 1) & self._dynamic)
        numbers = dict(zip(self._in_section(before), before.tolist(), strict=True))
        open_ = self._trace.ends[own] < 0
        found = [numbers.get(key, -1) for key in self._in_section(own)]
        counterpart = np.array(found, np.int64)
        has_one = open_ & (counterpart >= 0)
        return (own[~open_], dynamic[~open_]), (counterpart[has_one], dynamic[has_one])

    def _in_section(self, requests: NDArray[np.int64]) -> list[tuple[int, int]]:
        """The section of each request, and its ordinal among those of that section."""
        counts: dict[int, int] = {}
        keys = []
        for section in self._trace.section[self._trace.requests[requests]].tolist():
            counts[section] = counts.get(section, -1) + 1
            keys.append((section, counts[section]))
        return keys

    def _inside(self, k: int) -> NDArray[np.int64]:
        return np.arange(self.begins[k], self.over[k])

    def _after(self, k: int) -> NDArray[np.int64]:
        return np.arange(self.over[k], self.begins[k + 1])

    def _all(self, k: int) -> NDArray[np.int64]:
        return np.concatenate((self._inside(k), self._after(k if k + 1 < self.count else k - 1)))

    def _frees(self, k: int) -> NDArray[np.int64]:
        rows = self._all(k)
        frees: NDArray[np.int64] = rows[(self.rows[rows, 0] == 1) & self.is_static[rows]]
        return frees

    def _said(self, rows: NDArray[np.int64], at: int) -> str:
        """What a period does at a row, in words."""
        if at >= len(rows):
            return "is over"
        is_free, what, which, section = self.rows[rows[at]].tolist()
        if is_free:
            return f"frees its request {which}" + (f" of {what} iterations before" if what else "")
        name = f" in {self._trace.sections[section].name!r}" if section >= 0 else ""
        return f"asks for {what:,} bytes{name} on lane {which}"
