"""Arenas: memory that one run at a time uses, of one session or shared by several."""

from __future__ import annotations

import ctypes
import threading
from typing import TYPE_CHECKING

import numpy as np

from edgemem.errors import RuntimeBindError
from edgemem.replay.forks import in_children
from edgemem.replay.library import Handle, find_library, library

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from numpy.typing import NDArray

__all__ = ["Arena", "ArenaMemory"]

_ALIGNMENT = 64
_GUARD_PAGE = 1
_PARTS = 2


class ArenaMemory(Handle):
    """An arena of `size` bytes for one run at a time. It stays allocated while a block in it is in use."""

    def __init__(self, size: int, *, guard: bool = False, has_parts: bool = False) -> None:
        c = library().c
        flags = _GUARD_PAGE * guard + _PARTS * has_parts
        self.adopt(c.em_arena_create(size, flags), c.em_arena_release, size)

    def part(self, offset: int, size: int) -> ArenaMemory:
        """Some bytes of one that was made with `has_parts`, for runs of their own; it keeps this one.

        Raises MemoryError if another part, or a block of it, has some of them.
        """
        c = library().short
        made = ArenaMemory.__new__(ArenaMemory)
        made.adopt(c.em_arena_part(self.pointer, offset, size), c.em_arena_release, size)
        return made

    def adopt(self, pointer: int | None, release: Callable[[int], object], size: int) -> None:
        """Own a C arena of `size` bytes. Raises MemoryError if there is none."""
        super().__init__(pointer, release, "no arena")
        self.size = size

    def as_bytes(self) -> NDArray[np.uint8]:
        """Host memory as an array; the memory is not released while the array exists."""
        base = library().c.em_arena_base(self.pointer)
        view = (ctypes.c_ubyte * self.size).from_address(base)
        view._owner = self  # type: ignore[attr-defined]  # noqa: SLF001 - the array refers to the view
        return np.ctypeslib.as_array(view)

    def give_pages(self) -> None:
        """Give its pages to the system, and its contents up, unless a run or a block is in it."""
        library().c.em_arena_give_pages(self.pointer)

    @property
    def left(self) -> int:
        """Blocks in use."""
        return int(library().short.em_arena_left(self.pointer))


class Arena:
    """One arena for several sessions, which take turns: a run waits until the one before has ended.

    It grows to the largest plan that uses it.

    Args:
        capacity: its size in bytes from the beginning, which never grows; without it, the arena starts empty and grows.
        guard: place a page behind it that cannot be read or written.

    Attributes:
        lock: held during a run. Threads that share the arena hold it (`with arena.lock:`) while they set inputs,
            run and read outputs.
        holder: the user that ran last; the contents that other users left are lost. None after the arena has grown.
    """

    def __init__(self, capacity: int | None = None, *, guard: bool = False) -> None:
        self.lock = threading.RLock()
        self.holder: object = None
        self._guard = guard
        self._capacity = capacity
        self._memory: ArenaMemory | None = None
        self._bytes = np.empty(0, np.uint8)
        self._closed = False
        in_children(self, Arena._start_again)
        if capacity:
            self.reserve(capacity)

    @property
    def size(self) -> int:
        """Bytes it has now."""
        return self._memory.size if self._memory is not None else len(self._bytes)

    @property
    def memory(self) -> NDArray[np.uint8]:
        """Its bytes. Growing replaces them; old views stay valid, but nothing runs in them any more."""
        return self._bytes

    @property
    def address(self) -> int:
        """The address of its first byte, a multiple of 64."""
        return int(self._bytes.ctypes.data)

    def reserve(self, size: int) -> None:
        """Grow to at least `size` bytes; the contents are lost. Memory with a result that is still held is not reused.

        Raises RuntimeBindError if it is closed or may not grow so far, MemoryError if there is no memory.
        """
        self._check_open()
        held = self._memory is not None and self._memory.left
        if size <= self.size and not held:
            return
        size = max(size, self.size)
        self._check_capacity(size)
        if find_library() is not None:
            self._use(ArenaMemory(size, guard=self._guard))
        elif self._guard:
            library()  # says what is missing
        else:
            raw = np.zeros(size + _ALIGNMENT, np.uint8)
            start = -raw.ctypes.data % _ALIGNMENT
            self._bytes = raw[start : start + size]
            self.holder = None

    def take(self, size: int) -> ArenaMemory:
        """At least `size` bytes for this thread, which holds the lock, as long as it holds it.

        Raises as `reserve`, and RuntimeBindError without the compiled allocator.
        """
        self._check_open()
        memory = self._memory
        if memory is None or memory.size < size or memory.left:
            self._check_capacity(size)
            # Made first: the old one stays if there is no memory.
            memory = ArenaMemory(max(size, self.size), guard=self._guard)
            self._use(memory)
        self.holder = memory
        return memory

    def close(self) -> None:
        """Release the memory; sessions that use it can run no more. Waits for a run to end."""
        with self.lock:
            self._closed = True
            self._memory = self.holder = None
            self._bytes = np.empty(0, np.uint8)

    def _start_again(self) -> None:
        """After a fork, in the child: a thread that is not there may hold the lock, in a run that never ends."""
        if not self.lock.acquire(blocking=False):
            size = self.size
            self.lock = threading.RLock()
            self._memory = self.holder = None
            self._bytes = np.empty(0, np.uint8)
            if not self._closed:
                self.reserve(size)
        else:
            self.lock.release()

    def _use(self, memory: ArenaMemory) -> None:
        """Take this memory instead of the old one, which lives on while an array or a block is in it."""
        self._memory, self._bytes, self.holder = memory, memory.as_bytes(), None

    def _check_open(self) -> None:
        if self._closed:
            raise RuntimeBindError("the arena is closed; make another one")

    def _check_capacity(self, size: int) -> None:
        if self._capacity is not None and size > self._capacity:
            raise RuntimeBindError(
                f"the model needs an arena of {size:,} bytes, the one it was given has {self._capacity:,}; give it a "
                "larger one"
            )

    def __enter__(self) -> Arena:  # noqa: PYI034 - subclassing is not meant
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
