"""The reader of pickles builds plain data as Python's does, runs nothing, and takes no more than it is given."""

from __future__ import annotations

import pickle
import pickletools
import subprocess
import sys
import tracemalloc
from collections import OrderedDict
from contextlib import suppress
from datetime import date
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgemem.errors import ModelError
from edgemem.trace.budget import ReadingBudget
from edgemem_converters.snapshot.plain_pickle import read_plain

if TYPE_CHECKING:
    from pathlib import Path

LEAVES = st.none() | st.booleans() | st.integers(-(2**126), 2**126) | st.floats(allow_nan=False) | st.text()
PLAIN = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner)
        | st.lists(inner).map(tuple)
        | st.dictionaries(st.text() | st.integers(-(2**63), 2**63 - 1), inner)
    ),
)


class _Writes:
    """What a hostile pickle would run: it writes a file."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __reduce__(self) -> Any:
        return exec, (f"open({str(self._path)!r}, 'w')",)


@pytest.mark.full
@given(PLAIN, st.integers(2, pickle.HIGHEST_PROTOCOL))
def test_plain_data_is_what_python_reads(value: object, protocol: int) -> None:
    data = pickle.dumps(value, protocol)
    read = read_plain(data)
    assert read == value
    assert repr(read) == repr(pickle.loads(data))


def test_shared_values_stay_shared_and_long_lists_are_read() -> None:
    row = [1, 2]
    read: Any = read_plain(pickle.dumps([row] * 5000))
    assert len(read) == 5000
    assert read[0] is read[4999]


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize(
    "make",
    [
        _Writes,
        lambda _: OrderedDict(a=1),
        lambda _: date(2026, 1, 1),
        lambda _: print,
        lambda _: {1, 2},
        lambda _: frozenset([1]),
        lambda _: b"bytes",
        lambda _: 1j,
    ],
)
def test_what_is_not_plain_is_refused_and_nothing_runs(make: Any, protocol: int, tmp_path: Path) -> None:
    target = tmp_path / "ran"
    with pytest.raises(ModelError, match=r"may run code|is not one of plain data"):
        read_plain(pickle.dumps([make(target)], protocol))
    assert not target.exists()


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "ends too early"),
        (b"\x80\x04", "ends too early"),
        (b"\x80\x01N.", "of no protocol from 2 to 5"),
        (b"I1\n.", "0x49 is not one of plain data"),
        (b"cos\nsystem\n(S'true'\ntR.", "GLOBAL may run code"),
        (b"\x80\x04(\x8c\x02os\x8c\x06system\x93.", "STACK_GLOBAL may run code"),
        (b"\x80\x02\x82\x01.", "EXT1 may run code"),
        (b"Pabc\n.", "PERSID may run code"),
        (b"\x80\x04.", "does not end with one value"),
        (b"\x80\x04NN.", "does not end with one value"),
        (b"\x80\x04(N.", "does not end with one value"),
        (b"\x80\x04a.", "takes a value where there is none"),
        (b"\x80\x04](\x85.", "takes a value where there is none"),
        (b"\x80\x04Na.", "takes a value where there is none"),
        (b"\x80\x04NNa.", "appends to what is no list"),
        (b"\x80\x04]NNs.", "sets an item of what is no dictionary"),
        (b"\x80\x04}(Nu.", "or without a value"),
        (b"\x80\x04})Ns.", "neither a text nor an integer"),
        (b"\x80\x04}G\x3f\xf0\x00\x00\x00\x00\x00\x00Ns.", "neither a text nor an integer"),
        (b"\x80\x04t.", "has no begin"),
        (b"\x80\x04h\x00.", "refers to value 0, which is not there"),
        (b"\x80\x04j\xff\xff\xff\xff.", "refers to value 4294967295"),
        (b"\x80\x04\x8c\x01\xff.", "not UTF-8"),
        (b"\x80\x04X\xff\xff\xff\xff.", "ends too early"),
        (b"\x80\x04\x8d" + b"\xff" * 8 + b".", "ends too early"),
        (b"\x80\x04\x8b\xff\xff\xff\xff.", "has -1 bytes"),
        (b"\x80\x04\x8b\xff\xff\xff\x7f.", "has 2,147,483,647 bytes"),
        (b"\x80\x04" + b"N" * 100_001 + b".", "nested too deep"),
        (b"\x80\x04" + b"(" * 100_001, "nested too deep"),
        (b"\x80\x04" + b"N0" * 200_000 + b".", "more than 300,000 instructions"),
        (b"\x80\x04" + b"]0" * 40_000 + b"N.", "more than 5,000,000 events, lists and dictionaries"),
        (b"\x80\x04]" + b"\x94" * 80_000 + b".", "refers to too many values"),
    ],
)
def test_damage_and_excess_are_refused(data: bytes, says: str) -> None:
    with pytest.raises(ModelError, match=says):
        read_plain(data, ReadingBudget(items=30_000, steps=300_000))


def test_keys_that_python_gives_one_hash_are_refused() -> None:
    # Integers that are equal modulo 2**61 - 1: a dictionary of n of them takes n * n steps.
    def items(count: int) -> bytes:
        return b"".join(pickle.dumps(k * (2**61 - 1), 2)[2:-1] + b"N" for k in range(count))

    with pytest.raises(ModelError, match="a key in it is neither a text nor an integer of 64 bits"):
        read_plain(b"\x80\x02}(" + items(20) + b"u.")
    read: Any = read_plain(b"\x80\x02}(" + items(5) + b"u.")  # all that there are below 2**63
    assert len(read) == 5


def test_a_large_memo_number_and_stated_lengths_take_no_memory() -> None:
    tracemalloc.start()
    try:
        assert read_plain(b"\x80\x04Nr\xff\xff\xff\xff.") is None
        with pytest.raises(ModelError):
            read_plain(b"\x80\x04\x8d\x00\x00\x00\x00\x10\x00\x00\x00.")
        with pytest.raises(ModelError):
            read_plain(b"\x80\x04\x95" + b"\xff" * 8 + b"\x8b\x00\x00\x00\x40.")
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_nests_that_double_with_each_level_are_read_at_once_and_are_no_keys() -> None:
    # t0 = (), t1 = (t0, t0), ...: 2**200 leaves if it is followed to its ends, as a hash would.
    levels = b")\x94" + b"".join(b"h" + bytes([k]) + b"h" + bytes([k]) + b"\x86\x94" for k in range(200))
    read: Any = read_plain(b"\x80\x04" + b"(" + levels + b"t.")
    assert len(read) == 201
    with pytest.raises(ModelError, match="neither a text nor an integer"):
        read_plain(b"\x80\x04}(" + levels + b"1h\xc7Ns.")


@pytest.mark.full
def test_a_deep_nest_and_a_value_that_contains_itself_do_not_end_the_process() -> None:
    # In a process of its own, which a stack overflow would end.
    script = (
        "from edgemem_converters.snapshot.plain_pickle import read_plain\n"
        "deep = read_plain(b'\\x80\\x04)' + b'\\x85' * 1_000_000 + b'.')\n"
        "del deep\n"
        "itself = read_plain(b'\\x80\\x04]\\x94h\\x00a.')\n"
        "assert itself[0] is itself\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=120)


def test_every_instruction_of_the_format_is_known_or_refused() -> None:
    for opcode in pickletools.opcodes:
        code = opcode.code.encode("latin-1")
        if code == b".":
            continue
        with pytest.raises(ModelError) as caught:
            read_plain(b"\x80\x04" + code)
        plain = "is not one of plain data" not in str(caught.value) and "may run code" not in str(caught.value)
        if any(word in opcode.name for word in ("GLOBAL", "INST", "OBJ", "REDUCE", "BUILD", "PERSID", "EXT")):
            assert not plain, opcode.name


@given(st.binary(max_size=80))
def test_any_bytes_are_plain_data_or_refused(data: bytes) -> None:
    with suppress(ModelError):
        read_plain(b"\x80\x04" + data)


@pytest.mark.full
@given(PLAIN, st.data())
def test_a_damaged_pickle_is_plain_data_or_refused(value: object, data: Any) -> None:
    pickled = bytearray(pickle.dumps(value))
    for _ in range(data.draw(st.integers(1, 3))):
        pickled[data.draw(st.integers(0, len(pickled) - 1))] = data.draw(st.integers(0, 255))
    with suppress(ModelError):
        read_plain(bytes(pickled))
