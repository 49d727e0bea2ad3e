"""How SIGINT (Ctrl-C), SIGTERM and SIGHUP end a command: at once, with exit code 128 + their number, leaving nothing.

A signal raises `Ended` in the main thread. Blocks that have temporary files or child processes clean up as the
exception passes them, and the command ends in its usual way. Python raises only between two of its own instructions,
though, and a runtime or a solver may compute for minutes inside one. So a thread watches besides: where the command has
not ended a moment after the signal, it ends the children, removes the temporary files and ends the process.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final, NoReturn

from edgemem.system.child_process import end_children
from edgemem.system.files import remove_unfinished, without_new_files

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

__all__ = ["Ended", "ended_by_signals", "received", "say_once"]

_SIGNALS: Final = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))
_GRACE_S: Final = 0.3
_SHOW_CURSOR: Final = b"\x1b[?25h"  # a line of progress hides it


class Ended(KeyboardInterrupt):
    """A signal asks the command to end; `number` is the signal's."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number

    @property
    def code(self) -> int:
        """The exit code, as shells have it for a process that a signal ended."""
        return 128 + self.number

    def __str__(self) -> str:
        return f"ended by {signal.Signals(self.number).name}"


_received: list[Ended] = []
_said = threading.Lock()  # taken by the thread that says it, and never given back


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """In this block signals raise Ended, and end the process a moment later where that has not ended it.

    Libraries take exceptions for errors of their own, or drop them. So the process ends with the block after a signal,
    whatever else came of it, and at once: with the threads of runtimes at work, Python's own end is slow, or crashes.
    Signals that are ignored, as `nohup` does with SIGHUP, stay ignored. Outside the main thread nothing changes.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    reading, writing = os.pipe()
    if sys.platform != "win32":
        os.set_blocking(writing, False)
    handlers = {n: signal.getsignal(n) for n in _SIGNALS}
    numbers = [n for n, handler in handlers.items() if handler is not signal.SIG_IGN]
    threading.Thread(target=_watch, args=(reading, frozenset(numbers)), name="signals", daemon=True).start()
    descriptor = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    for number in numbers:
        signal.signal(number, _raise)
    _received.clear()
    if _said.locked():
        _said.release()
    try:
        yield
    finally:
        for number in numbers:
            if _received:  # during an import it leaves the handlers; a second one must not interrupt the cleaning up
                signal.signal(number, signal.SIG_IGN)
            elif signal.getsignal(number) is _raise:
                signal.signal(number, handlers[number] or signal.SIG_DFL)
        signal.set_wakeup_fd(descriptor)
        os.close(writing)  # ends the thread, unless it is to end the process
        if _received:
            with suppress(OSError, ValueError):  # where this waits for a reader, the thread does not
                sys.stdout.flush()
                sys.stderr.flush()
            _leave(_received[0].code)


def received() -> Ended | None:
    """The signal that came in the innermost block of `ended_by_signals`; None if there was none."""
    return _received[0] if _received else None


def say_once(ended: Ended) -> None:
    """Say on stderr which signal ended the command, unless the other thread has said it."""
    if _said.acquire(blocking=False):
        with suppress(OSError):
            os.write(2, (_SHOW_CURSOR if os.isatty(2) else b"") + f"edgemem: {ended}\n".encode())


def _raise(number: int, frame: FrameType | None) -> None:
    _received.append(Ended(number))
    if _is_importing(frame):
        return  # a compiled module ends the process at an exception while it is made; the thread ends the command
    for other in _SIGNALS:
        signal.signal(other, signal.SIG_IGN)  # a second one must not interrupt the cleaning up
    raise _received[0]


def _is_importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename == "<frozen importlib._bootstrap>":
            return True
        frame = frame.f_back
    return False


def _watch(reading: int, numbers: frozenset[int]) -> None:
    """Wait for a signal, then for the process to end, and end it."""
    while data := os.read(reading, 1):
        if data[0] in numbers:
            time.sleep(_GRACE_S)
            say_once(Ended(data[0]))
            _leave(Ended(data[0]).code)
    os.close(reading)


def _leave(code: int) -> NoReturn:
    with without_new_files():
        end_children()
        remove_unfinished(after_signal=True)
        os._exit(code)
