"""SHA-256 by the kernels: Python's hashlib loads OpenSSL, which takes 4 MiB of a session's process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgemem import native

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["sha256"]


def sha256(parts: Sequence[bytes | memoryview]) -> str:
    """The SHA-256 (FIPS 180-4) of all parts, one after the other, as 64 hexadecimal digits."""
    if native.COMPILED:
        return native.kernels.sha256(list(parts)).hex()
    import hashlib  # only where edgemem was built without a compiler

    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    return digest.hexdigest()
