"""Writes down requests and frees as a recorder inside an allocator would."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from edgemem.trace.trace import Section, Trace

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["COMPUTE", "FORWARD_THREAD", "GATHER", "TRANSFER", "Recorder"]

FORWARD_THREAD, BACKWARD_THREAD = 0, 1  # autograd runs backward passes on a thread of its own
COMPUTE, GATHER, TRANSFER = range(3)  # streams


@dataclass(slots=True)
class Recorder:
    """Events so far, and where the program is."""

    size: list[int] = field(default_factory=list)
    request: list[int] = field(default_factory=list)
    thread: list[int] = field(default_factory=list)
    stream: list[int] = field(default_factory=list)
    section: list[int] = field(default_factory=list)
    iteration: list[int] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)  # of each request
    streams: list[int] = field(default_factory=list)  # of each request
    sections: dict[Section, int] = field(default_factory=dict)
    thread_now: int = FORWARD_THREAD
    section_now: int = -1
    iteration_now: int = -1

    def take(self, size: int, stream: int = COMPUTE) -> int:
        """A request of `size` bytes; its number."""
        number = len(self.sizes)
        self.sizes.append(size)
        self.streams.append(stream)
        self._note(size, number)
        return number

    def free(self, *requests: int) -> None:
        """Frees them in this order."""
        for request in requests:
            self._note(0, request)

    def temporary(self, *sizes: int) -> None:
        """Requests that are freed at once, the last one first."""
        self.free(*reversed([self.take(size) for size in sizes]))

    @contextmanager
    def within(self, name: str, phase: int, *, is_backward: bool = False, is_dynamic: bool = False) -> Iterator[None]:
        """What is asked for meanwhile belongs to this section."""
        before = self.thread_now, self.section_now
        self.thread_now = BACKWARD_THREAD if is_backward else FORWARD_THREAD
        self.section_now = self.sections.setdefault(Section(name, phase, is_dynamic), len(self.sections))
        yield
        self.thread_now, self.section_now = before

    def trace(self) -> Trace:
        """All events."""
        return Trace.from_columns(
            self.size,
            self.request,
            thread=self.thread,
            stream=self.stream,
            section=self.section,
            iteration=self.iteration,
            sections=tuple(self.sections),
        )

    def _note(self, size: int, request: int) -> None:
        self.size.append(size)
        self.request.append(request)
        self.thread.append(self.thread_now)
        self.stream.append(self.streams[request])
        self.section.append(self.section_now)
        self.iteration.append(self.iteration_now)
