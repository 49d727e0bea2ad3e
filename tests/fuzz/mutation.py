"""Changes of bytes and of text that need no knowledge of a format."""

from __future__ import annotations

import json
import struct
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Sequence

__all__ = ["EDGES", "INTERESTING", "edge", "mutate_bytes", "mutate_json", "mutate_text", "reread"]

# Where types of numbers end, and what is likely to be added to, multiplied with or taken for a length.
EDGES = (
    *(0, 1, 2, 3, 4, 7, 8, 15, 16, 31, 32, 63, 64, 65, 127, 128, 255, 256, 1000, 4096, 65535, 65536),
    *(2**20, 2**24, 2**31 - 1, 2**31, 2**32 - 8, 2**32 - 4, 2**32 - 1, 2**32, 2**40, 2**61, 2**62),
    *(2**63 - 1, 2**63, 2**64 - 8, 2**64 - 1),
)
INTERESTING = (*EDGES, *(-value for value in EDGES if 0 < value <= 2**63))

_WIDTHS = ("B", "<H", "<I", "<Q")
_SIZES = {"B": 1, "<H": 2, "<I": 4, "<Q": 8}


def edge(chance: random.Random, most: int = 2**63 - 1) -> int:
    """A number from 0 to `most`, often one where a type ends."""
    if chance.random() < 0.3:
        return chance.randrange(min(most, 64) + 1)
    return chance.choice([value for value in EDGES if value <= most])


def mutate_bytes(chance: random.Random, data: bytes, others: Sequence[bytes], rounds: int = 4) -> bytes:
    """One to `rounds` changes: bits, bytes, numbers, and pieces moved, cut out, repeated or taken from another case."""
    changed = bytearray(data)
    for _ in range(chance.randint(1, rounds)):
        chance.choice(_BYTES)(chance, changed, others)
    return bytes(changed)


def _span(chance: random.Random, length: int) -> tuple[int, int]:
    begin = chance.randrange(length + 1)
    return begin, min(length, begin + chance.choice((1, 2, 4, 8, 16, 64, 256)))


def _flip(chance: random.Random, data: bytearray, _: Sequence[bytes]) -> None:
    if data:
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)


def _replace(chance: random.Random, data: bytearray, _: Sequence[bytes]) -> None:
    if data:
        data[chance.randrange(len(data))] = chance.choice((0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)))


def _number(chance: random.Random, data: bytearray, _: Sequence[bytes]) -> None:
    """Replace a number, or add a little to it; half of the time where numbers are aligned."""
    form = chance.choice(_WIDTHS)
    size = _SIZES[form]
    if len(data) < size:
        return
    at = chance.randrange(len(data) - size + 1)
    if chance.random() < 0.5:
        at -= at % size
    (old,) = struct.unpack_from(form, data, at)
    value = chance.choice((chance.choice(INTERESTING), old + chance.randint(-16, 16), len(data), old * 2))
    struct.pack_into(form, data, at, value % 256**size)


def _remove(chance: random.Random, data: bytearray, _: Sequence[bytes]) -> None:
    begin, end = _span(chance, len(data))
    del data[begin:end]


def _repeat(chance: random.Random, data: bytearray, _: Sequence[bytes]) -> None:
    begin, end = _span(chance, len(data))
    data[begin:begin] = data[begin:end] * chance.choice((1, 1, 2, 8))


def _insert(chance: random.Random, data: bytearray, _: Sequence[bytes]) -> None:
    at = chance.randrange(len(data) + 1)
    data[at:at] = chance.randbytes(chance.choice((1, 2, 4, 8, 16)))


def _move(chance: random.Random, data: bytearray, _: Sequence[bytes]) -> None:
    begin, end = _span(chance, len(data))
    at = chance.randrange(len(data) + 1)
    data[at : at + end - begin] = data[begin:end]


def _cut(chance: random.Random, data: bytearray, _: Sequence[bytes]) -> None:
    if chance.random() < 0.3:
        del data[chance.randrange(len(data) + 1) :]


def _splice(chance: random.Random, data: bytearray, others: Sequence[bytes]) -> None:
    other = chance.choice(others) if others else b""
    begin, end = sorted((chance.randrange(len(other) + 1), chance.randrange(len(other) + 1)))
    at = chance.randrange(len(data) + 1)
    data[at : at + chance.choice((0, end - begin))] = other[begin:end]


