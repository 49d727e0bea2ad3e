"""Plan files that no honest writer makes, each with a right checksum."""

from __future__ import annotations

import struct
import tracemalloc
import zlib
from contextlib import suppress
from typing import TYPE_CHECKING

import flatbuffers
import numpy as np

from edgemem.errors import PlanFileError
from edgemem.planfile import decode_all
from tests import plan_fbs as fbs

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["PEAK_FLOOR", "PEAK_RATIO", "Forge", "peak_of", "sealed"]

# Peak bytes allocated while decoding, for each byte of input: Python objects are larger than what they hold.
PEAK_RATIO = 24
PEAK_FLOOR = 1 << 16


def sealed(payload: bytes, version: int = 1) -> bytes:
    """A payload behind a right header."""
    return struct.pack("<4sIII", b"EDGM", version, zlib.crc32(payload), len(payload)) + payload


def peak_of(data: bytes) -> int:
    tracemalloc.start()
    try:
        with suppress(PlanFileError):
            decode_all(data)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


class Forge:
    """Payloads that no honest writer makes."""

    def __init__(self) -> None:
        self.builder = flatbuffers.Builder(1 << 16)

    def int64s(self, values: Sequence[int]) -> int:
        return int(self.builder.CreateNumpyVector(np.array(values, np.int64)))

    def octets(self, data: bytes) -> int:
        return int(self.builder.CreateByteVector(data))

    def string(self, text: str) -> int:
        return int(self.builder.CreateString(text))

    def table(self, name: str, **fields: float) -> int:
        getattr(fbs, f"{name}Start")(self.builder)
        for field, value in fields.items():
            getattr(fbs, f"{name}Add{field}")(self.builder, value)
        return int(getattr(fbs, f"{name}End")(self.builder))

    def offsets(self, places: Sequence[int]) -> int:
        self.builder.StartVector(4, len(places), 4)
        for place in reversed(places):
            self.builder.PrependUOffsetTRelative(place)
        return int(self.builder.EndVector())

    def strings(self, pieces: Sequence[bytes]) -> int:
        ends = np.cumsum([len(p) for p in pieces], dtype=np.int64)
        return self.table("Strings", Text=self.octets(b"".join(pieces)), Ends=self.int64s(ends.tolist()))

    def records(self, count: int) -> int:
        names = self.strings([b"%02x" % (i % 256) for i in range(count)])
        columns = [self.int64s([300 + i % 7 for i in range(count)]) for _ in range(3)]
        kinds = self.octets(bytes(i % 5 for i in range(count)))
        return self.table("Problem", Names=names, FirstOp=columns[0], LastOp=columns[1], Sizes=columns[2], Kinds=kinds)

    def finish(self, **fields: float) -> bytes:
        if "Problem" not in fields:
            fields["Problem"] = self.table("Problem")
        self.builder.Finish(self.table("PlanSet", **fields), b"EMPL")
        return sealed(bytes(self.builder.Output()))

    def finish_all(self, *plansets: int) -> bytes:
        """A file of version 4."""
        self.builder.Finish(self.table("PlanFile", PlanSets=self.offsets(plansets)), b"EMPF")
        return sealed(bytes(self.builder.Output()), 4)
