"""Damaged plan files: no bytes make `decode` raise anything but PlanFileError.

The checksum is not a defence: most payloads here are sealed again after they were damaged.
"""

from __future__ import annotations

import struct
import tracemalloc
import zlib
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from edgemem.errors import PlanFileError
from edgemem.planfile import decode, encode
from edgemem.plans import LowerBounds, OffsetPlan, PlanSet, SharedObjectsPlan
from edgemem.records.problem import Problem, UsageRecord
from edgemem.targets import BUILT_IN


def small() -> PlanSet:
    problem = Problem([UsageRecord("a", 0, 1, (2, 3), "input", ("a", "v")), UsageRecord("ü", 1, 1, (4, 1))])
    column = np.array([0, 1], np.int64)
    return PlanSet(
        problem,
        naive=10,
        bounds=LowerBounds(10, 10),
        offsets=(OffsetPlan("o", {"k": True, "t": "x"}, column, 10, True),),
        shared_objects=(SharedObjectsPlan("s", {}, column, ((2, 3), (4, 1)), 10, False),),
        target=BUILT_IN["gpu-texture"],
        digest="00ff",
        steps=("x", "y"),
        unplanned=(("u", "why"),),
        order=(1, 0),
        dims={"N": 2},
        input_shapes={"a": (1, 2)},
        versions={"edgemem": "1"},
    )


def bare() -> PlanSet:
    return PlanSet(Problem([UsageRecord("a", 0, 0, 1)]), 1, LowerBounds(1, 1), (), ())


FILES = {"small": encode(small()), "bare": encode(bare())}


def sealed(payload: bytes) -> bytes:
    return struct.pack("<4sIII", b"EDGM", 1, zlib.crc32(payload), len(payload)) + payload


def refused_or_sound(data: bytes) -> bool:
    """Whether the bytes were read; then they must be a plan set that survives being written again."""
    try:
        planset = decode(data)
    except PlanFileError:
        return False
    assert encode(decode(encode(planset))) == encode(planset)
    return True


@pytest.mark.parametrize("name", FILES)
def test_every_bit_flip_is_detected(name: str) -> None:
    data = bytearray(FILES[name])
    for position in range(len(data)):
        for bit in range(8):
            data[position] ^= 1 << bit
            with pytest.raises(PlanFileError):
                decode(bytes(data))
            data[position] ^= 1 << bit
    assert bytes(data) == FILES[name]


@pytest.mark.parametrize("name", FILES)
def test_every_truncation_is_detected(name: str) -> None:
    data = FILES[name]
    for length in range(len(data)):
        with pytest.raises(PlanFileError):
            decode(data[:length])
        if length >= 16:
            assert not refused_or_sound(sealed(data[16:length])) or set(data[length:]) == {0}


@pytest.mark.parametrize("extra", [b"\0", b"\0" * 16, b"EDGM", FILES["bare"]])
def test_appended_bytes_are_detected(extra: bytes) -> None:
    with pytest.raises(PlanFileError, match="should have"):
        decode(FILES["small"] + extra)


def test_every_sealed_bit_flip_is_refused_or_sound() -> None:
    payload = bytearray(FILES["bare"][16:])
    read = 0
    for position in range(len(payload)):
        for bit in range(8):
            payload[position] ^= 1 << bit
            read += refused_or_sound(sealed(bytes(payload)))
            payload[position] ^= 1 << bit
    assert 0 < read < 8 * len(payload)


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=400), st.booleans())
@example(b"", False)
@example(b"", True)
def test_random_payloads(tail: bytes, headed: bool) -> None:
    refused_or_sound(sealed(struct.pack("<I", 12) + b"EMPL" + tail if headed else tail))


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=400))
def test_random_files(data: bytes) -> None:
    with pytest.raises(PlanFileError):
        decode(data)


EDGES = [0, 1, 2, 3, 4, 8, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0xFFFFFFFC, 0xFFFFFFF8, 0x20000000, 0x1FFFFFFF]


@settings(max_examples=1500, deadline=None)
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
    refused_or_sound(sealed(bytes(payload)))


def test_mutated_bytes_stay_within_memory() -> None:
    rng = np.random.default_rng(7)
    data = FILES["small"]
    tracemalloc.start()
    try:
        for _ in range(1500):
            payload = np.frombuffer(data[16:], np.uint8).copy()
            places = rng.integers(0, len(payload), rng.integers(1, 8))
            payload[places] = rng.integers(0, 256, len(places))
            tracemalloc.reset_peak()
            before = tracemalloc.get_traced_memory()[0]
            with suppress(PlanFileError):
                decode(sealed(payload.tobytes()))
            assert tracemalloc.get_traced_memory()[1] - before <= 24 * len(data) + (1 << 16)
    finally:
        tracemalloc.stop()
