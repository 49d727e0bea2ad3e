"""Exceptions between any two lines, as from a signal's handler."""

from __future__ import annotations

import linecache
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from types import FrameType

__all__ = ["Interrupt", "interrupted"]


class Interrupt:
    """Whether the exception was raised, and whether the block was interrupted by it."""

    is_raised = False
    is_done = False


@contextmanager
def interrupted(
    point: int, files: Collection[str], kind: type[BaseException] = InterruptedError
) -> Iterator[Interrupt]:
    """Raise an exception in the block after so many lines and returns in these files, and drop it behind the block."""
    left, interrupt = point, Interrupt()

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal left
        if frame.f_code.co_filename not in files or frame.f_code.co_name == "<genexpr>":
            return None
        # The line of a `with` comes again before its lock is opened, where no handler of a signal runs.
        is_with = linecache.getline(frame.f_code.co_filename, frame.f_lineno).lstrip().startswith("with ")
        if event in {"line", "return"} and not is_with:
            left -= 1
            if left < 0:
                sys.settrace(None)
                interrupt.is_raised = True
                raise kind
        return trace

    sys.settrace(trace)
    try:
        yield interrupt
    except kind as raised:
        interrupt.is_done = True
        raised.__traceback__ = None  # CPython 3.12 and 3.13 keep what a trace function raised, and so its frames
    finally:
        sys.settrace(None)
