"""Figures of several processes that measured the same: medians over what each of them told."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["middle", "times"]


def middle(answers: Sequence[Mapping[str, Any]], key: str) -> int | None:
    """The median of a size that processes told, rounded; None if one could not tell it."""
    known = [a[key] for a in answers if a[key] is not None]
    return int(median(known)) if len(known) == len(answers) else None


def times(answers: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What processes told of their runs: `load_ms`, `first_ms`, `latency_ms` (medians) and `p99_ms`."""
    latencies = [ms for a in answers for ms in a["latencies_ms"]]
    return {
        "load_ms": median(a["load_ms"] for a in answers),
        "first_ms": median(a["first_ms"] for a in answers),
        "latency_ms": median(latencies),
        "p99_ms": float(np.percentile(latencies, 99)),
    }
