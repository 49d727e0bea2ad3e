"""The compiled replay allocator (kernels/arena and kernels/replay), through its C ABI: no compiler is needed to use it.

The package works without it: `library()` says what is missing, and only what needs it fails.
"""

from __future__ import annotations

import ctypes
import threading
import weakref
from dataclasses import dataclass, fields
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from struct import Struct
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from edgemem.errors import InvalidPlanError, RuntimeBindError
from edgemem.trace import Trace

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from numpy.typing import NDArray

__all__ = [
    "DEVICE",
    "HOST",
    "Arena",
    "ArenaMemory",
    "Context",
    "Library",
    "ReplayPlan",
    "Stats",
    "Totals",
    "find_library",
    "library",
]

HOST, DEVICE = 0, 1  # kinds of memory
_ABI: Final = 1
_OK, _BUSY = 0, -2
_GUARD_PAGE = _POISON = 1
MOST_EVENTS: Final = 1 << 20

_Pointer: TypeAlias = int


@dataclass(frozen=True, slots=True)
class Stats:
    """One run, as kernels/replay/edgemem_arena.h has it: counts, and bytes for `peak`, `heap_peak` and `arena_top`.

    `bail` is the first event that was not as planned, or -1.
    """

    requests: int
    hits: int
    misses: int
    bail: int
    events: int
    peak: int
    heap_peak: int
    arena_top: int
    left: int
    failed: int


@dataclass(frozen=True, slots=True)
class Totals:
    """What the allocator holds in this process: counts, and bytes."""

    contexts: int
    arenas: int
    arena_bytes: int
    heap_live: int
    heap_peak: int
    reserve_live: int
    outside: int


# The C structures are int64 fields in the same order.
_STATS: Final = Struct(f"{len(fields(Stats))}q")
_TOTALS: Final = Struct(f"{len(fields(Totals))}q")
_EVENT = np.dtype([("size", np.int64), ("request", np.int64), ("time_ns", np.int64), ("thread", np.int64)])


