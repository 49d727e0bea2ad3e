"""One iteration of a program that repeats itself, as requests with circular lifetimes.

    position   0  1  2  3  4  5     one period of `length` events
    a          |--------|           freed in the period that made it
    b       ---|     |--------      freed at position 1 of the next period: end = length + 1
    c       ---------|-----------   freed more than a period later: two of them are alive at times

A plan of one period holds for all. The circle is cut at the moment with the fewest bytes alive. What is alive there has
its place at the bottom of the arena: b becomes two records at one fixed offset, c two places that are in use all the
time, which the requests of successive periods take by turns.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from edgemem.errors import ModelError
from edgemem.records.problem import Problem
from edgemem.trace.slots import Slots
from edgemem.trace.steady_period import dynamic_requests, steady_period

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from edgemem.trace.trace import Section, Trace

__all__ = ["Cycle", "OffsetPlanned"]


class _Placed(Protocol):
    """What a cycle needs of an offset plan (`edgemem.plans.OffsetPlan`)."""

    @property
    def offsets(self) -> NDArray[np.int64]: ...

    @property
    def size(self) -> int: ...


class OffsetPlanned(Protocol):
    """What a cycle needs of a plan set (`edgemem.plans.PlanSet`)."""

    @property
    def problem(self) -> Problem: ...

    @property
    def best_offsets(self) -> _Placed | None: ...


@dataclass(frozen=True, slots=True, eq=False)
class Cycle:
    """The requests of one period in order, as columns of one length.

    Attributes:
        length: events in the period; positions are counted from 0.
        size: bytes; int64 [n], above 0.
        start: position of the request; int64 [n].
        end: position of its free, exclusive, `length` more for each period later; -1 if it is never freed.
        lane: thread or stream that asks; int64 [n], from 0 on.
        section: index into `sections`, or -1; int64 [n].
        free_section: the section in which it is freed, or -1; int64 [n].
        is_dynamic: whether its size differs from one iteration to the next; bool [n].
        sections: what `section` and `free_section` refer to.
        device: where the memory is, such as `cpu`; "" if it is not known.
    """

    length: int
    size: NDArray[np.int64]
    start: NDArray[np.int64]
    end: NDArray[np.int64]
    lane: NDArray[np.int64]
    section: NDArray[np.int64]
    free_section: NDArray[np.int64]
    is_dynamic: NDArray[np.bool_]
    sections: tuple[Section, ...] = ()
    device: str = ""

    @classmethod
    def of(cls, trace: Trace, *, dynamic: Sequence[str] = (), by_stream: bool = False) -> Cycle:
        """The iteration that a trace repeats: the last one that makes the same requests and frees as the one before.

        Requests outside of iterations are left out. Three iterations are enough where nothing lives longer than one.

        Args:
            trace: of at least two iterations (`Trace.iteration`).
            dynamic: patterns such as `*.experts*`, for names of sections whose requests may differ between iterations
                beside the sections that are marked as dynamic.
            by_stream: a lane is a stream; otherwise it is a thread.

        Raises:
            ModelError: no two iterations in a row agree; says where the last two differ.
        """
        lane = np.maximum(trace.stream if by_stream else trace.thread, 0)
        is_dynamic = dynamic_requests(trace, dynamic)
        period = steady_period(trace, lane, is_dynamic)
        events = trace.requests[period.request]
        return cls(
            period.length,
            trace.size[events],
            period.start,
            period.end,
            lane[events],
            trace.section[events],
            np.where(period.free_event >= 0, trace.section[period.free_event], -1),
            is_dynamic[period.request],
            trace.sections,
        )

    def __len__(self) -> int:
        return len(self.size)

    @property
    def first_phase(self) -> NDArray[np.int64]:
        """Phase of the section in which each request is made, or -1; int64 [n]."""
        return self._phase_of(self.section)

    @property
    def last_phase(self) -> NDArray[np.int64]:
        """Phase of the section in which each request is freed, or -1; int64 [n]."""
        return self._phase_of(self.free_section)

    @property
    def planned(self) -> NDArray[np.int64]:
        """The requests with a place in a plan, ascending: static, and freed less than two periods after they are made.

        For what lives longer a plan would keep a place for each of the periods.
        """
        lives = self.end - self.start
        return np.flatnonzero((self.end >= 0) & (lives < 2 * self.length) & ~self.is_dynamic)

    def problem(self, alignment: int = 64) -> tuple[Problem, NDArray[np.int64]]:
        """The usage records of one period from the moment with the fewest bytes alive on, for any strategy.

        The first records are those of the planned requests in order, one each; those alive at that moment are pinned
        and have a second record, at the end. A period later the same plan holds again.

        Args:
            alignment: of every offset in bytes.

        Returns:
            The problem, and the request of each record; int64 [records].
        """
        requests = self.planned
        size, life = self.size[requests], self.end[requests] - self.start[requests]
        cut = self._cut(alignment)
        first = (self.start[requests] - cut) % max(self.length, 1)
        last = first + life - 1
        again = np.flatnonzero(last >= self.length)
        is_long = life[again] > self.length
        # The longest lie lowest, so that what is free above them is in one piece.
        rank = np.lexsort((again, -life[again]))
        padded = -(-size[again] // alignment) * alignment
        room = padded * np.where(is_long, 2, 1)
        pin = np.zeros(len(again), np.int64)
        pin[rank] = np.cumsum(room[rank]) - room[rank]
        pinned = np.full(len(requests), -1, np.int64)
        pinned[again] = pin
        first[again[is_long]] = 0
        last_of_second = np.where(is_long, self.length - 1, last[again] - self.length)
        phases = np.stack((self.first_phase[requests], self.last_phase[requests]), axis=1)
        phases[again] = -1
        phases[(phases < 0).any(axis=1)] = -1
        rows = requests.tolist()
        problem = Problem.from_arrays(
            np.append(first, np.zeros(len(again), np.int64)),
            np.append(np.minimum(last, self.length - 1), last_of_second),
            np.append(size, size[again]),
            names=[f"request {k}" for k in rows] + [f"request {rows[k]} of the period before" for k in again.tolist()],
            alignment=alignment,
            pinned=np.append(pinned, pin + np.where(is_long, padded, 0)),
            phases=np.append(phases, np.full((len(again), 2), -1), axis=0),
        )
        return problem, np.append(requests, requests[again])

    def has_problem(self, problem: Problem) -> bool:
        """Whether a problem has the records of this cycle's, at its own alignment."""
        mine = self.problem(problem.alignment)[0]
        return all(np.array_equal(a, b) for a, b in zip(_columns(mine), _columns(problem), strict=True))

    def lower_bound(self, alignment: int = 64) -> int:
        """Bytes that no arena for the planned requests can go below: the most that are alive at one position.

        As in `edgemem.strategy.bounds.lower_bounds`, all sizes but one are padded to the alignment.
        """
        requests = self.planned
        size, start = self.size[requests], self.start[requests]
        padded = -(-size // alignment) * alignment
        load = self._load(start, self.end[requests] - start, padded)
        if not len(load):
            return 0
        # The largest padding matters only where the load is within one padding of the most.
        near = np.flatnonzero(load > load.max() - alignment)
        spare = _largest_alive(start, self.end[requests], padded - size, near, self.length)
        return int((load[near] - spare).max())

    def slots(self, planset: OffsetPlanned) -> Slots:
        """The places of a plan of `problem`, for a loop to replay; dynamic requests have none yet.

        Raises ModelError if the plan is of another problem, or has no offsets.
        """
        problem, requests = self.problem(planset.problem.alignment)
        best = planset.best_offsets
        if best is None:
            raise ModelError("a cycle needs an offset plan; plan it with a strategy for offsets")
        if not self.has_problem(planset.problem):
            raise ModelError("the plan is not of this cycle; plan it again")
        offset, other = (np.full(len(self), -1, np.int64) for _ in range(2))
        count = len(self.planned)
        offset[requests[:count]] = best.offsets[:count]
        second = best.offsets[count:]
        other[requests[count:]] = np.where(second == offset[requests[count:]], -1, second)
        none = np.full(len(self), -1, np.int64)
        return Slots(best.size, problem.alignment, self.size, offset, other, self.lane, self.section, none)

    def _phase_of(self, section: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.array([*(s.phase for s in self.sections), -1], np.int64)[section]

    def _load(self, start: NDArray[np.int64], life: NDArray[np.int64], weight: NDArray[np.int64]) -> NDArray[np.int64]:
        """The weight alive at each position, for lives of so many positions from `start` on; int64 [length]."""
        if not self.length:
            return np.zeros(0, np.int64)
        whole, rest = np.divmod(life, self.length)
        change = np.zeros(2 * self.length + 1, np.int64)
        np.add.at(change, start, weight)
        np.add.at(change, start + rest, -weight)
        load = np.cumsum(change)[:-1]
        return load[: self.length] + load[self.length :] + int((whole * weight).sum())

    def _cut(self, alignment: int) -> int:
        """The position before which the fewest bytes are alive; the first on ties.

        Alive before position p is what was made before and is freed after it.
        """
        requests = self.planned
        padded = -(-self.size[requests] // alignment) * alignment
        start, life = self.start[requests], self.end[requests] - self.start[requests]
        load = self._load((start + 1) % max(self.length, 1), life - 1, padded)
        return int(load.argmin()) if len(load) else 0


def _largest_alive(
    start: NDArray[np.int64], end: NDArray[np.int64], value: NDArray[np.int64], at: NDArray[np.int64], length: int
) -> NDArray[np.int64]:
    """The largest value among what is alive at each of the positions `at`, ascending; 0 where nothing is.

    Ends are less than two periods after their starts.
    """
    # Three periods, the last of which sees all that the two before it have made.
    starts = np.concatenate([start + k * length for k in range(3)])
    ends = np.concatenate([end + k * length for k in range(3)])
    order = np.argsort(starts, kind="stable")
    rows = zip(starts[order].tolist(), ends[order].tolist(), np.tile(value, 3)[order].tolist(), strict=True)
    row = next(rows, None)
    alive: list[tuple[int, int]] = []
    largest = []
    for position in (at + 2 * length).tolist():
        while row is not None and row[0] <= position:
            heapq.heappush(alive, (-row[2], row[1]))
            row = next(rows, None)
        while alive and alive[0][1] <= position:
            heapq.heappop(alive)
        largest.append(-alive[0][0] if alive else 0)
    return np.array(largest, np.int64)


def _columns(problem: Problem) -> tuple[NDArray[np.int64], ...]:
    pinned = np.full(len(problem), -1, np.int64) if problem.pinned is None else problem.pinned
    return problem.first_op, problem.last_op, problem.size, pinned
