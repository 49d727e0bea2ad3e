"""Sections of a training step, and in which of them each thread is."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import numpy as np

from edgemem.trace.trace import Section

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from edgemem.replay.loop import Loop

__all__ = ["SECTIONS", "Sections"]


class Sections:
    """The sections of this process by number, and the loops that are told when a thread enters one.

    Attributes:
        microbatch: forward passes that were begun with gradients in this iteration, of the model that began first.
    """

    def __init__(self) -> None:
        self._numbers: dict[Section, int] = {}
        self._making = threading.Lock()
        self._thread = threading.local()
        self._loops: tuple[Loop, ...] = ()  # one of each device with a session
        self.microbatch = 0
        self._is_inside = False

    @property
    def is_followed(self) -> bool:
        """Whether anyone wants to know sections: a session runs."""
        return bool(self._loops)

    @property
    def all(self) -> tuple[Section, ...]:
        """All sections, in the order of their numbers."""
        return tuple(self._numbers)

    @property
    def now(self) -> int:
        """The section of the calling thread; -1 for none."""
        return getattr(self._thread, "section", -1)

    @property
    def phase(self) -> int:
        """The phase of the section of the calling thread; 0 for none."""
        return self.all[self.now].phase if self.now >= 0 else 0

    def number(self, name: str, phase: int, *, is_dynamic: bool = False) -> int:
        """The number of a section, a new one if it was not asked for before."""
        section = Section(name, phase, is_dynamic)
        found = self._numbers.get(section)
        if found is None:
            with self._making:
                found = self._numbers.setdefault(section, len(self._numbers))
        return found

    def numbers(self, sections: Sequence[Section]) -> NDArray[np.int64]:
        """The numbers here of sections that have others elsewhere, and -1 at the end for none; int64 [sections + 1]."""
        here = [self.number(s.name, s.phase, is_dynamic=s.is_dynamic) for s in sections]
        return np.array([*here, -1], np.int64)

    def enter(self, section: int) -> None:
        """The calling thread is in this section from now; -1 for none."""
        if self._loops:
            self._thread.section = section
            for loop in self._loops:
                loop.enter(section)

    def follow(self, loop: Loop) -> None:
        """Tell this loop from now on, too."""
        self._loops = (*self._loops, loop)
        self.begin_iteration(is_inside=False)

    def leave(self, loop: Loop) -> None:
        """Tell this loop no longer; nothing happens if it is not told."""
        self._loops = tuple(other for other in self._loops if other is not loop)
        if not self._loops:
            self._thread = threading.local()
        self.begin_iteration(is_inside=False)

    def begin_iteration(self, *, is_inside: bool = True) -> None:
        """Microbatches count from 0 again; outside of iterations they do not count."""
        self.microbatch, self._is_inside = 0, is_inside
        self._thread.section = -1

    def next_microbatch(self) -> int:
        """The number of the microbatch whose forward pass begins."""
        number = self.microbatch
        if self._is_inside:
            self.microbatch += 1
        return number


SECTIONS = Sections()
