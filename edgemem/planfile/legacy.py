"""Recorded plans as they were written before plan files of version 4. Read, never written.

They are in ONNX models, under the metadata key `edgemem.trace`:

    "EDGT", uint32 version, uint32 CRC-32 of what follows, uint32 length of the text, the text (JSON), plan files

The text lists the plans: the fingerprint, the number of events, the requests that stay on the heap as [event, bytes],
and the length of the plan file of the others. The plan files follow in the same order. All numbers are little-endian.
"""

from __future__ import annotations

import json
import struct
import zlib
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from edgemem.errors import EdgememError, PlanFileError
from edgemem.planfile.conditions import check_planset
from edgemem.planfile.decoding import decode
from edgemem.planfile.streams import HeapRequests, stream_of
from edgemem.trace.recording import Fingerprint, Recording, Signature
from edgemem.trace.trace import Trace

if TYPE_CHECKING:
    from collections.abc import Hashable

    from edgemem.plans import PlanSet
    from edgemem.trace.recording import OptionText

__all__ = ["MAGIC", "decode_recordings"]

MAGIC = b"EDGT"
_VERSION = 1
_HEADER = struct.Struct("<4sIII")
# The method in a signature whose results stay in the arena; now that is `Signature.shared`.
_SHARED_CALL = "run, results in the arena"


def decode_recordings(data: bytes) -> tuple[PlanSet, ...]:
    """The plan sets in such bytes, each with its recording. Of two with one fingerprint only the first counts.

    Safe for any bytes, as `edgemem.planfile.decode_all`: the plan sets are well-formed and may still be wrong, so
    an executor proves them first. Raises PlanFileError.
    """
    if len(data) < _HEADER.size:
        raise PlanFileError("no recorded plan: too short; record it again")
    magic, number, checksum, length = _HEADER.unpack_from(data)
    body = data[_HEADER.size :]
    if magic != MAGIC:
        raise PlanFileError(f"no recorded plan: it begins with {magic!r}; record it again")
    if number != _VERSION:
        raise PlanFileError(f"the recorded plan has version {number}, this edgemem reads {_VERSION}; record it again")
    if zlib.crc32(body) != checksum or length > len(body):
        raise PlanFileError("the recorded plan is damaged (its checksum differs); record it again")
    found: dict[Hashable, PlanSet] = {}
    position = length
    try:
        for entry in json.loads(body[:length]):
            size = _count(entry["bytes"])
            recording, planset = _decoded(entry, body[position : position + size])
            found.setdefault(recording.fingerprint.key, planset)
            position += size
    except (EdgememError, ValueError, TypeError, KeyError, IndexError, OverflowError, RecursionError) as e:
        raise PlanFileError(f"the recorded plan is malformed: {e}; record it again") from None
    if position != len(body):
        raise PlanFileError("the recorded plan is malformed: bytes belong to no plan; record it again")
    return tuple(found.values())


def _decoded(entry: dict[str, Any], file: bytes) -> tuple[Recording, PlanSet]:
    planset = decode(file)
    columns = np.array([(_count(event), _count(size)) for event, size in entry["heap"]], np.int64).reshape(-1, 2)
    heap = HeapRequests(columns[:, 0], columns[:, 1], np.full(len(columns), -1, np.int64))
    stream = stream_of(planset.problem, heap, _count(entry["events"]))
    recording = Recording(_fingerprint(entry["fingerprint"]), Trace.from_stream(stream))
    planset = replace(planset, recording=recording)
    check_planset(planset)
    return recording, planset


def _fingerprint(table: dict[str, Any]) -> Fingerprint:
    """What was the runtime's version was called the runtime; there was ONNX Runtime alone."""
    options: dict[str, OptionText] = {
        "level": str(table["level"]),
        "intra_threads": _count(table["intra_threads"]),
        "inter_threads": _count(table["inter_threads"]),
        "providers": ", ".join(map(str, table["providers"])),
    }
    return Fingerprint(
        "onnxruntime", str(table["runtime"]), str(table["model"]), options, _signature(table["signature"])
    )


def _signature(table: dict[str, Any]) -> Signature:
    call = str(table["call"])
    shared = call == _SHARED_CALL
    return Signature(
        call="run" if shared else call,
        inputs=tuple((str(n), str(t), tuple(map(_count, shape))) for n, t, shape in table["inputs"]),
        outputs=tuple(map(str, table["outputs"])),
        bound=bool(table["bound"]),
        shared=shared,
    )


def _count(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**62:
        raise ValueError(f"{value!r} is no count")
    return value
