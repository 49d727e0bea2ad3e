"""What a program ran: its operators, the values that they read and made, and when the program let go of each.

A value is one version of a storage: an operator that works in place makes a new value in the memory of an old one.
Views are no values, and operators that make nothing but views are no calls.

    x = input                   constant 0 appears
    y = conv(x)                 call 0 reads 0, writes 1
    y.relu_()                   call 1 reads 1, writes 2, takes 1: value 1 is gone, value 2 has its memory
    z = y + x                   call 2 reads 2 and 0, writes 3
    del y                       value 2 is let go

This is what a simulation of rematerialisation runs under a budget (simulation.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from edgemem.errors import ModelError
from tests.bench.remat.ragged import Ragged

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray

__all__ = ["APPEARS", "LETS_GO", "PINS", "RUNS", "SPARES", "OperatorLog"]

RUNS, APPEARS, LETS_GO, PINS, SPARES = range(5)  # kinds of an event
_MOST_BYTES: Final = 1 << 60  # of all values
_MOST_COST: Final = 1 << 50  # nanoseconds of all calls, each once for every value that it writes: 13 days


@dataclass(frozen=True, eq=False, repr=False)
class OperatorLog:
    """What a program ran, in columns; int64 arrays. `OperatorLog.from_columns` makes one.

    Attributes:
        names: of operators, each once.
        name: [calls] index into `names`.
        cost: [calls] nanoseconds that the operator took.
        reads: [calls] the values that it read, each once.
        writes: [calls] the values that it made. Every value is made by one call, or is a constant.
        takes: [calls] the value in whose memory the first written value lies, or -1. It is one of `reads` and as large.
            The call lets go of it: no event does.
        size: [values] bytes; 0 needs no memory.
        event_kind: [events] `RUNS` (0): a call runs. `APPEARS` (1): a constant appears, such as a parameter or an
            input. `LETS_GO` (2): the program lets go of a value; nothing that it runs later reads the value. `PINS`
            (3): a value cannot be made again from now on, and stays in memory while it is needed. `SPARES` (4): until
            a call reads it, a value is evicted only where nothing else makes room.
        event_index: [events] the call, or the value. Calls run in the order of their numbers, each once.
    """

    names: tuple[str, ...]
    name: NDArray[np.int64]
    cost: NDArray[np.int64]
    reads: Ragged
    writes: Ragged
    takes: NDArray[np.int64]
    size: NDArray[np.int64]
    event_kind: NDArray[np.int64]
    event_index: NDArray[np.int64]

    @classmethod
    def from_columns(
        cls,
        *,
        names: Sequence[str],
        name: ArrayLike,
        cost: ArrayLike,
        reads: Ragged | Sequence[Sequence[int]],
        writes: Ragged | Sequence[Sequence[int]],
        takes: ArrayLike,
        size: ArrayLike,
        event_kind: ArrayLike,
        event_index: ArrayLike,
    ) -> OperatorLog:
        """A log from its columns.

        Raises ModelError if the columns do not fit together: a call reads what is not there or was let go, a value is
        made twice or never, a size or a cost is negative, or they add up to too much.
        """
        log = cls(
            names=tuple(names),
            name=_column(name),
            cost=_column(cost),
            reads=reads if isinstance(reads, Ragged) else Ragged.from_rows(reads),
            writes=writes if isinstance(writes, Ragged) else Ragged.from_rows(writes),
            takes=_column(takes),
            size=_column(size),
            event_kind=_column(event_kind),
            event_index=_column(event_index),
        )
        calls = len(log.cost)
        if any(len(column) != calls for column in (log.name, log.reads, log.writes, log.takes)):
            raise ModelError("the columns of the calls differ in length")
        if len(log.event_kind) != len(log.event_index):
            raise ModelError("the columns of the events differ in length")
        if calls and not 0 <= log.name.min() <= log.name.max() < len(log.names):
            raise ModelError("a call has a name that is not among the names")
        costs = log.cost.astype(np.float64) * np.maximum(np.diff(log.writes.starts), 1)
        for column, sums, most, what in (
            (log.size, log.size.astype(np.float64), _MOST_BYTES, "size"),
            (log.cost, costs, _MOST_COST, "cost"),
        ):
            if len(column) and column.min() < 0:
                raise ModelError(f"a {what} is negative")
            if sums.sum() > most:
                raise ModelError(f"the {what}s add up to more than {most:,}; record fewer iterations")
        _check_events(log)
        return log

    def __repr__(self) -> str:
        return (
            f"OperatorLog({len(self.cost):,} calls, {len(self.size):,} values, "
            f"{int(self.cost.sum()) / 1e6:,.1f} ms, {int(self.size.sum()):,} bytes made)"
        )

    @property
    def columns(self) -> tuple[Any, ...]:
        """All columns but `name`, arrays of int64, in the order in which the kernels take them."""
        return (
            self.cost,
            *(self.reads.starts, self.reads.items),
            *(self.writes.starts, self.writes.items),
            *(self.takes, self.size, self.event_kind, self.event_index),
        )

    @cached_property
    def total_cost(self) -> int:
        """Nanoseconds of all calls, each once."""
        return int(self.cost.sum())

    @cached_property
    def constants(self) -> NDArray[np.int64]:
        """The values that appear, in the order in which they do."""
        appear: NDArray[np.int64] = self.event_index[self.event_kind == APPEARS]
        return appear

    @cached_property
    def peak(self) -> int:
        """The most bytes that the program holds at once, without a budget and without fragments.

        A call holds what it reads and what it writes, but not twice what it takes.
        """
        size, writes, takes = self.size.tolist(), self.writes.rows(), self.takes.tolist()
        now = most = 0
        for kind, index in zip(self.event_kind.tolist(), self.event_index.tolist(), strict=True):
            if kind == RUNS:
                now += sum(size[v] for v in writes[index]) - (size[takes[index]] if takes[index] >= 0 else 0)
            else:
                now += size[index] if kind == APPEARS else -size[index]
            most = max(most, now)
        return most


def _column(values: ArrayLike) -> NDArray[np.int64]:
    """A read-only column of its own. Raises ModelError for what is none."""
    try:
        array = np.array(values, dtype=np.int64, ndmin=1)
    except (ValueError, OverflowError, TypeError):
        raise ModelError("a column of an operator log holds what is no integer of 64 bits") from None
    if array.ndim != 1:
        raise ModelError("a column of an operator log has more than one dimension")
    array.flags.writeable = False
    return array


_UNMADE, _HELD, _GONE = range(3)


def _check_events(log: OperatorLog) -> None:
    """Raise ModelError where the events contradict the columns or themselves."""
    state = [_UNMADE] * len(log.size)
    size, takes = log.size.tolist(), log.takes.tolist()
    reads, writes = log.reads.rows(), log.writes.rows()
    used = np.concatenate([log.reads.items, log.writes.items, log.takes[log.takes != -1]])
    if len(used) and not 0 <= used.min() <= used.max() < len(size):
        raise ModelError("a call names a value that the log does not have")
    ran = 0
    for at, (kind, index) in enumerate(zip(log.event_kind.tolist(), log.event_index.tolist(), strict=True)):
        if kind not in range(SPARES + 1) or not 0 <= index < (len(takes) if kind == RUNS else len(size)):
            raise ModelError(f"event {at} is none: it has the kind {kind} and the index {index}")
        if kind == RUNS:
            if index != ran:
                raise ModelError(f"event {at} runs call {index}, but call {ran} is the next one")
            ran += 1
            _check_call(index, state, size, reads[index], writes[index], takes[index])
        elif kind == APPEARS:
            if state[index] != _UNMADE:
                raise ModelError(f"value {index} appears at event {at}, but it is there already")
            state[index] = _HELD
        elif state[index] != _HELD:
            what = {LETS_GO: "lets go of", PINS: "pins", SPARES: "spares"}[kind]
            raise ModelError(f"event {at} {what} value {index}, which the program does not hold")
        elif kind == LETS_GO:
            state[index] = _GONE
    if ran != len(takes):
        raise ModelError(f"call {ran} never runs")
    if _UNMADE in state:
        raise ModelError(f"value {state.index(_UNMADE)} is never made")


def _check_call(
    call: int, state: list[int], size: list[int], reads: tuple[int, ...], writes: tuple[int, ...], takes: int
) -> None:
    """Raise ModelError if a call cannot run; otherwise note what it makes and lets go."""
    for value in reads:
        if state[value] != _HELD:
            raise ModelError(f"call {call} reads value {value}, which the program does not hold")
    if len(set(reads)) != len(reads):
        raise ModelError(f"call {call} names a value twice among those that it reads")
    for value in writes:
        if state[value] != _UNMADE:
            raise ModelError(f"call {call} writes value {value}, which is there already")
        state[value] = _HELD
    if takes == -1:
        return
    if takes not in reads or not writes or size[takes] != size[writes[0]]:
        raise ModelError(
            f"call {call} takes the memory of value {takes}; it must read it, and its first result must be as large"
        )
    state[takes] = _GONE
