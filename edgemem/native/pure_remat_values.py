"""The values of a program and the calls that make them, in Python; kernels/remat/values.h says what they are."""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["Call", "EvictedSet", "Value", "Values"]


@dataclass(slots=True, eq=False)
class EvictedSet:
    """Evicted values that are neighbours, by the sum of their costs; united sets point to the one that holds all."""

    cost: int
    into: EvictedSet | None = None

    def root(self) -> EvictedSet:
        """The set that holds the members of this one now."""
        found = self
        while found.into is not None:
            found = found.into
        node = self
        while node.into is not None:
            node.into, node = found, node.into
        return found


@dataclass(slots=True, eq=False)
class Value:
    """One version of a storage. `number` ascends in the order in which values are made."""

    number: int
    size: int
    call: Call | None = None  # None: it cannot be made again
    address: int = -1
    last_access: int = 0
    locks: int = 0
    read_by: list[Call] = field(default_factory=list)  # calls that may have to run again
    set: EvictedSet | None = None
    is_held: bool = True
    is_resident: bool = False
    is_made_again: bool = False  # resident since a time after the program let it go
    is_forgotten: bool = False

    @property
    def is_evictable(self) -> bool:
        return self.is_resident and self.call is not None and not self.locks

    @property
    def is_idle(self) -> bool:
        return self.is_evictable and not self.is_held and not self.is_made_again

    @property
    def is_needed(self) -> bool:
        return self.is_held or bool(self.locks) or bool(self.read_by)


@dataclass(slots=True, eq=False)
class Call:
    """One run of an operator."""

    number: int
    cost: int
    reads: list[Value]
    writes: list[Value]  # but those that are pinned or forgotten
    is_expensive: bool = False
    has_run: bool = False
    runs_once: bool = False  # it writes over what cannot be made again


class Values:
    """The clock, and what is forgotten. `forgotten` collects the values that left since it was emptied."""

    def __init__(self) -> None:
        self.clock = 0
        self.forgotten: list[Value] = []

    def add_call(self, call: Call) -> None:
        """A call, and what it will write."""
        for value in call.writes:
            value.call = call
        for value in call.reads:
            value.read_by.append(call)

    def projected_cost(self, value: Value) -> int:
        """Its own cost, and that of all sets that hold an evicted neighbour of it."""
        assert value.call is not None
        sets = {id(s): s.cost for s in _sets_around(value)}
        return value.call.cost + sum(sets.values())

    def staleness(self, value: Value) -> int:
        """Time since the last access, at least 1."""
        return max(self.clock - value.last_access, 1)

    def set_resident(self, value: Value, address: int) -> None:
        """It is in memory, and in no set."""
        self._leave_set(value)
        value.address, value.is_resident, value.is_made_again = address, True, not value.is_held

    def set_evicted(self, value: Value) -> None:
        """It is not in memory, and in one set with its evicted neighbours if it can be made again."""
        value.address, value.is_resident = -1, False
        if value.call is None:
            return
        own = EvictedSet(value.call.cost)
        for other in _sets_around(value):
            other = other.root()  # noqa: PLW2901 - an earlier one may have been united with it
            if other is not own:
                own.cost += other.cost
                other.into = own
        value.set = own

    def ran(self, call: Call) -> None:
        """The clock advances, then what the call wrote counts as accessed, for the first time only."""
        self.clock += call.cost
        for value in call.writes if not call.has_run else ():
            value.last_access = self.clock
        call.has_run = True

    def pin(self, value: Value) -> None:
        """It cannot be made again; what only its recipe needed is forgotten."""
        for read in self._unwritten(value):
            self.forget_unneeded(read)

    def forget_unneeded(self, value: Value) -> None:
        """Forget the value, if nothing needs it, and all that only it needed."""
        pending = [value]
        while pending:
            gone = pending.pop()
            if gone.is_needed or gone.is_forgotten:
                continue
            gone.is_forgotten = True
            self.forgotten.append(gone)
            pending += self._unwritten(gone)

    def dependents(self, value: Value) -> list[Value]:
        """The held values that are made from this one by calls that may have to run again, by number."""
        found: dict[int, Value] = {}
        pending = [value]
        while pending:
            for call in pending.pop().read_by:
                for made in call.writes:
                    if made.number not in found:
                        found[made.number] = made
                        pending.append(made)
        return [found[number] for number in sorted(found) if found[number].is_held]

    def _unwritten(self, value: Value) -> list[Value]:
        """The value's call does not make it any more: what the call read, if it never runs again."""
        call = value.call
        if call is None:
            return []
        self._leave_set(value)
        value.call = None
        call.writes.remove(value)
        if call.writes:
            return []
        for read in call.reads:
            read.read_by.remove(call)
        return call.reads

    @staticmethod
    def _leave_set(value: Value) -> None:
        if value.set is not None and value.call is not None:
            value.set.root().cost -= value.call.cost
        value.set = None


def _sets_around(value: Value) -> list[EvictedSet]:
    """The sets of the evicted values that it is made of, or that are made of it."""
    assert value.call is not None  # of a constant nobody asks
    made = [result for call in value.read_by for result in call.writes]
    return [near.set.root() for near in (*value.call.reads, *made) if near.set is not None]
