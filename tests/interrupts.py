"""Exceptions between any two lines and behind any call, as from a signal's handler."""

from __future__ import annotations

import dis
import linecache
import sys
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any, Final

import edgemem

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
__all__ = ["Interrupt", "interrupted", "product_files"]

_CALLS: Final = frozenset({"CALL", "CALL_FUNCTION_EX", "CALL_KW"})


class Interrupt:
    """What became of an exception in a block.

    Attributes:
        is_raised: it was raised.
        is_done: the block was interrupted by it.
        passed: the file and the instruction at each point that was passed.
    """

    def __init__(self) -> None:
        self.is_raised = False
        self.is_done = False
        self.passed: list[tuple[str, str, int]] = []

    def first_and_last(self) -> list[int]:
        """The points at which each instruction was passed for the first, the second and the last time."""
        times: dict[tuple[str, str, int], list[int]] = {}
        for point, place in enumerate(self.passed):
            times.setdefault(place, []).append(point)
        return sorted({point for each in times.values() for point in (*each[:2], each[-1])})


@cache
def _handlers(code: CodeType) -> dict[int, int]:
    """Where an exception goes that comes at each instruction; those at which it leaves the function are not there."""
    read: Any = dis.Bytecode(code)
    return {offset: entry.target for entry in read.exception_entries for offset in range(entry.start, entry.end, 2)}


def _is_behind_call(code: CodeType, last: int, now: int) -> bool:
    """Whether the instruction before was a call, behind which an exception goes where it would go from here."""
    handlers = _handlers(code)
    return dis.opname[code.co_code[last]] in _CALLS and handlers.get(last) == handlers.get(now)


@contextmanager
def interrupted(
    point: int, files: Collection[str], kind: type[BaseException] = InterruptedError, *, calls: bool = False
) -> Iterator[Interrupt]:
    """Raise an exception in the block after so many lines and returns in these files, and drop it behind the block.

    With `calls`, points are also behind each call, of Python or of C, whose result is lost then.
    """
    interrupt = Interrupt()
    before = dict[FrameType, int]()  # the instruction that a frame ran last

    def reach(frame: FrameType) -> None:
        if len(interrupt.passed) == point:
            sys.settrace(None)
            interrupt.is_raised = True
            raise kind
        interrupt.passed.append((frame.f_code.co_filename, frame.f_code.co_qualname, frame.f_lasti))

    def trace(frame: FrameType, event: str, _: object) -> Any:
        if frame.f_code.co_filename not in files or frame.f_code.co_name == "<genexpr>":
            return None
        if calls:
            frame.f_trace_opcodes = True
        if event == "opcode":
            last, before[frame] = before.get(frame, -1), frame.f_lasti
            if last < 0 or not _is_behind_call(frame.f_code, last, frame.f_lasti):
                return trace
            reach(frame)
            return trace
        # The line of a `with` comes again before its lock is opened, and that of a `try` may be in no block at all. No
        # handler of a signal runs at a `yield`, nor between the end of `__enter__` and the block: what a trace function
        # raises there goes past all blocks.
        is_yield = dis.opname[frame.f_code.co_code[frame.f_lasti]] == "YIELD_VALUE"
        if event == "return" and (is_yield or frame.f_code.co_name == "__enter__"):
            return trace
        line = linecache.getline(frame.f_code.co_filename, frame.f_lineno).strip()
        if event in {"line", "return"} and not line.startswith("with ") and line != "try:":
            reach(frame)
        return trace

    sys.settrace(trace)
    try:
        yield interrupt
    except kind as raised:
        interrupt.is_done = True
        # CPython keeps what a trace function raised, and so its frames and those of what was handled there.
        raised.__traceback__ = raised.__context__ = None
    finally:
        sys.settrace(None)
        before.clear()


def product_files(*packages: str) -> frozenset[str]:
    """The files of these packages of edgemem: `replay`, `runtime/onnxruntime`."""
    root = Path(edgemem.__file__).parent
    return frozenset(str(file) for package in packages for file in (root / package).rglob("*.py"))
