"""SHA-256 by the kernels: Python's hashlib loads OpenSSL, which takes 4 MiB of a session's process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgemem.native import kernels

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["sha256"]


def sha256(parts: Iterable[bytes | memoryview]) -> str:
    """The SHA-256 (FIPS 180-4) of all parts, one after the other, as 64 hexadecimal digits."""
    digest = kernels.Sha256()
    for part in parts:
        digest.update(part)
    return digest.digest().hex()
