"""Texts as commands print them.

Names in models come from strangers. What is printed may not steer the terminal: no character of a name is a control
character, part of an escape sequence, a change of the direction of writing, or invisible. `printable` replaces those,
and `printable_output` does it for everything that a command prints as text.

What cannot be printed, because stdout is closed or a disk is full, is no error of the work: the command goes on and
says at its end that its output is not whole.
"""

from __future__ import annotations

import io
import os
import sys
import warnings
from contextlib import contextmanager, suppress
from typing import IO, TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = [
    "PrintableStream",
    "UnescapedStream",
    "is_printed",
    "open_closed_streams",
    "plain_warnings",
    "printable",
    "printable_output",
]

_LINES = "\n\t"  # what lines and columns are made of


def printable(text: str, *, keep: str = "") -> str:
    r"""The text with every character that is not printable as its escape, such as `\x1b` or `\u202e`.

    Args:
        text: such as a name in a model.
        keep: characters to leave alone.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in keep else c.encode("unicode_escape").decode() for c in text)


class PrintableStream:
    """A text stream that writes `printable` texts, in lines; everything else is that of the stream itself.

    Attributes:
        stream: the stream.
        failure: why nothing more is written; None as long as all was.
    """

    def __init__(self, stream: IO[str]) -> None:
        self.stream = stream
        self.failure: OSError | None = None

    def write(self, text: str) -> int:
        self.attempt(lambda: self.stream.write(printable(text, keep=_LINES)))
        return len(text)

    def flush(self) -> None:
        self.attempt(self.stream.flush)

    def attempt(self, write: Callable[[], object]) -> None:
        """Write, unless that failed before. Raises BrokenPipeError: nobody wants the rest of the work."""
        if self.failure is None:
            try:
                write()
            except BrokenPipeError:
                raise
            except OSError as e:
                self.failure = e

    @property
    def buffer(self) -> Any:
        """For bytes. A file or a pipe gets them as they are, a terminal as printable text."""
        return _Bytes(self)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


class UnescapedStream:
    """A `PrintableStream` for texts that steer the terminal and were made printable before."""

    def __init__(self, stream: PrintableStream) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        self._stream.attempt(lambda: self._stream.stream.write(text))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class _Bytes(io.RawIOBase):
    """The binary side of a stream."""

    def __init__(self, stream: PrintableStream) -> None:
        self._stream = stream

    def writable(self) -> bool:
        return True

    def write(self, content: Any) -> int:
        if self._stream.isatty():
            self._stream.write(bytes(content).decode("utf-8", "backslashreplace"))
        else:
            self._stream.attempt(lambda: self._stream.stream.buffer.write(content))  # type: ignore[attr-defined]
        return len(content)

    def flush(self) -> None:
        self._stream.flush()


@contextmanager
def printable_output() -> Iterator[PrintableStream]:
    """In this block, texts on stdout and stderr are printable, and so are bytes on a terminal. Gives stdout."""
    out, err = sys.stdout, sys.stderr
    for stream in (out, err):
        if isinstance(stream, io.TextIOWrapper):  # a terminal or a pipe that takes ASCII alone
            stream.reconfigure(errors="backslashreplace")
    made = PrintableStream(out)
    sys.stdout, sys.stderr = cast("Any", made), cast("Any", PrintableStream(err))
    try:
        yield made
    finally:
        sys.stdout, sys.stderr = out, err


def open_closed_streams() -> None:
    """Let what is printed on a closed stdout or stderr go nowhere, and no other file take its number."""
    for number, name in ((0, "stdin"), (1, "stdout"), (2, "stderr")):
        if getattr(sys, name) is None:
            try:
                os.fstat(number)
            except OSError:
                nowhere = os.open(os.devnull, os.O_RDWR)
                if nowhere != number:
                    os.dup2(nowhere, number)
                    os.close(nowhere)
                setattr(sys, name, open(number, "r" if number == 0 else "w", closefd=False))  # noqa: SIM115


def is_printed(output: PrintableStream) -> bool:
    """Whether all of stdout was written; says on stderr why not."""
    with suppress(BrokenPipeError):
        output.flush()
    if output.failure is None:
        return True
    sys.stderr.write(f"edgemem: cannot write to stdout: {output.failure.strerror or output.failure}\n")
    with suppress(OSError, ValueError):  # what is left in the stream's memory fails at the end of Python, too
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, output.stream.fileno())
        os.close(nowhere)
    return False


@contextmanager
def plain_warnings() -> Iterator[None]:
    """In this block a warning is one line on stderr, without the file and the line that it comes from."""

    def show(message: Warning | str, *_: object, **__: object) -> None:
        sys.stderr.write(f"edgemem: {printable(str(message))}\n")

    with warnings.catch_warnings():
        warnings.showwarning = show
        yield
