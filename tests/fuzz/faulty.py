"""A target that does everything a target must not do. `tests/fuzz/test_harness.py` fuzzes it."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

from edgemem.errors import ModelError
from tests.fuzz.cases import Target

if TYPE_CHECKING:
    import random
    from collections.abc import Sequence

__all__ = ["TARGET"]

WAYS = (b"fine", b"refused", b"foreign", b"crash", b"hang", b"memory")


def _run(data: bytes) -> None:
    if data == b"refused":
        raise ModelError("no")
    if data == b"foreign":
        raise KeyError("something")
    if data == b"crash":
        os.kill(os.getpid(), signal.SIGSEGV)
    if data == b"hang":
        while True:
            pass
    if data == b"memory":
        bytearray(1 << 30)


def _mutate(chance: random.Random, _: bytes, __: Sequence[bytes]) -> bytes:
    return chance.choice(WAYS)


TARGET = Target(_run, lambda: [b"fine"], _mutate)
