"""The compiled replay allocator (kernels/arena and kernels/replay), through its C ABI: no compiler is needed to use it.

The package works without it: `library()` says what is missing, and only what needs it fails.
"""

from __future__ import annotations

import ctypes
import os.path
import weakref
from functools import cache
from importlib.util import find_spec
from struct import Struct
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias, TypeVar

from edgemem.errors import RuntimeBindError

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["DEVICE", "HOST", "Handle", "Library", "Stats", "Totals", "find_library", "library"]

HOST, DEVICE = 0, 1  # kinds of memory
_ABI: Final = 2
_T = TypeVar("_T")

_Pointer: TypeAlias = int


class Stats(NamedTuple):
    """One run, as kernels/replay/edgemem_arena.h has it: counts, and bytes for `peak`, `heap_peak` and `arena_top`.

    `bail` is the number of events before the first request that did not fit into the plan, or -1.
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

    @classmethod
    def from_raw(cls, raw: bytes) -> Stats:
        """From the bytes of the C structure."""
        return cls(*STATS.unpack(raw))


class Totals(NamedTuple):
    """What the allocator holds in this process: counts, and bytes."""

    contexts: int
    arenas: int
    arena_bytes: int
    heap_live: int
    heap_peak: int
    reserve_live: int
    outside: int


# The C structures are int64 fields in the same order.
STATS: Final = Struct(f"{len(Stats._fields)}q")
_SHORT: Final = (
    "em_active",
    "em_arena_left",
    "em_arena_part",
    "em_arena_release",
    "em_begin_replay",
    "em_budget_here",
    "em_budget_held",
    "em_budget_refused",
    "em_end",
    "em_loop_enter",
)
_TOTALS: Final = Struct(f"{len(Totals._fields)}q")


class Library:
    """The loaded allocator. There is one in a process, because runtimes keep a pointer to it."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.c = ctypes.CDLL(path)
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
            ("em_arena_part", pointer, (pointer, number, number)),
            ("em_arena_wrap", pointer, (pointer, number, flags)),
            ("em_arena_release", None, (pointer,)),
            ("em_arena_base", pointer, (pointer,)),
            ("em_arena_left", number, (pointer,)),
            ("em_arena_give_pages", flags, (pointer,)),
            ("em_budget_create", pointer, (number,)),
            ("em_budget_release", None, (pointer,)),
            ("em_budget_enter", pointer, (pointer,)),  # called by compiled code alone: `MemoryCap.call`
            ("em_budget_here", pointer, ()),
            ("em_budget_held", number, (pointer,)),
            ("em_budget_refused", number, ()),
            ("em_plan_create", pointer, (pointer, number, pointer, number, number, number)),
            ("em_plan_release", None, (pointer,)),
            ("em_context_create", pointer, (flags,)),
            ("em_context_abandon", None, (pointer,)),
            ("em_begin_record", flags, (pointer, number)),
            ("em_begin_replay", flags, (pointer, pointer, pointer, flags)),
            ("em_end", flags, (pointer, pointer)),
            ("em_events", number, (pointer, pointer)),
            ("em_events_drop", None, (pointer,)),
            ("em_recent_peak", number, (pointer,)),
            ("em_active", pointer, (flags,)),
            ("em_trim", number, ()),
            ("em_loading", None, (flags,)),
            ("em_ort_version", ctypes.c_char_p, ()),
            ("em_ort_error", ctypes.c_char_p, ()),
            ("em_cuda_source", None, (pointer, pointer)),
            ("em_loop_create", pointer, (flags,)),
            ("em_loop_destroy", None, (pointer,)),
            ("em_loop_start", flags, (pointer,)),
            ("em_loop_stop", None, (pointer,)),
            ("em_loop_record", flags, (pointer, number)),
            ("em_loop_events", number, (pointer, pointer)),
            ("em_loop_events_drop", None, (pointer,)),
            ("em_loop_replay", flags, (pointer, pointer, pointer, flags)),
            ("em_loop_begin", flags, (pointer,)),
            ("em_loop_end", flags, (pointer,)),
            ("em_loop_pause", flags, (pointer,)),
            ("em_loop_resume", flags, (pointer,)),
            ("em_loop_enter", None, (pointer, number)),
            ("em_loop_synchronized", None, (pointer,)),
            ("em_loop_stats_get", None, (pointer, pointer, pointer)),
            ("em_sha256_create", pointer, ()),
            ("em_sha256_release", None, (pointer,)),
            ("em_sha256_update", None, (pointer, pointer, number)),
            ("em_sha256_finish", None, (pointer, pointer)),
            ("em_torch_malloc", pointer, (ctypes.c_ssize_t, ctypes.c_int, pointer)),
            ("em_torch_free", None, (pointer, ctypes.c_ssize_t, ctypes.c_int, pointer)),
            ("em_torch_record_stream", None, (pointer, pointer)),
            ("em_torch_empty_cache", number, (ctypes.c_int,)),
            ("em_torch_memory_get", None, (ctypes.c_int, pointer)),
        ):
            function = getattr(self.c, name)
            function.restype, function.argtypes = result, list(arguments)
        # Frequent calls that are shorter than giving Python's global lock to other threads and waiting for it again.
        self.short = ctypes.PyDLL(path)
        for name in _SHORT:
            function, same = getattr(self.short, name), getattr(self.c, name)
            function.restype, function.argtypes = same.restype, same.argtypes

    def error(self) -> str:
        """Why the last call on this thread was refused."""
        return bytes(self.c.em_last_error()).decode(errors="replace")

    def loaded(self, load: Callable[[], _T]) -> _T:
        """What `load` loads; weights in another form meanwhile take the memory of those that they replace."""
        try:
            self.c.em_loading(1)
            return load()
        finally:
            self.c.em_loading(0)

    def trim(self) -> int:
        """Give the free memory outside the arenas back to the system; the bytes that edgemem's pool gave back."""
        return int(self.c.em_trim())

    def totals(self) -> Totals:
        """What it holds now."""
        out = ctypes.create_string_buffer(_TOTALS.size)
        self.c.em_totals_get(out)
        return Totals(*_TOTALS.unpack(out))

    def address(self, name: str) -> int:
        """Of one of its functions."""
        return int(ctypes.cast(getattr(self.c, name), ctypes.c_void_p).value or 0)


def find_library() -> str | None:
    """Where the compiled allocator is, or None: beside the compiled kernels, which an editable install keeps apart."""
    files = [os.path.dirname(__file__)]  # noqa: PTH120 - as in runtime/onnxruntime/file.py
    kernels = find_spec("edgemem._kernels")
    if kernels is not None and kernels.origin:
        files.insert(0, kernels.origin)
    paths = [os.path.join(os.path.dirname(file), "_arena.so") for file in files]  # noqa: PTH118, PTH120
    return next(filter(os.path.isfile, paths), None)


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


class Handle:
    """Owns a C object: released once, by `close` or with the last reference."""

    def __init__(self, pointer: int | None, release: Callable[[int], object], lacks: str) -> None:
        if not pointer:
            raise MemoryError(f"{lacks}: {library().error()}")
        self.pointer: _Pointer = pointer
        self._finalizer = weakref.finalize(self, release, pointer)
        self._finalizer.atexit = False  # a runtime may still free blocks then

    def close(self) -> None:
        """Release it; again does nothing. C refuses what is asked of a closed one."""
        self.pointer = 0
        self._finalizer()
