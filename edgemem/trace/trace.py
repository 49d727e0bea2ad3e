"""A recorded stream of requests (Sekiyama et al. 2018, §4.1): allocations and frees in the order in which they came.

An event is its index. A request is alive from its allocation up to its free, half-open in events; as a usage record
that is `first_op` = the allocation and `last_op` = the event before the free. What is not freed within the run, such
as results, is no matter for the plan: it has no place in it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from edgemem.errors import ModelError
from edgemem.records.problem import Problem

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray

__all__ = ["Section", "Trace"]


@dataclass(frozen=True, slots=True)
class Section:
    """A pass of a module, to which the requests that it makes belong.

    Attributes:
        name: such as `layers.3 backward`.
        phase: number of the phase that it is part of, such as that of "forward of microbatch 3"; -1 for none.
        is_dynamic: whether sizes of its requests differ from one iteration to the next (a mixture of experts).
    """

    name: str
    phase: int = -1
    is_dynamic: bool = False


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Trace:
    """The events of a run, or of several iterations, as columns; read-only int64 arrays of one length.

    Attributes:
        size: bytes asked for; 0 for a free.
        request: the request made, counted from 0 in order, or the one freed.
        time_ns: since the run began.
        thread: that asked, as the operating system numbers it, or the recorder; -1 where it is not known.
        stream: of the device that it was asked for, as the recorder numbers it; 0 is the default stream.
        section: index into `sections`, or -1 for none.
        iteration: the iteration of a training loop in which it happened, ascending; -1 is outside of any.
        sections: what `section` refers to.
    """

    size: NDArray[np.int64]
    request: NDArray[np.int64]
    time_ns: NDArray[np.int64]
    thread: NDArray[np.int64]
    stream: NDArray[np.int64]
    section: NDArray[np.int64]
    iteration: NDArray[np.int64]
    sections: tuple[Section, ...] = ()

    @classmethod
    def from_columns(
        cls,
        size: ArrayLike,
        request: ArrayLike,
        time_ns: ArrayLike | None = None,
        thread: ArrayLike | None = None,
        *,
        stream: ArrayLike | None = None,
        section: ArrayLike | None = None,
        iteration: ArrayLike | None = None,
        sections: Sequence[Section] = (),
    ) -> Trace:
        """A trace from its columns; times, threads and streams default to 0, sections and iterations to -1.

        Raises ModelError if requests are not numbered in order, a free does not belong to a living request, a section
        is not one of `sections`, or iterations do not ascend.
        """
        sizes = _column(size)
        zeros, none = (_column(np.full(len(sizes), value, np.int64)) for value in (0, -1))
        trace = cls(
            size=sizes,
            request=_column(request),
            time_ns=zeros if time_ns is None else _column(time_ns),
            thread=zeros if thread is None else _column(thread),
            stream=zeros if stream is None else _column(stream),
            section=none if section is None else _column(section),
            iteration=none if iteration is None else _column(iteration),
            sections=tuple(sections),
        )
        columns = (trace.request, trace.time_ns, trace.thread, trace.stream, trace.section, trace.iteration)
        if any(len(column) != len(sizes) for column in columns):
            raise ModelError("a trace's columns differ in length")
        if not _is_right(trace.size, trace.request):
            _explain(trace.size.tolist(), trace.request.tolist())
        _check_sections(trace.section, len(trace.sections))
        _check_iterations(trace.iteration)
        return trace

    @classmethod
    def from_stream(cls, stream: ArrayLike) -> Trace:
        """A trace from signed events: n > 0 asks for n bytes, -k - 1 frees request k."""
        events = _column(stream)
        asks = events > 0
        return cls.from_columns(np.where(asks, events, 0), np.where(asks, np.cumsum(asks) - 1, -events - 1))

    def __len__(self) -> int:
        return len(self.size)

    def __repr__(self) -> str:
        """The figures instead of the columns."""
        return f"Trace({len(self)} events, {len(self.requests)} requests, peak {self.peak} bytes)"

    def _repr_html_(self) -> str:
        """For notebooks: how many requests, and the most bytes alive at once."""
        from edgemem.notebook.card import html_card  # sessions need none of it

        facts = (
            ("events", f"{len(self):,}"),
            ("requests", f"{len(self.requests):,}"),
            ("peak", f"{self.peak:,} bytes"),
        )
        return html_card("Recorded requests", facts)

    @property
    def events(self) -> NDArray[np.int64]:
        """The events as `from_stream` reads them; int64 [events]."""
        return np.where(self.size > 0, self.size, -self.request - 1)

    @property
    def requests(self) -> NDArray[np.int64]:
        """The event of each request; int64 [requests]."""
        return np.flatnonzero(self.size)

    @property
    def ends(self) -> NDArray[np.int64]:
        """The event that frees each request, or -1; int64 [requests]."""
        ends = np.full(len(self.requests), -1, np.int64)
        frees = np.flatnonzero(self.size == 0)
        ends[self.request[frees]] = frees
        return ends

    @property
    def freed(self) -> NDArray[np.int64]:
        """The requests that are freed within the run, ascending; record i of `problem` is request `freed[i]`."""
        return np.flatnonzero(self.ends >= 0)

    @property
    def peak(self) -> int:
        """The most bytes alive at once, those that are never freed included."""
        sizes = self.size[self.requests]
        change = np.where(self.size > 0, self.size, -sizes[self.request])
        return int(np.cumsum(change).max(initial=0))

    def problem(self, *, alignment: int = 64, names: Sequence[str] | None = None, outlive: bool = False) -> Problem:
        """The usage records of the requests that are freed within the run, one each in order.

        Args:
            alignment: of every offset in bytes.
            names: of all requests; they default to `request 0`, `request 1`, ...
            outlive: also those that are never freed, to the last event of the run.
        """
        ends = np.where(self.ends < 0, len(self), self.ends) if outlive else self.ends
        planned = np.flatnonzero(ends >= 0)
        starts = self.requests[planned]
        return Problem.from_arrays(
            starts,
            ends[planned] - 1,
            self.size[starts],
            names=[names[k] if names else f"request {k}" for k in planned.tolist()],
            alignment=alignment,
        )


def _is_right(size: NDArray[np.int64], request: NDArray[np.int64]) -> bool:
    """Whether requests are numbered in order, and every free belongs to one that is alive."""
    made = np.flatnonzero(size)
    frees = np.flatnonzero(size == 0)
    freed = request[frees]
    return bool(
        size.min(initial=0) >= 0
        and np.array_equal(request[made], np.arange(len(made)))
        and freed.min(initial=0) >= 0
        and freed.max(initial=-1) < len(made)
        and np.bincount(freed).max(initial=0) <= 1  # np.unique imports numpy.ma, 1.5 MiB
        and np.all(made[freed] < frees)
    )


def _explain(sizes: list[int], requests: list[int]) -> None:
    """Raise ModelError for the first event that is wrong."""
    alive: set[int] = set()
    made = 0
    for event, (size, request) in enumerate(zip(sizes, requests, strict=True)):
        if size < 0:
            raise ModelError(f"event {event} of the trace asks for {size} bytes")
        if size:
            if request != made:
                raise ModelError(f"event {event} of the trace makes request {request}; {made} is next")
            alive.add(request)
            made += 1
        elif request in alive:
            alive.remove(request)
        else:
            raise ModelError(f"event {event} of the trace frees request {request}, which is not alive")


def _check_sections(section: NDArray[np.int64], count: int) -> None:
    """Raise ModelError for the first event in a section that there is not."""
    wrong = (section < -1) | (section >= count)
    if wrong.any():
        event = int(wrong.argmax())
        raise ModelError(f"event {event} of the trace is in section {section[event]}; there are {count}")


def _check_iterations(iteration: NDArray[np.int64]) -> None:
    """Raise ModelError for the first event of an iteration that is below -1, or below one before it."""
    inside = np.flatnonzero(iteration != -1)
    numbers = iteration[inside]
    wrong = np.concatenate((numbers[:1] < 0, np.diff(numbers) < 0))
    if wrong.any():
        k = int(wrong.argmax())
        before = f"follows iteration {numbers[k - 1]}" if k else "is the first"
        raise ModelError(f"event {inside[k]} of the trace is in iteration {numbers[k]}, which {before}")


def _column(values: ArrayLike) -> NDArray[np.int64]:
    column = np.array(values, dtype=np.int64, order="C").reshape(-1)
    column.flags.writeable = False
    return column
