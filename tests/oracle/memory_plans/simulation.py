"""Runs the events of a program in memory, with every tensor where a plan has it.

Memory is a row of cells. The places of a plan begin and end at certain bytes; what lies between two such bytes next to
each other is one cell, as no tensor has a part of it only. A tensor's value is a number that it has in all its cells:
whoever writes on any of its bytes is seen, and a large tensor costs no more than a small one.

    places   a [0         64)             b [64   96)
             c [0   32)
    cells      0       1                  2                    a: 0 to 2, b: 2 to 3, c: 0 to 1
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tests.oracle.memory_plans.timeline import CARRY, COPY, OP, SEE, SET

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tests.oracle.memory_plans.timeline import Event, Timeline

__all__ = ["Difference", "Span", "Stage"]

Span = tuple[int, int]  # begin and end

_GARBAGE = -0x5EED


@dataclass(frozen=True, slots=True)
class Difference:
    """The first thing seen that is not as in memory of its own."""

    tensor: str
    why: str
    scenario: int


class Stage:
    """A timeline, and what is seen of it when every tensor has a cell of its own."""

    def __init__(self, timeline: Timeline) -> None:
        self.timeline = timeline
        count = len(timeline.names)
        self.alone = [(i, i + 1) for i in range(count)]
        self.start = [timeline.token(i) if i in timeline.constants else _GARBAGE for i in range(count)]
        self.expected: list[list[int]] = []
        for events in timeline.scenarios:
            seen: list[int] = []
            _run(events, self.alone, list(self.start), seen, None)
            self.expected.append(seen)

    def difference(self, placed: Mapping[int, Span]) -> Difference | None:
        """What a plan makes different; None if all that is seen is right.

        Args:
            placed: tensor id -> bytes (or texels) in the plan's memory, all regions or objects one after the other.
                None is empty.
        """
        timeline = self.timeline
        cell = {at: k for k, at in enumerate(sorted({at for span in placed.values() for at in span}), len(self.start))}
        spans = list(self.alone)
        for i, (begin, end) in placed.items():
            spans[i] = (cell[begin], cell[end])
        start = self.start + [_GARBAGE] * len(cell)
        for i in timeline.constants.intersection(placed):
            begin, end = spans[i]
            start[begin:end] = [timeline.token(i)] * (end - begin)
        for number, events in enumerate(timeline.scenarios):
            at = _run(events, spans, list(start), [], self.expected[number])
            if at is not None:
                return Difference(timeline.names[at[1]], at[2], number)
        return None


def _read(memory: list[int], span: Span) -> int:
    """The value in some cells; another one where they do not agree."""
    begin, end = span
    first = memory[begin]
    if end - begin > 1:
        here = memory[begin:end]
        if here.count(first) != len(here):
            return hash((_GARBAGE, *here))
    return first


def _write(memory: list[int], span: Span, value: int) -> None:
    begin, end = span
    memory[begin:end] = [value] * (end - begin)


def _run(
    events: Sequence[Event], spans: Sequence[Span], memory: list[int], seen: list[int], expected: list[int] | None
) -> Any:
    """Append what is seen; with `expected`, end at the first event that sees something else and return it."""
    count = 0
    event: Any
    for event in events:
        code = event[0]
        if code == OP:
            _operate(event, spans, memory)
        elif code == COPY:
            source, to = spans[event[1]], spans[event[2]]
            if source[0] != to[0]:
                # memcpy between ranges that meet is undefined.
                apart = source[1] <= to[0] or to[1] <= source[0]
                _write(memory, to, _read(memory, source) if apart else _GARBAGE)
        elif code == SET:
            _write(memory, spans[event[1]], event[2])
        elif code == SEE:
            here = _read(memory, spans[event[1]])
            if expected is None:
                seen.append(here)
            elif expected[count] != here:
                return event
            count += 1
        elif code == CARRY and expected is None:
            _write(memory, spans[event[2]], _read(memory, spans[event[1]]))
    return None


def _operate(event: Any, spans: Sequence[Span], memory: list[int]) -> None:
    """An operator: what it writes and its workspace is lost before it reads anything, unless it may work in place."""
    _, salt, reads, writes, allowed, scratch = event
    for i in writes:
        span = spans[i]
        for j in allowed.get(i, ()):
            if spans[j] == span:
                break
        else:
            _write(memory, span, _GARBAGE)
    for i in scratch:
        _write(memory, spans[i], _GARBAGE)
    value = hash((salt, *[_read(memory, spans[i]) for i in reads]))
    made = [(spans[i], hash((value, k))) for k, i in enumerate((*writes, *scratch))]
    for span, content in made:
        _write(memory, span, content)
    # A kernel writes its results and its workspace in any order, and uses the workspace until it ends.
    if len(made) > 1 and any(_read(memory, span) != content for span, content in made):
        for span, _ in made:
            _write(memory, span, _GARBAGE)
