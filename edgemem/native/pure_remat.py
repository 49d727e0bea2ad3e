"""A program under a memory budget, in Python; kernels/planner/remat/simulator.h says what the rules are."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

import numpy as np

from edgemem.native.pure_remat_memory import Kind, Memory, Rules
from edgemem.native.pure_remat_pool import cheapest_window as _cheapest_window
from edgemem.native.pure_remat_values import Call, Value

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    Column = NDArray[np.int64]

__all__ = ["cheapest_window", "simulate_remat"]


class _Step(IntEnum):
    RUN, RERUN, PLACE, EVICT, RELEASE, TAKE_OVER = range(6)


class _Ended(Exception):  # noqa: N818 - no error: a result
    """The program does not run to its end; `how` as the kernel numbers it."""

    def __init__(self, how: int) -> None:
        super().__init__(how)
        self.how = how


_OUT_OF_MEMORY, _THRASHING = 1, 2


def cheapest_window(
    size: Column, heuristic: NDArray[np.float64], is_free: Column, request: int, per_byte: bool = False
) -> tuple[int, int]:
    """As the kernel: the first and the last block; (-1, -1) if none are large enough."""
    blocks = zip(size.tolist(), heuristic.tolist(), [bool(f) for f in is_free.tolist()], strict=True)
    found = _cheapest_window(list(blocks), request, per_byte=per_byte)
    return (-1, -1) if found is None else found


def simulate_remat(
    cost: Column,
    reads_offsets: Column,
    reads: Column,
    writes_offsets: Column,
    writes: Column,
    takes: Column,
    size: Column,
    event_kind: Column,
    event_index: Column,
    budget: int,
    alignment: int,
    rules: Column,
    limit: float,
    with_history: bool = False,
) -> tuple[Column, float, Column]:
    """As the kernel: counters, the mean fragmentation, and rows of step, subject and address."""
    heuristic, search, *parts = rules.tolist()
    chosen = Rules(heuristic, search, *map(bool, parts))
    driver = _Driver(Memory(budget, alignment, chosen), limit * float(cost.sum()), with_history)
    driver.cost, driver.size, driver.takes = cost.tolist(), size.tolist(), takes.tolist()
    driver.reads, driver.writes = _rows(reads_offsets, reads), _rows(writes_offsets, writes)
    ended = driver.run(list(zip(event_kind.tolist(), event_index.tolist(), strict=True)))
    counts = driver.memory.counts
    fragmentation = counts.fragmentation_sum / counts.shortages if counts.shortages else 0.0
    counters = [
        ended,
        driver.event,
        driver.short_of,
        driver.recomputed_cost,
        driver.recomputed_calls,
        counts.requests,
        counts.shortages,
        counts.searches,
        counts.evaluations,
        counts.search_ns,
        counts.evictions,
        counts.evicted_bytes,
        counts.peak,
    ]
    return np.array(counters, np.int64), fragmentation, np.array(driver.history, np.int64).reshape(-1)


def _rows(starts: Column, items: Column) -> list[list[int]]:
    ends, flat = starts.tolist(), items.tolist()
    return [flat[ends[i] : ends[i + 1]] for i in range(len(ends) - 1)]


class _Driver:
    """Runs the events on a memory. Values have numbers in the order in which they appear."""

    def __init__(self, memory: Memory, most_recomputed: float, with_history: bool) -> None:
        self.memory = memory
        self.most_recomputed = most_recomputed
        self.with_history = with_history
        self.cost: list[int] = []
        self.size: list[int] = []
        self.takes: list[int] = []
        self.reads: list[list[int]] = []
        self.writes: list[list[int]] = []
        self.values: dict[int, Value] = {}  # by their number in the log
        self.in_log: list[int] = []  # by their own number
        self.spared: list[Value] = []
        self.event = self.short_of = self.recomputed_cost = self.recomputed_calls = 0
        self.history: list[tuple[int, int, int]] = []

    def run(self, events: list[tuple[int, int]]) -> int:
        """How it ended, as the kernel numbers it."""
        try:
            for kind, index in events:
                if kind == 0:
                    self.first_run(index)
                elif kind == 1:
                    self.constant(index)
                elif kind == 2:
                    self.let_go(index)
                elif kind == 3:
                    self.pin(self.values[index])
                else:
                    self.spare(self.values[index])
                self.event += 1
            held = [value for value in self.values.values() if value.is_held and not value.is_forgotten]
            self.make_resident(sorted(held, key=lambda value: value.number))
        except _Ended as end:
            return end.how
        return 0

    def new(self, in_log: int) -> Value:
        value = Value(len(self.in_log), self.size[in_log], last_access=self.memory.values.clock)
        self.in_log.append(in_log)
        self.values[in_log] = value
        return value

    def note(self, step: _Step, subject: int, address: int = -1) -> None:
        if self.with_history:
            self.history.append((step, subject, address))

    def settle(self) -> None:
        for value in self.memory.released:
            self.note(_Step.RELEASE, self.in_log[value.number])
        self.memory.released.clear()

    def unlock(self, values: Iterable[Value]) -> None:
        for value in values:
            self.memory.unlock(value)
            self.settle()

    def let_go(self, in_log: int) -> None:
        value = self.values[in_log]
        if not value.is_forgotten:
            self.end_sparing([value])
            self.memory.let_go(value)
            self.settle()

    def pin(self, value: Value) -> None:
        """Make the value, and never evict it from now on."""
        self.make_resident([value])
        self.memory.pin(value)
        self.unlock([value])

    def spare(self, value: Value) -> None:
        """Evict the value only where nothing else makes room, until a call reads it: it has a lock of its own."""
        if value.is_resident and value.call is not None and value not in self.spared:
            self.spared.append(value)
            self.memory.lock(value)

    def end_sparing(self, values: list[Value]) -> bool:
        """Whether one of them was spared."""
        ended = [value for value in self.spared if value in values]
        self.spared = [value for value in self.spared if value not in ended]
        self.unlock(ended)
        return bool(ended)

    def lock(self, value: Value) -> None:
        self.end_sparing([value])
        self.memory.lock(value)

    def place(self, value: Value, kind: Kind) -> int:
        """Find room for a value, which is to be bound there."""
        if not value.size:
            return 0
        while (address := self.memory.take(value.size, kind)) is None:
            victims = self.memory.victims(value.size)
            if not victims and not self.end_sparing(self.spared):
                self.short_of = value.size
                raise _Ended(_OUT_OF_MEMORY)
            for victim in victims:
                self.note(_Step.EVICT, self.in_log[victim.number])
                self.memory.evict(victim)
        self.note(_Step.PLACE, self.in_log[value.number], address)
        return address

    def constant(self, in_log: int) -> None:
        value = self.new(in_log)
        self.memory.bind(value, self.place(value, Kind.CONSTANT))

    def first_run(self, number: int) -> None:
        taken = self.takes[number]
        reads = [self.values[read] for read in self.reads[number]]
        self.make_resident(reads)
        if taken >= 0:
            self.secure_dependents(self.values[taken])
        if self.writes[number]:
            written = sum(self.size[value] for value in self.writes[number])
            is_expensive = self.memory.is_expensive(self.cost[number], written)
            made = [self.new(value) for value in self.writes[number]]
            call = Call(number, self.cost[number], reads, made, is_expensive)
            self.memory.values.add_call(call)
            self.run_ready(call, is_first=True)
        else:
            self.memory.values.clock += self.cost[number]
            self.note(_Step.RUN, number)
        self.unlock(reads)
        if taken >= 0:
            self.let_go(taken)

    def secure_dependents(self, taken: Value) -> None:
        """Before a call writes over what cannot be made again: pin all that is held and needs it."""
        if taken.call is not None:
            return
        for value in self.memory.values.dependents(taken):
            self.pin(value)

    def make_resident(self, values: list[Value]) -> None:
        """Lock all of them, then recompute those that are evicted."""
        for value in values:
            self.lock(value)
        for value in values:
            if not value.is_resident:
                assert value.call is not None
                self.recompute(value.call)

    def recompute(self, call: Call) -> None:
        """Run a call again after all that it needs, without recursion: a chain may be as long as the program."""
        stack: list[tuple[Call, list[Value]]] = [(call, [])]
        while stack:
            top, locked = stack[-1]
            missing = next((read for read in top.reads if not read.is_resident), None)
            rest = [read for read in top.reads if read not in locked] if missing is None else [missing]
            for value in rest:
                self.lock(value)
                locked.append(value)
            if missing is not None:
                assert missing.call is not None
                stack.append((missing.call, []))
                continue
            stack.pop()
            self.run_ready(top)
            self.unlock(locked)

    def run_ready(self, call: Call, *, is_first: bool = False) -> None:
        """Run a call that has all that it reads in memory, locked."""
        placed: list[tuple[Value, int]] = []
        taking: Value | None = None
        for value in call.writes:
            if value.is_resident:
                continue
            if self.can_take_over(call.number, value):
                taking = value
            else:
                placed.append((value, self.place(value, Kind.EXPENSIVE if call.is_expensive else Kind.CHEAP)))
        for value, address in placed:
            self.memory.bind(value, address)
        if taking is not None:
            self.memory.take_over(self.values[self.takes[call.number]], taking)
            self.note(_Step.TAKE_OVER, self.in_log[taking.number], taking.address)
        self.memory.ran(call)
        self.settle()
        self.note(_Step.RUN if is_first else _Step.RERUN, call.number)
        if not is_first:
            self.recomputed_calls += 1
            self.recomputed_cost += call.cost
            if float(self.recomputed_cost) > self.most_recomputed:
                raise _Ended(_THRASHING)

    def can_take_over(self, number: int, value: Value) -> bool:
        taken = self.takes[number]
        return (
            taken >= 0
            and self.in_log[value.number] == self.writes[number][0]
            and self.memory.can_take_over(self.values[taken], value)
        )
