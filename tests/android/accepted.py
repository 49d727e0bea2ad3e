"""What Android's own tools for packages say of one."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["ANDROIDS", "accepted", "ran"]

ANDROIDS: Final = ("aapt", "apksigner", "zipalign")


def ran(*command: object) -> str:
    """What a program printed; it must succeed."""
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def accepted(apk: Path) -> str:
    """What `aapt dump badging` says of a package, which apksigner and zipalign must accept."""
    said = ran("apksigner", "verify", "--verbose", "--min-sdk-version", "24", apk)
    assert "Verified using v2 scheme (APK Signature Scheme v2): true" in said
    ran("zipalign", "-c", "-p", "4", apk)
    return ran("aapt", "dump", "badging", apk)
