"""Hostile pickles: nothing in them runs, their memory and time are limited, and the error says what is wrong."""

from __future__ import annotations

import pickle
import sys
from collections import OrderedDict
from contextlib import suppress
from datetime import date
from typing import TYPE_CHECKING, Any

import pytest

from edgemem.errors import ModelError
from edgemem.formats import load_histories
from edgemem_converters.snapshot.plain_pickle import read_plain
from edgemem_converters.snapshot.process import read_apart

if TYPE_CHECKING:
    from pathlib import Path

PLAIN: Any = {"a": [1, -(2**90), 2.5, None, True, "\ud800"], 3: ((), (1, "b"), {}), "c": list(range(3000))}
LIMITED = pytest.mark.skipif(sys.platform != "linux", reason="memory is limited on Linux alone")


class _Writes:
    """What a hostile pickle would run: it writes a file."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __reduce__(self) -> Any:
        return exec, (f"open({str(self._path)!r}, 'w')",)


def _refusal(tmp_path: Path, data: bytes, **limits: Any) -> str:
    """What the reader in a process of its own says of a file."""
    path = tmp_path / "snapshot.pickle"
    path.write_bytes(data)
    with pytest.raises(ModelError) as caught:
        read_apart(path, **limits)
    return str(caught.value)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_plain_data_is_what_python_reads(protocol: int) -> None:
    data = pickle.dumps(PLAIN, protocol)
    assert repr(read_plain(data)) == repr(pickle.loads(data)) == repr(PLAIN)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize(
    "make", [_Writes, lambda _: OrderedDict(a=1), lambda _: date(2026, 1, 1), lambda _: print, lambda _: 1j]
)
def test_what_is_not_plain_is_refused_and_nothing_runs(make: Any, protocol: int, tmp_path: Path) -> None:
    target = tmp_path / "ran"
    with pytest.raises(ModelError, match="may run code, and a snapshot holds plain data; do not load it"):
        read_plain(pickle.dumps([make(target)], protocol))
    assert not target.exists()


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"cos\nsystem\n(S'true'\ntR.", "it names 'os.system', which may run code"),
        (b"(S'true'\nios\nsystem\n.", "it names 'os.system'"),
        (b"\x80\x04\x8c\x02os\x8c\x06system\x93.", "it names 'os.system'"),
        (b"\x80\x04\x8c\x08builtins\x8c\x06object\x93)\x81.", "it names 'builtins.object'"),
        (b"cedgemem.no_such\nname\n.", "it names 'edgemem.no_such.name'"),
        (b"\x80\x02\x82\x01.", "unregistered extension code"),
        (b"Pabc\n.", "it refers to 'abc' outside of it"),
        (b"\x80\x04NQ.", "it refers to 'None' outside of it"),
        (b"\x80\x05\x97.", "damaged"),  # a buffer beside the pickle
        (b"\x80\x04]}b.", "damaged"),  # the state of a list
        (b"\x80\x04NN\x81.", "damaged"),
        (b"\x80\x04N)R.", "damaged"),  # calls None
        (b"", "damaged"),
        (b"\x80\x04", "damaged"),
        (b"\x80\x09N.", "unsupported pickle protocol: 9"),
        (b"\x80\x04.", "damaged"),
        (b"\x80\x04h\x00.", "damaged"),
        (b"\x80\x04\x8c\x01\xff.", "damaged"),
        (b"\x80\x04X\xff\xff\xff\xff.", "damaged"),
        (b"\x80\x04\x8b\xff\xff\xff\xff.", "damaged"),
        (b"\x80\x04}]Ns.", "unhashable type: 'list'"),
    ],
)
def test_damage_is_refused(data: bytes, says: str) -> None:
    with pytest.raises(ModelError) as caught:
        read_plain(data)
    assert says in str(caught.value)


@LIMITED
@pytest.mark.parametrize(
    "data",
    [
        b"\x80\x04Nr\xff\xff\xff\xff.",  # a large number of a value that others refer to
        b"\x80\x05\x96\x00\x00\x00\x00\x10\x00\x00\x00.",  # 64 GiB of bytes that follow
        b"\x80\x04]" + b"]\x94" * 6_000_000 + b".",
    ],
)
def test_memory_is_limited(data: bytes, tmp_path: Path) -> None:
    says = _refusal(tmp_path, data, most_memory=1 << 28)
    assert says == (
        "it takes more than 268,435,456 bytes of memory to read; record fewer events (max_entries), without stacks"
    )


def test_time_is_limited(tmp_path: Path) -> None:
    # t0 = (), t1 = (t0, t0), ... twice: two keys t100 are compared leaf by leaf, and there are 2**100. (Before
    # Python 3.14, where tuples keep their hash, that of one takes as long.)
    levels = b")\x94" + b"".join(b"h" + bytes([k]) + b"h" + bytes([k]) + b"\x86\x94" for k in range(100))
    again = b")\x94" + b"".join(b"h" + bytes([k]) + b"h" + bytes([k]) + b"\x86\x94" for k in range(101, 201))
    says = _refusal(tmp_path, b"\x80\x04}(" + levels + again + b"1h\x64Nsh\xc9Ns.", most_seconds=2)
    assert says == "it takes more than 2 s to read; record fewer events (max_entries), without stacks"


@pytest.mark.parametrize(
    "data",
    [
        b"\x80\x04)" + b"\x85" * 1_000_000 + b".",  # a deep nest
        b"\x80\x04]\x94h\x00a.",  # a list that contains itself
        b"\x80\x04}\x94\x8c\x08segmentsh\x00s.",
    ],
)
def test_nests_do_not_end_the_process(data: bytes, tmp_path: Path) -> None:
    assert "of the snapshot is no" in _refusal(tmp_path, data)


def test_any_bytes_are_plain_data_or_refused() -> None:
    data = pickle.dumps(PLAIN["a"])
    for at in range(len(data)):
        for value in b"\x00\x01.(0NRbcio]}\x81\x93\xff":
            with suppress(ModelError):
                read_plain(data[:at] + bytes([value]) + data[at + 1 :])


def test_a_snapshot_that_would_run_code_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "snapshot.pickle"
    path.write_bytes(pickle.dumps({"segments": [], "more": _Writes(tmp_path / "ran")}))
    with pytest.raises(ModelError, match=r"^snapshot\.pickle: it names 'builtins\.exec', which may run code"):
        load_histories(path)
    assert not (tmp_path / "ran").exists()
