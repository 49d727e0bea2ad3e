"""Damaged plan files: no bytes make `decode` raise anything but PlanFileError.

The checksum is not a defence: most payloads here are sealed again after they were damaged.
"""

from __future__ import annotations

import struct
import tracemalloc
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from edgemem.errors import PlanFileError
from edgemem.planfile import decode
from tests import extent
from tests.forge import sealed
from tests.fuzz.plan_files import FILES, refused_or_sound


@pytest.mark.parametrize("name", ["small", "bare", "bare recording"])
def test_every_bit_flip_is_detected(name: str) -> None:
    data = bytearray(FILES[name])
    for position in range(len(data)):
        for bit in range(8):
            data[position] ^= 1 << bit
            with pytest.raises(PlanFileError):
                decode(bytes(data))
            data[position] ^= 1 << bit
    assert bytes(data) == FILES[name]


@pytest.mark.parametrize("name", ["small", "bare", "bare recording"])
def test_every_truncation_is_detected(name: str) -> None:
    data = FILES[name]
    for length in range(len(data)):
        with pytest.raises(PlanFileError):
            decode(data[:length])
        if length >= 16:
            assert not refused_or_sound(sealed(data[16:length], data[4])) or set(data[length:]) == {0}


@pytest.mark.parametrize("extra", [b"\0", b"\0" * 16, b"EDGM", FILES["bare"]])
def test_appended_bytes_are_detected(extra: bytes) -> None:
    with pytest.raises(PlanFileError, match="should have"):
        decode(FILES["small"] + extra)


@pytest.mark.full
@pytest.mark.parametrize(
    ("name", "step"), [("bare", 1 if extent.exhaustive else 5), ("bare recording", 3 if extent.exhaustive else 11)]
)
def test_every_sealed_bit_flip_is_refused_or_sound(name: str, step: int) -> None:
    version, payload = FILES[name][4], bytearray(FILES[name][16:])
    flips = range(0, 8 * len(payload), step)
    read = 0
    for flip in flips:
        payload[flip // 8] ^= 1 << flip % 8
        read += refused_or_sound(sealed(bytes(payload), version))
        payload[flip // 8] ^= 1 << flip % 8
    assert 0 < read < len(flips)


@settings(max_examples=extent.examples(300), deadline=None)
@given(st.binary(max_size=400), st.sampled_from([(1, b""), (1, b"EMPL"), (4, b"EMPF")]))
@example(b"", (1, b""))
@example(b"", (1, b"EMPL"))
@example(b"", (4, b"EMPF"))
def test_random_payloads(tail: bytes, kind: tuple[int, bytes]) -> None:
    version, identifier = kind
    refused_or_sound(sealed(struct.pack("<I", 12) + identifier + tail if identifier else tail, version))


@settings(max_examples=extent.examples(300), deadline=None)
@given(st.binary(max_size=400))
def test_random_files(data: bytes) -> None:
    with pytest.raises(PlanFileError):
        decode(data)


EDGES = [0, 1, 2, 3, 4, 8, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0xFFFFFFFC, 0xFFFFFFF8, 0x20000000, 0x1FFFFFFF]


@pytest.mark.full
@settings(max_examples=extent.examples(1500), deadline=None)
@given(
    st.sampled_from(sorted(FILES)),
    st.lists(st.tuples(st.integers(0, 10**4), st.integers(-64, 64) | st.sampled_from(EDGES)), min_size=1, max_size=4),
)
def test_mutated_words(name: str, changes: list[tuple[int, int]]) -> None:
    payload = bytearray(FILES[name][16:])
    for place, value in changes:
        position = place * 4 % (len(payload) - 3)
        old = struct.unpack_from("<I", payload, position)[0]
        struct.pack_into("<I", payload, position, value % 2**32 if value in EDGES else (old + value) % 2**32)
    refused_or_sound(sealed(bytes(payload), FILES[name][4]))


@pytest.mark.full
@pytest.mark.parametrize(("name", "rounds"), [("small", 1500), ("several", 500)])
def test_mutated_bytes_stay_within_memory(name: str, rounds: int) -> None:
    rng = np.random.default_rng(7)
    data = FILES[name]
    tracemalloc.start()
    try:
        for _ in range(rounds):
            payload = np.frombuffer(data[16:], np.uint8).copy()
            places = rng.integers(0, len(payload), rng.integers(1, 8))
            payload[places] = rng.integers(0, 256, len(places))
            tracemalloc.reset_peak()
            before = tracemalloc.get_traced_memory()[0]
            with suppress(PlanFileError):
                decode(sealed(payload.tobytes(), data[4]))
            assert tracemalloc.get_traced_memory()[1] - before <= 24 * len(data) + (1 << 16)
    finally:
        tracemalloc.stop()
