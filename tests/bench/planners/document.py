"""Measured rows as plain data for JSON."""

from __future__ import annotations

import os
import platform
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from edgemem.system import distribution
from tests.bench.planners.measurement import summary

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.bench.planners.measurement import BenchSolver, PeerLimits, Row

__all__ = ["document"]

VERSION = 1


def document(rows: Sequence[Row], columns: Sequence[BenchSolver], limits: PeerLimits, repeat: int) -> dict[str, Any]:
    """The measured rows with the versions, the machine, the limits and the time."""
    versions = {"edgemem": distribution.VERSION, "python": platform.python_version(), "numpy": version("numpy")}
    return {
        "version": VERSION,
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": versions | {c.peer.distribution: c.peer.version() for c in columns if c.peer},
        "machine": {"platform": platform.platform(), "processor": _processor(), "cpu_count": os.cpu_count()},
        "family": columns[0].family,
        "repeat": repeat,
        "peer_limit_s": limits.peer_seconds,
        "rows": [{**asdict(row), "to_best_peer_ratio": row.to_best_peer_ratio} for row in rows],
        "summary": [asdict(s) for s in summary(rows)],
    }


def _processor() -> str:
    """The processor's name, as far as the system reports it."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:  # noqa: PTH123
            found = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")
    except OSError:
        found = ""
    return found or platform.processor() or platform.machine()
