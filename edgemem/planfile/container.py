"""The 16 bytes before the FlatBuffer: they make truncation, damage and other versions visible before anything is read.

Magic "EDGM", then three little-endian uint32: format version, CRC-32 of the payload, payload length in bytes. The
header is 16 bytes long so that a container at a 16-aligned place keeps the FlatBuffer 16-aligned.
"""

from __future__ import annotations

import struct
from binascii import crc32  # as zlib has it, in a module that sessions have loaded

from edgemem.errors import PlanFileError

__all__ = ["FORMAT", "HEADER_SIZE", "VERSION", "check_header", "check_whole", "unwrap", "wrap"]

FORMAT = "1.0"  # what docs/plan-file.md promises for the versions below; an addition that readers may ignore makes 1.1
VERSION = 4  # the greatest in a header; a file has the least that can say what is in it
_MAGIC = b"EDGM"
_HEADER = struct.Struct("<4sIII")
HEADER_SIZE = _HEADER.size


def wrap(payload: bytes, version: int) -> bytes:
    """The payload behind its header. FlatBuffers end at 2 GiB, so the length always fits."""
    return _HEADER.pack(_MAGIC, version, crc32(payload), len(payload)) + payload


def check_header(header: bytes, size: int) -> int:
    """The payload's CRC-32. Raises PlanFileError unless this header can begin a plan file of `size` bytes."""
    if len(header) < HEADER_SIZE:
        raise PlanFileError(f"no plan file: {len(header)} bytes are too short for its header")
    magic, version, checksum, length = _HEADER.unpack_from(header)
    if magic != _MAGIC:
        raise PlanFileError(f"no plan file: it begins with {magic!r} instead of {_MAGIC!r}")
    if not 1 <= version <= VERSION:
        raise PlanFileError(
            f"the plan file has format version {version}, this edgemem reads versions 1 to {VERSION}; "
            f"{'update edgemem-planner' if version > VERSION else 'plan again'}"
        )
    if size != HEADER_SIZE + length:
        raise PlanFileError(
            f"the plan file should have {HEADER_SIZE + length} bytes and has {size}; copy it again, or plan again"
        )
    return int(checksum)


def check_whole(data: bytes) -> None:
    """Raise PlanFileError unless every byte is as it was written."""
    if crc32(memoryview(data)[HEADER_SIZE:]) != check_header(data[:HEADER_SIZE], len(data)):
        raise PlanFileError("the plan file is damaged (its checksum differs); copy it again, or plan again")


def unwrap(data: bytes) -> tuple[memoryview, int]:
    """The payload, without a copy, and the version. Raises PlanFileError as `check_whole`."""
    check_whole(data)
    return memoryview(data)[HEADER_SIZE:], int.from_bytes(data[4:8], "little")
