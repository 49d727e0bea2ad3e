"""Sizes as people write them."""

from __future__ import annotations

import re
from operator import index
from typing import Final

from edgemem.errors import EdgememError, PlanError
from edgemem.system.text import short_repr

__all__ = ["parse_size", "size_of"]

_BINARY = {letter + rest: 2**power for letter, power in (("k", 10), ("m", 20), ("g", 30)) for rest in ("", "ib")}
_UNITS = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, **_BINARY}
_MOST: Final = 2**62 - 1  # bytes


def parse_size(text: str) -> int:
    """Bytes from "262144", "256KiB", "256K", "1.5 MiB" or "2MB". KiB and K are 1024, kB is 1000.

    Raises PlanError otherwise.
    """
    match = re.fullmatch(r"\s*([0-9]{1,19}(?:\.[0-9]{1,18})?)\s*([a-z]*)\s*", text.lower())
    if not match or match[2] not in _UNITS:
        raise PlanError(f"{short_repr(text)} is no size; write bytes, or KiB (K), MiB, GiB, kB, MB, GB after a number")
    from decimal import Decimal  # only where a size is text

    return int(Decimal(match[1]) * _UNITS[match[2]])


def size_of(name: str, value: int | str, *, error: type[EdgememError] = PlanError) -> int:
    """Bytes from an argument of this name: a whole number, or text as `parse_size` has it. Raises `error` otherwise."""
    try:
        size = parse_size(value) if isinstance(value, str) else -1 if isinstance(value, bool) else index(value)
    except (PlanError, TypeError):
        size = -1
    if not 0 <= size <= _MOST:
        raise error(
            f"{name} is {short_repr(value)}; give a whole number of bytes from 0 to {_MOST:,}, or text such as '64MiB'"
        )
    return size
