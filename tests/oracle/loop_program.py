"""All that a loop does for a program of several threads, streams and plans, as kernels/replay/edgemem_arena.h says it.

A literal model: bytes in use are bytes of a string, slots are searched from the beginning, and what is alive is a list.
It gives neither addresses in the fallback, whose owner is free to choose them, nor times.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from edgemem.trace.slots import Slots

__all__ = ["Block", "ModelArena", "ProgramModel"]

_WINDOW = 64
_MISSED = ("misses", "occupied", "dynamic_misses")


@dataclass(eq=False)
class ModelArena:
    """The bytes of an arena, 1 where a block lies, and the stream whose work may go on in it."""

    size: int
    used: bytearray = field(init=False)
    stream: int | None = None

    def __post_init__(self) -> None:
        self.used = bytearray(self.size)

    @property
    def is_empty(self) -> bool:
        """Whether no block lies in it."""
        return not any(self.used)


@dataclass(eq=False)
class Block:
    """A block in use, or one that is freed and withheld."""

    size: int
    stream: int
    arena: ModelArena | None  # None: the fallback's
    offset: int
    session: bool  # whether the loop served it, and was not paused
    request: int  # of the record; -1: not noted
    is_shared: bool = False


class ProgramModel:
    """A loop of a device that is started, as the program sees it.

    Attributes:
        total: counts since the start, by the names of `LoopCounts`.
        last: counts of the iteration that ended last.
        events: of the record: size, request, thread, stream, section, iteration.
        withheld: blocks that were freed and that other streams may still use.
    """

    def __init__(self, *, is_host: bool) -> None:
        self.is_host = is_host
        self.total: Counter[str] = Counter()
        self.last: Counter[str] = Counter()
        self.now: Counter[str] = Counter()
        self.events: list[tuple[int, ...]] = []
        self.withheld: list[Block] = []
        self.arena: ModelArena | None = None
        self.is_inside = False
        self._plan: Slots | None = None
        self._next: tuple[Slots, ModelArena] | None = None
        self._pauses = 0
        self._threads: list[int] = []  # by number
        self._streams: list[int] = []
        self._section: dict[int, int] = {}  # of threads, in this iteration
        self._entries: dict[int, object] = {}
        self._cursor: dict[int, int] = {}  # of lanes
        self._moved_for: dict[int, object] = {}
        self._passed: dict[int, int] = {}  # of lanes, the slot that was next when another size came
        self._bytes = {"arena_peak": 0, "fallback_peak": 0}
        self._is_recorded = False
        self._most = self._made = 0
        self._iteration = -1
        self._iterations = 0

    def replay(self, plan: Slots, arena: ModelArena) -> bool:
        """From the next iteration on; False if the arena has blocks and is not the loop's own."""
        own = [self.arena, self._next[1] if self._next else None]
        if not any(arena is one for one in own) and not arena.is_empty:
            return False
        self._next = plan, arena
        return True

    def record(self, most_events: int) -> None:
        """Note so many events from now on."""
        self.events, self._is_recorded, self._most, self._made = [], True, most_events, 0
        self._iteration, self._iterations = -1, 0

    def begin(self, thread: int) -> None:
        """An iteration begins on this thread, which has a number from now on."""
        if self.is_host and thread not in self._threads:
            self._threads.append(thread)
        if self._next is not None:
            (self._plan, self.arena), self._next = self._next, None
        self._section, self._entries, self._cursor, self._moved_for, self._passed = {}, {}, {}, {}, {}
        self.is_inside = True
        self.now = Counter(self._bytes)
        self._iteration = self._iterations
        self._iterations += 1

    def end(self) -> None:
        """The iteration ends."""
        self.is_inside, self._iteration = False, -1
        self.last = self.now + Counter(iterations=1)
        self.total["iterations"] += 1

    def pause(self, by: int) -> bool:
        """Pauses nest; False if there is none to end."""
        if self._pauses + by < 0:
            return False
        self._pauses += by
        return True

    def enter(self, thread: int, section: int) -> None:
        """The thread is in this section until the next iteration begins."""
        self._section[thread] = section
        self._entries[thread] = object()

    def take(self, thread: int, size: int, stream: int) -> Block:
        """A request, which is always served."""
        if self._pauses:
            return Block(size, stream, None, -1, session=False, request=-1)
        if self.is_inside and thread not in self._threads:
            self._threads.append(thread)
        if not self.is_host and stream not in self._streams:
            self._streams.append(stream)
        lane = (
            (self._threads if self.is_host else self._streams).index(stream if not self.is_host else thread)
            if (self.is_inside or not self.is_host)
            else -1
        )
        block = Block(size, stream, None, -1, session=True, request=-1)
        if self.is_inside:
            outcome, offset = self._place(lane, thread, size, stream)
            if offset is not None:
                assert self.arena is not None
                block.arena, block.offset = self.arena, offset
                self.arena.used[offset : offset + size] = b"\1" * size
                self.arena.stream = stream
            self._count(outcome)
            self._count("requests")
            if outcome in _MISSED:
                self._count("missed_bytes", size)
        self._change("arena_peak" if block.arena else "fallback_peak", size)
        if self._is_recorded and self._note(size, self._made, thread, stream):
            block.request = self._made
            self._made += 1
        return block

    def give(self, thread: int, block: Block, *, is_of_record: bool) -> None:
        """A free; `is_of_record` says whether the record that is on has the request."""
        if block.is_shared:
            self.withheld.append(block)
        else:
            self._release(block)
        if block.session:
            self._change("arena_peak" if block.arena else "fallback_peak", -block.size)
            if self._is_recorded and is_of_record:
                self._note(0, block.request, thread, block.stream)

    def share(self, block: Block, stream: int) -> None:
        """The block is in use on this stream, too."""
        block.is_shared |= not self.is_host and stream != block.stream

    def synchronized(self) -> None:
        """The program waited for all streams."""
        for block in self.withheld:
            self._release(block)
        self.withheld.clear()
        arenas = (self.arena, self._next[1] if self._next else None)
        for arena in arenas:
            if arena is not None and arena.is_empty:
                arena.stream = None

    def thread_of(self, thread: int) -> int:
        """The number of a thread, or -1."""
        return self._threads.index(thread) if thread in self._threads else -1

    def _release(self, block: Block) -> None:
        if block.arena is not None:
            block.arena.used[block.offset : block.offset + block.size] = bytes(block.size)

    def _note(self, size: int, request: int, thread: int, stream: int) -> bool:
        if len(self.events) >= self._most:
            self._count("unnoted")
            return False
        number = 0 if self.is_host else self._streams.index(stream)
        section = self._section.get(thread, -1)
        self.events.append((size, request, self.thread_of(thread), number, section, self._iteration))
        return True

    def _count(self, name: str, by: int = 1) -> None:
        self.now[name] += by
        self.total[name] += by

    def _change(self, peak: str, by: int) -> None:
        self._bytes[peak] += by
        self.now[peak] = max(self.now[peak], self._bytes[peak])
        self.total[peak] = max(self.total[peak], self._bytes[peak])

    def _place(self, lane: int, thread: int, size: int, stream: int) -> tuple[str, int | None]:
        """What a request of an iteration counts as, and its place if it has one."""
        plan, arena = self._plan, self.arena
        if plan is None or arena is None:
            return "misses", None
        if not self.is_host and lane != _largest_lane(plan):
            return "other_stream", None
        slot = self._slot(plan, lane, thread, size)
        if slot is None:
            return "misses", None
        offset, other, space = (int(column[slot]) for column in (plan.offset, plan.other, plan.space))
        is_of_stream = self.is_host or arena.stream in {None, stream}
        if space >= 0:
            place = _best_fit(arena.used, plan.spaces[space].tolist(), size, plan.alignment)
            return ("dynamic_hits", place) if is_of_stream and place is not None else ("dynamic_misses", None)
        if offset < 0:
            return "unplanned", None
        for place in (offset, other):
            if place >= 0 and is_of_stream and not any(arena.used[place : place + size]):
                return "hits", place
        return "occupied", None

    def _slot(self, plan: Slots, lane: int, thread: int, size: int) -> int | None:
        """The index of the slot in the plan."""
        mine = [k for k in range(len(plan)) if plan.lane[k] == lane]
        section = self._section.get(thread, -1)
        sections = [int(plan.section[k]) for k in mine]
        sizes = [int(plan.bytes[k]) for k in mine]
        is_dynamic = [int(plan.space[k]) >= 0 for k in mine]
        at = self._cursor.get(lane, 0)
        entry = self._entries.get(thread)
        if entry is not self._moved_for.get(lane):
            self._moved_for[lane] = entry
            if sections[at : at + 1] != [section]:
                begins = [
                    k
                    for k, s in enumerate(sections)
                    if (s == section and sections[max(k - 1, 0)] != s) or (k == 0 and s == section)
                ]
                if begins:
                    at = next((k for k in begins if k >= at), begins[0])
                    self._passed.pop(lane, None)
        self._cursor[lane] = at
        is_here = at < len(mine) and sections[at] == section
        if is_here and (is_dynamic[at] or sizes[at] == size):
            self._cursor[lane] = at + 1
            return mine[at]
        passed = self._passed.get(lane)
        if passed is not None and (sections[passed], sizes[passed], is_dynamic[passed]) == (section, size, False):
            del self._passed[lane]
            return mine[passed]
        if not is_here:
            is_last = 0 < at <= len(mine) and is_dynamic[at - 1] and sections[at - 1] == section
            return mine[at - 1] if is_last else None
        self._passed[lane] = at
        self._cursor[lane] = at + 1
        for k in range(at + 1, min(at + _WINDOW + 1, len(mine))):
            if sections[k] != section:
                break
            if sizes[k] == size and not is_dynamic[k]:
                self._cursor[lane] = k + 1
                return mine[k]
        return mine[at] if size < sizes[at] else None


def _largest_lane(plan: Slots) -> int:
    bytes_of: Counter[int] = Counter()
    for lane, size in zip(plan.lane.tolist(), plan.bytes.tolist(), strict=True):
        bytes_of[lane] += size
    return min(bytes_of, key=lambda lane: (-bytes_of[lane], lane), default=0)


def _best_fit(used: bytearray, space: list[list[int]], size: int, alignment: int) -> int | None:
    fits = []
    for begin, end in space:
        for gap in re.finditer(rb"\0+", bytes(used[begin:end])):
            place = -(-(begin + gap.start()) // alignment) * alignment
            if place + size <= begin + gap.end():
                fits.append((len(gap.group()), place))
    return min(fits)[1] if fits else None
