"""SHA-256 by the allocator's library, which a session has in any case.

Python's hashlib loads OpenSSL, which takes 4 MiB of a process; it is used where there is no allocator.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Final

from edgemem.errors import RuntimeBindError
from edgemem.replay.library import library

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["sha256"]

_BYTES: Final = 32  # of a digest


def sha256(parts: Iterable[bytes]) -> str:
    """The SHA-256 (FIPS 180-4) of all parts, one after the other, as 64 hexadecimal digits."""
    try:
        c = library().c
    except RuntimeBindError:
        from hashlib import sha256 as plain  # seldom needed

        plain_sum = plain()
        for part in parts:
            plain_sum.update(part)
        return plain_sum.hexdigest()
    made = c.em_sha256_create()
    if not made:
        raise MemoryError("no memory for a digest")
    try:
        for part in parts:
            c.em_sha256_update(made, part, len(part))
        out = ctypes.create_string_buffer(_BYTES)
        c.em_sha256_finish(made, out)
        return out.raw.hex()
    finally:
        c.em_sha256_release(made)
