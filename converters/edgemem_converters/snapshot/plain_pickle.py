"""Pickles of plain data, read without running anything that is in them.

Python's own reader may call any function that a pickle names, and takes memory as a pickle asks for it. This one knows
the instructions (opcodes) that build None, booleans, numbers, texts, lists, tuples and dictionaries, as the standard
module `pickletools` describes them, and refuses all others. What it takes is bounded by what it is given:

- a length that a pickle states is compared with the bytes that are left before anything is read;
- memo entries are kept in a dictionary, so that a large number of one takes no memory;
- keys are texts, or integers of 64 bits: the hash of a nest of tuples takes time that doubles with each of its levels,
  and Python gives any number of larger integers one hash, which makes a dictionary of them quadratic;
- there are limits on instructions, on lists and dictionaries (`ReadingBudget`), and on values that are not yet in any
  (the depth).

Values may be shared, or contain themselves. A caller must not follow them without an end of its own, nor print them.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from edgemem.errors import ModelError
from edgemem.trace.budget import ReadingBudget

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["PlainData", "read_plain"]

PlainData: TypeAlias = "bool | int | float | str | list[Any] | tuple[Any, ...] | dict[str | int, Any] | None"

MOST_WAITING: Final = 100_000  # values that are in no container yet; Python writes at most 1,000 in a row
_MOST_INTEGER: Final = 16  # bytes of one integer; addresses have 8
_WORD: Final = 2**63
_LAST_PROTOCOL: Final = 5

# Instructions that would find or call something, by their names in pickletools.
_RUNS_CODE: Final = {
    b"c": "GLOBAL",
    b"\x93": "STACK_GLOBAL",
    b"i": "INST",
    b"o": "OBJ",
    b"\x81": "NEWOBJ",
    b"\x92": "NEWOBJ_EX",
    b"R": "REDUCE",
    b"b": "BUILD",
    b"P": "PERSID",
    b"Q": "BINPERSID",
    b"\x82": "EXT1",
    b"\x83": "EXT2",
    b"\x84": "EXT4",
}


def read_plain(data: bytes, budget: ReadingBudget | None = None) -> PlainData:
    """The value in a pickle of protocol 2 to 5.

    Args:
        data: the pickle, to its last byte; what follows its end is not read.
        budget: what it may take: steps are instructions; items are lists, tuples and dictionaries, and there may be
            twice as many values that others refer to.

    Raises:
        ModelError: the pickle builds anything but plain data, is damaged, or is beyond a limit.
    """
    return _Reader(data, budget or ReadingBudget()).run()


class _Reader:
    """The stack machine that a pickle is a program of: a stack of values, marks in it, and a memo."""

    def __init__(self, data: bytes, budget: ReadingBudget) -> None:
        self._data = data
        self._at = 0
        self._stack: list[Any] = []
        self._marks: list[int] = []
        self._memo: dict[int, Any] = {}
        self._budget = budget
        self._most_memo = 2 * budget.items

    def run(self) -> PlainData:
        """The value on top when the program ends."""
        table: list[Callable[[], object] | None] = [None] * 256
        for name, made in self._instructions().items():
            table[name[0]] = made
        stack, stop, most_steps = self._stack, ord("."), self._budget.steps
        for _ in range(most_steps):
            code = self._take(1)[0]
            if code == stop:
                break
            step = table[code]
            if step is None:
                raise self._refusal(code)
            step()
            if len(stack) > MOST_WAITING:
                raise self._wrong("it is nested too deep, or a list in it is not written as Python writes it")
        else:
            raise self._wrong(f"it has more than {most_steps:,} instructions; record fewer events, without stacks")
        if len(stack) != 1 or self._marks:
            raise self._wrong("it does not end with one value")
        value: PlainData = stack[0]
        return value

    def _instructions(self) -> dict[bytes, Callable[[], object]]:
        push = self._stack.append
        return {
            b"\x80": self._protocol,
            b"\x95": self._frame,
            b"N": lambda: push(None),
            b"\x88": lambda: push(True),
            b"\x89": lambda: push(False),
            b"K": lambda: push(self._take(1)[0]),
            b"M": lambda: push(int.from_bytes(self._take(2), "little")),
            b"J": lambda: push(int.from_bytes(self._take(4), "little", signed=True)),
            b"\x8a": lambda: self._integer(1),
            b"\x8b": lambda: self._integer(4),
            b"G": lambda: push(struct.unpack(">d", self._take(8))[0]),
            b"\x8c": lambda: self._text(1),
            b"X": lambda: self._text(4),
            b"\x8d": lambda: self._text(8),
            b"(": self._mark,
            b"0": self._pop,
            b"1": self._drop_marked,
            b"]": lambda: self._push_container([]),
            b"}": lambda: self._push_container({}),
            b")": lambda: push(()),
            b"\x85": lambda: self._tuple(1),
            b"\x86": lambda: self._tuple(2),
            b"\x87": lambda: self._tuple(3),
            b"t": lambda: self._push_container(tuple(self._marked())),
            b"a": lambda: self._extend([self._pop()]),
            b"e": lambda: self._extend(self._marked()),
            b"s": self._set_item,
            b"u": lambda: self._update(self._marked()),
            b"\x94": lambda: self._remember(len(self._memo)),
            b"q": lambda: self._remember(self._take(1)[0]),
            b"r": lambda: self._remember(int.from_bytes(self._take(4), "little")),
            b"h": lambda: self._recall(self._take(1)[0]),
            b"j": lambda: self._recall(int.from_bytes(self._take(4), "little")),
        }

    def _take(self, count: int) -> bytes:
        """The next bytes."""
        begin = self._at
        if count > len(self._data) - begin:
            raise self._wrong("it ends too early")
        self._at = begin + count
        return self._data[begin : self._at]

    def _protocol(self) -> None:
        if not 2 <= self._take(1)[0] <= _LAST_PROTOCOL:
            raise self._wrong(f"it is of no protocol from 2 to {_LAST_PROTOCOL}")

    def _frame(self) -> None:
        """A frame's length is a hint for reading from a stream."""
        self._take(8)

    def _integer(self, width: int) -> None:
        count = int.from_bytes(self._take(width), "little", signed=width > 1)
        if not 0 <= count <= _MOST_INTEGER:
            raise self._wrong(f"an integer in it has {count:,} bytes; {_MOST_INTEGER} are read at most")
        self._stack.append(int.from_bytes(self._take(count), "little", signed=True))

    def _text(self, width: int) -> None:
        text = self._take(int.from_bytes(self._take(width), "little"))
        try:
            self._stack.append(text.decode("utf-8", "surrogatepass"))
        except UnicodeDecodeError:
            raise self._wrong("a text in it is not UTF-8") from None

    def _mark(self) -> None:
        self._marks.append(len(self._stack))
        if len(self._marks) > MOST_WAITING:
            raise self._wrong("it is nested too deep")

    def _marked(self) -> list[Any]:
        """What is above the last mark, taken from the stack with the mark."""
        if not self._marks:
            raise self._wrong("a list in it has no begin")
        begin = self._marks.pop()
        values = self._stack[begin:]
        del self._stack[begin:]
        return values

    def _drop_marked(self) -> None:
        self._marked()

    def _pop(self) -> Any:
        if len(self._stack) <= (self._marks[-1] if self._marks else 0):
            raise self._wrong("it takes a value where there is none")
        return self._stack.pop()

    def _push_container(self, value: list[Any] | tuple[Any, ...] | dict[str | int, Any]) -> None:
        self._budget.make(1)
        self._stack.append(value)

    def _tuple(self, count: int) -> None:
        values = [self._pop() for _ in range(count)]
        self._push_container(tuple(reversed(values)))

    def _extend(self, values: list[Any]) -> None:
        into = self._top()
        if type(into) is not list:
            raise self._wrong("it appends to what is no list")
        into.extend(values)

    def _set_item(self) -> None:
        value = self._pop()
        self._update([self._pop(), value])

    def _update(self, flat: list[Any]) -> None:
        into = self._top()
        keys = flat[::2]
        if type(into) is not dict or len(flat) % 2:
            raise self._wrong("it sets an item of what is no dictionary, or without a value")
        if not all(type(key) is str or (type(key) is int and -_WORD <= key < _WORD) for key in keys):
            raise self._wrong("a key in it is neither a text nor an integer of 64 bits")
        into.update(zip(keys, flat[1::2], strict=True))

    def _top(self) -> Any:
        value = self._pop()
        self._stack.append(value)
        return value

    def _remember(self, number: int) -> None:
        self._memo[number] = self._top()
        if len(self._memo) > self._most_memo:
            raise self._wrong("it refers to too many values; record fewer events, without stacks")

    def _recall(self, number: int) -> None:
        if number not in self._memo:
            raise self._wrong(f"it refers to value {number}, which is not there")
        self._stack.append(self._memo[number])

    def _refusal(self, code: int) -> ModelError:
        name = _RUNS_CODE.get(bytes([code]))
        if name is not None:
            return self._wrong(f"the instruction {name} may run code, and a snapshot holds plain data; do not load it")
        return self._wrong(f"the instruction 0x{code:02x} is not one of plain data")

    def _wrong(self, why: str) -> ModelError:
        return ModelError(f"byte {self._at:,} of the pickle: {why}")