class Library:
    """The loaded allocator. There is one in a process, because runtimes keep a pointer to it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.c = ctypes.CDLL(str(path))
        self.c.em_abi.restype = ctypes.c_int32
        found = self.c.em_abi()
        if found != _ABI:
            raise OSError(f"{path} has ABI {found}, this edgemem needs {_ABI}")
        pointer, number, flags = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int32
        for name, result, arguments in (
            ("em_last_error", ctypes.c_char_p, ()),
            ("em_totals_get", None, (pointer,)),
            ("em_fail_after", None, (number,)),
            ("em_arena_create", pointer, (number, flags)),
            ("em_arena_wrap", pointer, (pointer, number, flags)),
            ("em_arena_release", None, (pointer,)),
            ("em_arena_base", pointer, (pointer,)),
            ("em_arena_left", number, (pointer,)),
            ("em_plan_create", pointer, (pointer, number, pointer, number, number, number)),
            ("em_plan_release", None, (pointer,)),
            ("em_context_create", pointer, (flags,)),
            ("em_context_destroy", flags, (pointer,)),
            ("em_begin_record", flags, (pointer, number)),
            ("em_begin_replay", flags, (pointer, pointer, pointer, flags)),
            ("em_end", flags, (pointer, pointer)),
            ("em_events", number, (pointer, pointer)),
            ("em_ort_version", ctypes.c_char_p, ()),
            ("em_ort_error", ctypes.c_char_p, ()),
            ("em_cuda_source", None, (pointer, pointer)),
        ):
            function = getattr(self.c, name)
            function.restype, function.argtypes = result, list(arguments)

    def error(self) -> str:
        """Why the last call on this thread was refused."""
        return bytes(self.c.em_last_error()).decode(errors="replace")

    def totals(self) -> Totals:
        """What it holds now."""
        out = ctypes.create_string_buffer(_TOTALS.size)
        self.c.em_totals_get(out)
        return Totals(*_TOTALS.unpack(out))

    def address(self, name: str) -> int:
        """Of one of its functions."""
        return int(ctypes.cast(getattr(self.c, name), ctypes.c_void_p).value or 0)


def find_library() -> Path | None:
    """Where the compiled allocator is, or None: beside the compiled kernels, which an editable install keeps apart."""
    folders = [Path(__file__).parents[1]]
    kernels = find_spec("edgemem._kernels")
    if kernels is not None and kernels.origin:
        folders.insert(0, Path(kernels.origin).parent)
    return next((folder / "_arena.so" for folder in folders if (folder / "_arena.so").is_file()), None)


@cache
def library() -> Library:
    """The allocator. Raises RuntimeBindError, which says what is wrong, if it is missing or cannot be loaded."""
    path = find_library()
    if path is None:
        raise RuntimeBindError(
            "edgemem was installed without its compiled allocator (_arena.so); install a wheel for your platform, "
            "build from source with CMake and a C++20 compiler, or run models node by node (--executor io-binding)"
        )
    try:
        return Library(path)
    except (OSError, AttributeError) as e:
        raise RuntimeBindError(f"the compiled allocator cannot be loaded: {e}; reinstall edgemem-planner") from None


class _Handle:
    """Owns a C object: released once, by `close` or with the last reference."""

    def __init__(self, pointer: int | None, release: Callable[[int], object], lacks: str) -> None:
        if not pointer:
            raise MemoryError(f"{lacks}: {library().error()}")
        self.pointer: _Pointer = pointer
        self._finalizer = weakref.finalize(self, release, pointer)
        self._finalizer.atexit = False  # a runtime may still free blocks then

    def close(self) -> None:
        """Release it; again does nothing."""
        self._finalizer()


class ArenaMemory(_Handle):
    """`size` bytes that runs take turns in. Released memory lives on while a block in it is in use."""

    def __init__(self, size: int, *, guard: bool = False) -> None:
        c = library().c
        self.adopt(c.em_arena_create(size, _GUARD_PAGE if guard else 0), c.em_arena_release, size)

    def adopt(self, pointer: int | None, release: Callable[[int], object], size: int) -> None:
        """Own a C arena of `size` bytes. Raises MemoryError if there is none."""
        super().__init__(pointer, release, "no arena")
        self.size = size

    @property
    def left(self) -> int:
        """Blocks in use."""
        return int(library().c.em_arena_left(self.pointer))


class ReplayPlan(_Handle):
    """Expected events and their places, proved by the library before it takes them.

    Args:
        stream: signed events as `Trace.stream`.
        offsets: bytes for each request, or -1 for the heap.
        size: of the arena in bytes.
        alignment: of the offsets, up to 64.

    Raises:
        InvalidPlanError: two requests would overlap, or an event makes no sense.
    """

    def __init__(
        self, stream: NDArray[np.int64], offsets: NDArray[np.int64], size: int, *, alignment: int = 64
    ) -> None:
        c = library().c
        events = np.ascontiguousarray(stream, np.int64)
        places = np.ascontiguousarray(offsets, np.int64)
        pointer = c.em_plan_create(events.ctypes.data, len(events), places.ctypes.data, len(places), size, alignment)
        if not pointer:
            raise InvalidPlanError(f"the allocator refuses the plan: {library().error()}; plan again")
        super().__init__(pointer, c.em_plan_release, "no plan")
        self.size = size
        self.events = len(events)


class Context(_Handle):
    """Where a thread's run is recorded or replayed, in HOST or DEVICE memory; one run at a time."""

    def __init__(self, kind: int = HOST) -> None:
        self._c = library().c
        super().__init__(self._c.em_context_create(kind), self._c.em_context_destroy, "no context")

    def begin_record(self) -> bool:
        """Note every request of this thread until `end`. False if the thread has an active run already."""
        return int(self._c.em_begin_record(self.pointer, MOST_EVENTS)) == _OK

    def begin_replay(self, plan: ReplayPlan, arena: ArenaMemory, *, poison: bool = False) -> bool:
        """Serve this thread's requests by the plan until `end`. False if the arena or the thread is in use."""
        status = self._c.em_begin_replay(self.pointer, plan.pointer, arena.pointer, _POISON if poison else 0)
        if status not in (_OK, _BUSY):
            raise RuntimeBindError(f"the allocator refuses to replay: {library().error()}")
        return int(status) == _OK

    def end(self) -> Stats:
        """Give up the thread; what happened since it began."""
        out = ctypes.create_string_buffer(_STATS.size)
        if self._c.em_end(self.pointer, out) != _OK:
            raise RuntimeBindError(f"the run cannot be ended: {library().error()}")
        return Stats(*_STATS.unpack(out))

    def trace(self) -> Trace:
        """What was recorded last."""
        start = ctypes.c_void_p()
        count = self._c.em_events(self.pointer, ctypes.byref(start))
        raw = ctypes.string_at(start.value, count * _EVENT.itemsize) if count and start.value else b""
        events = np.frombuffer(raw, _EVENT)
        return Trace.from_columns(*(events[name] for name in ("size", "request", "time_ns", "thread")))


class Arena:
    """One arena for several sessions, which take turns: a run waits until the one before has ended.

    It grows to the largest plan that uses it. `guard` puts a page behind it that nothing can touch.
    """

    def __init__(self, *, guard: bool = False) -> None:
        self._guard = guard
        self._lock = threading.RLock()
        self._memory: ArenaMemory | None = None
        self._closed = False

    @property
    def size(self) -> int:
        """Bytes it has now."""
        memory = self._memory
        return memory.size if memory is not None else 0

    def acquire(self, size: int) -> ArenaMemory:
        """At least `size` bytes for this thread alone, until `release`."""
        self._lock.acquire()
        try:
            self._check_open()
            memory = self._memory
            if memory is None or memory.size < size or memory.left:
                # Made first: the old one stays if there is no memory.
                memory = ArenaMemory(max(size, self.size), guard=self._guard)
                if self._memory is not None:
                    self._memory.close()
                self._memory = memory
        except BaseException:
            self._lock.release()
            raise
        return memory

    def _check_open(self) -> None:
        if self._closed:
            raise RuntimeBindError("the arena is closed; make another one")

    def release(self) -> None:
        """Let the next one in."""
        self._lock.release()

    def close(self) -> None:
        """Release the memory; sessions that use it can run no more. Waits for a run to end."""
        with self._lock:
            self._closed = True
            if self._memory is not None:
                self._memory.close()
                self._memory = None

    def __enter__(self) -> Arena:  # noqa: PYI034 - subclassing is not meant
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
