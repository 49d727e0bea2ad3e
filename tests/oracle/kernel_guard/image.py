"""The memory that a kernel is called in: buffers with guard bytes around them, and the process that calls it."""

from __future__ import annotations

import shlex
import struct
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable
    from random import Random
    from types import TracebackType
    from typing import Self

__all__ = ["Buffer", "Image", "Server"]

_BASE: Final = 0x30000000  # where server.c has its memory
_GUARD: Final = 512  # bytes before and behind each buffer
_MARK: Final = b"\xa5"
_WORD: Final = 4


@dataclass(frozen=True)
class Buffer:
    """Bytes of the image; `may_change` says whether the kernel may write them."""

    name: str
    at: int
    size: int
    may_change: bool

    @property
    def address(self) -> int:
        return _BASE + self.at


class Image:
    """Buffers one behind the other, each at a multiple of 16."""

    def __init__(self, rng: Random) -> None:
        self._rng, self._bytes, self.buffers = rng, bytearray(), list[Buffer]()

    def _put(self, name: str, data: bytes, *, may_change: bool) -> Buffer:
        self._bytes += _MARK * (_GUARD + -len(self._bytes) % 16)
        made = Buffer(name, len(self._bytes), len(data), may_change)
        self._bytes += data + _MARK * _GUARD
        self.buffers.append(made)
        return made

    def words(self, *values: int) -> int:
        """The address of 32-bit numbers that the kernel reads, such as a structure."""
        data = struct.pack(f"<{len(values)}I", *(value & 0xFFFFFFFF for value in values))
        return self._put("parameters", data, may_change=False).address

    def given(self, name: str, size: int) -> int:
        """The address of random bytes that the kernel reads."""
        return self._put(name, self._rng.randbytes(size), may_change=False).address

    def room(self, name: str, size: int) -> int:
        """The address of bytes that the kernel may write."""
        return self._put(name, self._rng.randbytes(size), may_change=True).address

    @property
    def content(self) -> bytes:
        return bytes(self._bytes)

    def damage(self, after: bytes) -> list[str]:
        """What was written outside of the buffers that may be written, one line a place."""
        found, before = [], self.content
        for one in self.buffers:
            start, end = one.at - _GUARD, one.at + one.size + _GUARD
            ahead, behind = after[start : one.at], after[one.at + one.size : end]
            if ahead != _MARK * len(ahead):
                found.append(f"{len(ahead) - _first(ahead)} bytes before {one.name} of {one.size}")
            if behind != _MARK * len(behind):
                found.append(f"{len(behind) - _first(behind[::-1])} bytes behind {one.name} of {one.size}")
            inside = slice(one.at, one.at + one.size)
            if not one.may_change and before[inside] != after[inside]:
                found.append(f"in {one.name} of {one.size}, which is read")
        return found


def _first(guard: bytes) -> int:
    return next(k for k, byte in enumerate(guard) if byte != _MARK[0])


class Server:
    """The process of `server.c`."""

    def __init__(self, command: str) -> None:
        self._process = subprocess.Popen(shlex.split(command), stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()
        self._process.kill()
        self._process.wait()

    def call(self, function: str, arguments: Iterable[int], image: Image) -> tuple[int, list[str]]:
        """What the function returns, and what it damaged."""
        sent, values, name = image.content, list(arguments), function.encode()
        head = struct.pack("<3I", len(name), len(values), len(sent))
        words = struct.pack(f"<{len(values)}I", *(value & 0xFFFFFFFF for value in values))
        pipe_in, pipe_out = self._process.stdin, self._process.stdout
        assert pipe_in is not None
        assert pipe_out is not None
        pipe_in.write(head + name + words + sent)
        pipe_in.flush()
        answer = pipe_out.read(_WORD + len(sent))
        if len(answer) < _WORD + len(sent):
            raise ChildProcessError(f"{function} ended the process: {self._process.wait()}")
        return struct.unpack("<i", answer[:_WORD])[0], image.damage(answer[_WORD:])
