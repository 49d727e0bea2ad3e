"""Sizes as people write them."""

from __future__ import annotations

import re

from edgemem.errors import PlanError
from edgemem.reading import shown

__all__ = ["parse_size"]

_UNITS = {"": 1, "b": 1, "kib": 2**10, "mib": 2**20, "gib": 2**30, "kb": 10**3, "mb": 10**6, "gb": 10**9}


def parse_size(text: str) -> int:
    """Bytes from "262144", "256KiB", "1.5 MiB" or "2MB" (KiB is 1024, kB is 1000). Raises PlanError otherwise."""
    match = re.fullmatch(r"\s*([0-9]{1,19}(?:\.[0-9]{1,18})?)\s*([a-z]*)\s*", text.lower())
    if not match or match[2] not in _UNITS:
        raise PlanError(f"{shown(text)} is no size; write bytes, or KiB, MiB, GiB, kB, MB, GB after a number")
    from decimal import Decimal  # only where a size is text

    return int(Decimal(match[1]) * _UNITS[match[2]])
