"""Commands in a terminal, for tests."""

from __future__ import annotations

import os
import pty
import subprocess
import sys

__all__ = ["in_terminal"]


def in_terminal(*arguments: object, columns: int = 80, with_errors: bool = True) -> str:
    """What a terminal of so many columns gets from `edgemem`; without `with_errors` only what is on stdout."""
    parent, child = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "edgemem", *map(str, arguments)],
        stdout=child,
        stderr=child if with_errors else subprocess.DEVNULL,
        env={**os.environ, "COLUMNS": str(columns), "TERM": "xterm"},
    )
    os.close(child)
    got = b""
    while True:
        try:
            block = os.read(parent, 1 << 16)
        except OSError:  # the other end is closed
            break
        if not block:
            break
        got += block
    os.close(parent)
    process.wait(60)
    return got.decode()
