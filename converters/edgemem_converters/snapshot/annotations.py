"""Iterations and sections of a program, from the annotations that a snapshot may hold.

With `global_record_annotations=True`, PyTorch notes the begin and the end of each `torch.profiler.record_function`, and
with it the steps of `torch.profiler.profile`, which are called `ProfilerStep#7`: these are iterations, and all others
are sections. `torch.cuda.memory._set_memory_metadata` gives a section to each allocation, too.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from edgemem.errors import ModelError
from edgemem.trace.trace import Section
from edgemem_converters.snapshot.fields import integer, mapping, text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["Annotations"]

_STEP: Final = re.compile(r"ProfilerStep\s*#\s*([0-9]{1,15})")
_MOST_SECTIONS: Final = 100_000
_MOST_OPEN: Final = 1_000
_EVERY_DEVICE: Final = -1


class Annotations:
    """What is open at a time; asked for times in ascending order."""

    def __init__(self, rows: Sequence[object], device: int) -> None:
        entries = [mapping(row, "an annotation") for row in rows]
        mine = [e for e in entries if e.get("device", device) in (device, _EVERY_DEVICE)]
        self._marks = sorted(mine, key=lambda e: integer(e, "time_us"))
        self._next = 0
        self._open: list[str] = []
        self._iteration = -1
        self._last = -1
        self._numbers: dict[str, int] = {}

    @property
    def sections(self) -> tuple[Section, ...]:
        """All sections that were asked for, by number."""
        return tuple(map(Section, self._numbers))

    def at(self, time_us: int, entry: Mapping[str | int, Any]) -> tuple[int, int]:
        """Section and iteration of an event; -1 for none."""
        while self._next < len(self._marks) and integer(self._marks[self._next], "time_us") <= time_us:
            self._pass(self._marks[self._next])
            self._next += 1
        name = text(entry, "user_metadata") or (self._open[-1] if self._open else "")
        if not name:
            return -1, self._iteration
        section = self._numbers.setdefault(name, len(self._numbers))
        if section >= _MOST_SECTIONS:
            raise ModelError(
                f"the snapshot has more than {_MOST_SECTIONS:,} sections; annotate modules, not single calls"
            )
        return section, self._iteration

    def _pass(self, mark: Mapping[str | int, Any]) -> None:
        name, begins = text(mark, "name"), text(mark, "stage") == "START"
        if step := _STEP.fullmatch(name):
            # A number may come again after a restart of the profiler; iterations of a trace ascend.
            number = int(step.group(1))
            self._iteration = number if begins and number > self._last else -1
            self._last = max(self._last, number)
        elif begins:
            self._open.append(name)
            if len(self._open) > _MOST_OPEN:
                raise ModelError(f"more than {_MOST_OPEN:,} annotations are open at once")
        elif name in self._open:
            # Ends close what was opened last by that name; threads may overlap.
            del self._open[len(self._open) - 1 - self._open[::-1].index(name)]
