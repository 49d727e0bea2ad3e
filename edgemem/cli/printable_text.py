"""Texts as commands print them.

Names in models come from strangers. What is printed may not steer the terminal: no character of a name is a control
character, part of an escape sequence, a change of the direction of writing, or invisible. `printable` replaces those,
and `printable_output` does it for everything that a command prints as text.
"""

from __future__ import annotations

import io
import sys
import warnings
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["PrintableStream", "plain_warnings", "printable", "printable_output"]

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
    """A text stream that writes `printable` texts, in lines; everything else is that of the stream itself."""

    def __init__(self, stream: IO[str]) -> None:
        self.stream = stream

    def write(self, text: str) -> int:
        self.stream.write(printable(text, keep=_LINES))
        return len(text)

    @property
    def buffer(self) -> Any:
        """For bytes. A file or a pipe gets them as they are, a terminal as printable text."""
        return _PrintableBytes(self) if self.stream.isatty() else self.stream.buffer  # type: ignore[attr-defined]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


class _PrintableBytes(io.RawIOBase):
    """The binary side of a terminal."""

    def __init__(self, stream: PrintableStream) -> None:
        self._stream = stream

    def writable(self) -> bool:
        return True

    def write(self, content: Any) -> int:
        self._stream.write(bytes(content).decode("utf-8", "backslashreplace"))
        return len(content)


@contextmanager
def printable_output() -> Iterator[None]:
    """In this block, texts on stdout and stderr are printable, and so are bytes on a terminal."""
    out, err = sys.stdout, sys.stderr
    for stream in (out, err):
        if isinstance(stream, io.TextIOWrapper):  # a terminal or a pipe that takes ASCII alone
            stream.reconfigure(errors="backslashreplace")
    sys.stdout, sys.stderr = cast("Any", PrintableStream(out)), cast("Any", PrintableStream(err))
    try:
        yield
    finally:
        sys.stdout, sys.stderr = out, err


@contextmanager
def plain_warnings() -> Iterator[None]:
    """In this block a warning is one line on stderr, without the file and the line that it comes from."""

    def show(message: Warning | str, *_: object, **__: object) -> None:
        sys.stderr.write(f"edgemem: {printable(str(message))}\n")

    with warnings.catch_warnings():
        warnings.showwarning = show
        yield
