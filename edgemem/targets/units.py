"""Sizes as people write them."""

from __future__ import annotations

import re

from edgemem.errors import PlanError
from edgemem.system.text import short_repr

__all__ = ["parse_size"]

_BINARY = {letter + rest: 2**power for letter, power in (("k", 10), ("m", 20), ("g", 30)) for rest in ("", "ib")}
_UNITS = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, **_BINARY}


def parse_size(text: str) -> int:
    """Bytes from "262144", "256KiB", "256K", "1.5 MiB" or "2MB". KiB and K are 1024, kB is 1000.

    Raises PlanError otherwise.
    """
    match = re.fullmatch(r"\s*([0-9]{1,19}(?:\.[0-9]{1,18})?)\s*([a-z]*)\s*", text.lower())
    if not match or match[2] not in _UNITS:
        raise PlanError(f"{short_repr(text)} is no size; write bytes, or KiB (K), MiB, GiB, kB, MB, GB after a number")
    from decimal import Decimal  # only where a size is text

    return int(Decimal(match[1]) * _UNITS[match[2]])