_BYTES: tuple[Callable[[random.Random, bytearray, Sequence[bytes]], None], ...] = (
    *(_flip, _flip, _replace, _number, _number, _number),
    *(_remove, _repeat, _insert, _move, _cut, _splice),
)

_TOKENS = (
    *("", "0", "-1", "1", "00", "+1", "1e9", "1.5", "0x10", "1_000", "nan", "inf", "\u0663", "\uff11", "\u2028"),
    *('"', "'", ",", ";", "\t", "\r", "\n", "\r\n", "#", "=", ".", "..", "[", "]", "[[", "]]", "{", "}", "\\"),
    *("%", "%20", "%00", "%FF", "@", "|", "*", "\x00", "\x1b[2J", "\ufeff", "\U0001f600", "\ud7ff", "\u00e9"),
    *("B", "KiB", "GiB", "true", "false"),
    *(str(2**k + d) for k in (31, 32, 53, 62, 63, 64, 2000) for d in (-1, 0, 1)),
    *("9" * n for n in (19, 20, 30, 31, 400, 4300, 4301)),
    *("[" * n for n in (100, 5000)),
)


def mutate_text(chance: random.Random, data: bytes, others: Sequence[bytes], words: Sequence[str]) -> bytes:
    """Changes of words and lines; `words` are those of the format. Now and then of bytes, so that it is no text."""
    if chance.random() < 0.1:
        return mutate_bytes(chance, data, others)
    text = data.decode("utf-8", "surrogateescape")
    for _ in range(chance.randint(1, 5)):
        lines = text.splitlines(keepends=True) or [""]
        kind = chance.randrange(6)
        at = chance.randrange(len(lines))
        if kind == 0:
            lines[at:at] = [chance.choice(lines)] * chance.choice((1, 1, 3, 40))
        elif kind == 1:
            del lines[at]
        elif kind == 2:
            other = chance.choice(others).decode("utf-8", "surrogateescape").splitlines(keepends=True) if others else []
            lines[at:at] = other[: chance.randint(0, 5)]
        else:
            lines[at] = _word_changed(chance, lines[at], words)
        text = "".join(lines)
    return text.encode("utf-8", "surrogateescape")


def _word_changed(chance: random.Random, line: str, words: Sequence[str]) -> str:
    """The line with a run of its letters, digits or signs replaced, removed, or something put before it."""
    ends = [k for k in range(1, len(line)) if line[k].isalnum() != line[k - 1].isalnum() or not line[k].isalnum()]
    ends = [0, *ends, len(line)]
    k = chance.randrange(len(ends) - 1)
    begin, end = ends[k], ends[k + 1]
    fresh = chance.choice((chance.choice(words), chance.choice(_TOKENS), str(chance.choice(INTERESTING)), ""))
    return line[:begin] + fresh + line[chance.choice((begin, end)) :]


def reread(write: Callable[[], bytes], otherwise: bytes) -> bytes:
    """What `write` gives, or other bytes where what was changed cannot be written at all."""
    try:
        return write()
    except Exception:  # noqa: BLE001 - the writer is not what is tested
        return otherwise


def mutate_json(chance: random.Random, data: bytes, others: Sequence[bytes], words: Sequence[str]) -> bytes:
    """Changes of values in JSON, or of its bytes; `words` are texts that mean something in it."""
    if chance.random() < 0.4:
        return mutate_bytes(chance, data, others)
    try:
        content = json.loads(data)
        for _ in range(chance.randint(1, 3)):
            _change(chance, content, words)
        return json.dumps(content).encode()
    except (ValueError, RecursionError, TypeError):
        return mutate_bytes(chance, data, others)


def _change(chance: random.Random, content: Any, words: Sequence[str]) -> None:
    """Give a value somewhere another one, or move a row of a list."""
    at = content
    for _ in range(8):
        keys = list(at) if isinstance(at, dict) else list(range(len(at)))
        if not keys:
            return
        key = chance.choice(keys)
        if isinstance(at[key], dict | list) and at[key] and chance.random() < 0.9:
            at = at[key]
        elif isinstance(at, list) and chance.random() < 0.7:
            at.insert(chance.choice(keys), at.pop(key))
            return
        elif isinstance(at, dict) and chance.random() < 0.1:
            del at[key]
            return
        else:
            given: tuple[Any, ...] = (
                edge(chance),
                chance.choice(INTERESTING),
                chance.choice(words),
                None,
                [],
                {},
                [0, 1],
                0.5,
            )
            at[key] = chance.choice(given)
            return
