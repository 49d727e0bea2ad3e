"""A program under a budget of memory, through the C ABI: which values lie in memory, and which are evicted for others.

It knows values by number and storages by address, and no runtime. kernels/replay/edgemem_remat.h has the rules.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, fields
from struct import Struct
from typing import TYPE_CHECKING, Final

import numpy as np

from edgemem.errors import RuntimeBindError
from edgemem.replay.library import library

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

__all__ = ["CHEAP", "EXPENSIVE", "PATIENT", "BudgetMemory", "MemoryCounts"]

CHEAP, EXPENSIVE = 0, 1  # kinds of requests
PATIENT = 2  # added to one: the operator may run again after `clear`
_POISON: Final = 1
_NOBODY: Final = -1
_OK: Final = 0


@dataclass(frozen=True, slots=True)
class MemoryCounts:
    """What happened so far, as `em_remat_stats` has it: bytes, counts, and nanoseconds."""

    budget: int
    peak: int
    last_peak: int
    used: int
    pinned: int
    requests: int
    refused: int
    refused_bytes: int
    refused_fixed: int
    taken_bytes: int
    evictions: int
    evicted_bytes: int
    searches: int
    evaluations: int
    search_ns: int
    recomputed_calls: int
    recomputed_ns: int
    forgotten: int
    moves: int
    moved_bytes: int
    fragmentation: float


_COUNTS: Final = Struct(f"{len(fields(MemoryCounts)) - 1}qd")


class _Result(ctypes.Structure):
    """`em_remat_result` of the C header."""

    _fields_ = (
        ("value", ctypes.c_int64),
        ("takes", ctypes.c_int64),
        ("block", ctypes.c_void_p),
        ("storage", ctypes.c_void_p),
    )


class BudgetMemory:
    """The memory that serves the requests of a program under a budget. One at a time is in use.

    Args:
        budget: bytes of its pool; None for a pool that grows as it is needed, in which nothing is evicted.
        rules: how room is made, as a policy of `edgemem.remat.policies` has them.
        evict: address of an `em_remat_evict`.
        move: address of an `em_remat_move`.
        poison: fill every block that is served with a pattern.

    Raises:
        MemoryError: there is no memory for the pool.
    """

    def __init__(
        self, budget: int | None, rules: NDArray[np.int64], evict: int, move: int, *, poison: bool = False
    ) -> None:
        self._c = _functions()
        handle: int | None = self._c.em_remat_create(
            -1 if budget is None else budget,
            np.ascontiguousarray(rules, np.int64).tobytes(),
            evict,
            move,
            _POISON * poison,
        )
        if not handle:
            raise MemoryError(library().error())
        self.handle = handle
        self._last: MemoryCounts | None = None
        self._refused = 0
        self._list = ctypes.POINTER(ctypes.c_int64)()

    def start(self) -> None:
        """From now on it serves the requests. Raises RuntimeBindError if another one does, or a session is open."""
        if self._c.em_remat_start(self.handle) != _OK:
            raise RuntimeBindError(f"memory under a budget is in use: {library().error()}")

    def lift(self) -> None:
        """There is no budget any more."""
        self._c.em_remat_lift(self.handle)

    def close(self) -> None:
        """End it; blocks stay valid. Again does nothing."""
        self._last = self.counts()
        self._c.em_remat_destroy(self.handle)

    def counts(self) -> MemoryCounts:
        """Counts so far; once it is closed, those of then."""
        if self._last is not None:
            return self._last
        out = ctypes.create_string_buffer(_COUNTS.size)
        self._c.em_remat_stats_get(self.handle, out)
        return MemoryCounts(*_COUNTS.unpack(out))

    def take_refusal(self) -> MemoryCounts | None:
        """Counts if a request was refused since the last call of it, else None."""
        counts = self.counts()
        is_new, self._refused = counts.refused != self._refused, counts.refused
        return counts if is_new else None

    def holds(self, block: int) -> bool:
        """Whether a block is of the pool."""
        return bool(self._c.em_remat_holds(self.handle, block))

    def add_constant(self, block: int | None, storage: int) -> int:
        """A value that no call makes: its number."""
        value: int = self._c.em_remat_constant(self.handle, block, storage)
        if value < 0:
            raise MemoryError(library().error())
        return value

    def lock(self, values: Sequence[int], kind: int = CHEAP) -> int:
        """Keep values in memory until `unlock`; how many of them are not there now.

        -1, and nothing is locked, if one has been forgotten.
        """
        count = len(values)
        return int(self._c.em_remat_lock(self.handle, (ctypes.c_int64 * count)(*values), count, kind))

    def unlock(self, values: Sequence[int]) -> None:
        """The end of a `lock` of these."""
        count = len(values)
        self._c.em_remat_unlock(self.handle, (ctypes.c_int64 * count)(*values), count)

    def ran(self, cost: int, reads: Sequence[int], results: Sequence[tuple[int, int | None, int]]) -> list[int]:
        """A call ran in `cost` nanoseconds: the numbers of its results.

        Args:
            cost: in nanoseconds.
            reads: values, each once, which are locked.
            results: of each the value whose memory and storage it takes, or -1; else its block and its storage.

        Raises:
            RuntimeError: a result does not lie in a block of its own.
        """
        count, made = len(reads), len(results)
        out = (_Result * made)(*(_Result(_NOBODY, takes, block, storage) for takes, block, storage in results))
        if self._c.em_remat_ran(self.handle, cost, (ctypes.c_int64 * count)(*reads), count, out, made) != _OK:
            raise RuntimeError(library().error())
        return [result.value for result in out]

    def touch(self, cost: int, reads: Sequence[int]) -> None:
        """A call ran in `cost` nanoseconds, and made nothing that can be evicted."""
        count = len(reads)
        self._c.em_remat_ran(self.handle, cost, (ctypes.c_int64 * count)(*reads), count, None, 0)

    def make_constant(self, value: int) -> int:
        """A new constant has the memory and the storage of a locked value now: its number."""
        return self._checked(self._c.em_remat_make_constant(self.handle, value))

    def remade(self, value: int, block: int | None, storage: int) -> None:
        """An evicted value lies in a block of its own now."""
        self._checked(self._c.em_remat_remade(self.handle, value, block, storage))

    def take_over(self, old: int, new: int, storage: int) -> None:
        """An evicted value was written where an older version lay, which is evicted by that."""
        self._checked(self._c.em_remat_take_over(self.handle, old, new, storage))

    def repeated(self, value: int, cost: int) -> None:
        """The call that made this value ran again, in `cost` nanoseconds."""
        self._c.em_remat_repeated(self.handle, value, cost)

    def lend(self, value: int, storage: int) -> int:
        """A value that lies in memory without a storage gets this one: where it lies."""
        block: int | None = self._c.em_remat_lend(self.handle, value, storage)
        if not block:
            raise RuntimeError(library().error())
        return block

    def pin(self, value: int) -> None:
        """Never evict this value, which is in memory."""
        self._c.em_remat_pin(self.handle, value)

    def spare(self, value: int) -> None:
        """Evict this value only where nothing else makes room, until it is locked."""
        self._c.em_remat_spare(self.handle, value)

    def fix(self, value: int) -> None:
        """Do not move this value: others know where it lies."""
        self._c.em_remat_fix(self.handle, value)

    def clear(self) -> None:
        """Evict all that can be evicted, and move the rest together, also locked values: no operator may be running."""
        self._c.em_remat_clear(self.handle)

    def is_resident(self, value: int) -> bool:
        """Whether the value is in memory."""
        return bool(self._c.em_remat_is_resident(self.handle, value))

    def dependents(self, value: int) -> list[int]:
        """The held values that are made from this one by calls that may have to run again, oldest first."""
        count = self._c.em_remat_dependents(self.handle, value, ctypes.byref(self._list))
        return [self._list[k] for k in range(count)]

    def take_forgotten(self) -> list[int]:
        """Values that nobody needs any more. Their numbers are used again after the next call of it."""
        count = self._c.em_remat_take_forgotten(self.handle, ctypes.byref(self._list))
        return [self._list[k] for k in range(count)]

    def _checked(self, result: int) -> int:
        if result < 0:
            raise RuntimeError(library().error())
        return result


def _functions() -> ctypes.PyDLL:
    """The functions, which keep Python's global lock: they are short, and the allocator never asks for it."""
    c = ctypes.PyDLL(library().path)
    pointer, number, flag = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int32
    for name, result, arguments in (
        ("em_remat_create", pointer, (number, ctypes.c_char_p, pointer, pointer, flag)),
        ("em_remat_destroy", None, (pointer,)),
        ("em_remat_start", flag, (pointer,)),
        ("em_remat_lift", None, (pointer,)),
        ("em_remat_holds", flag, (pointer, pointer)),
        ("em_remat_constant", number, (pointer, pointer, pointer)),
        ("em_remat_lock", number, (pointer, pointer, number, flag)),
        ("em_remat_unlock", None, (pointer, pointer, number)),
        ("em_remat_ran", flag, (pointer, number, pointer, number, pointer, number)),
        ("em_remat_make_constant", number, (pointer, number)),
        ("em_remat_remade", flag, (pointer, number, pointer, pointer)),
        ("em_remat_take_over", flag, (pointer, number, number, pointer)),
        ("em_remat_repeated", None, (pointer, number, number)),
        ("em_remat_lend", pointer, (pointer, number, pointer)),
        ("em_remat_pin", None, (pointer, number)),
        ("em_remat_spare", None, (pointer, number)),
        ("em_remat_fix", None, (pointer, number)),
        ("em_remat_clear", None, (pointer,)),
        ("em_remat_is_resident", flag, (pointer, number)),
        ("em_remat_dependents", number, (pointer, number, pointer)),
        ("em_remat_take_forgotten", number, (pointer, pointer)),
        ("em_remat_stats_get", None, (pointer, pointer)),
    ):
        function = getattr(c, name)
        function.restype, function.argtypes = result, list(arguments)
    return c
