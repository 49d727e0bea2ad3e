"""Figures of several processes that measured the same: medians over what each of them told, and ratios of two sides.

Ratios are of runs that alternated: whatever else the machine did in that time hit both sides alike. Times are processor
time of the whole process.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from math import comb
from statistics import median
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from edgemem.system.files import temporary_folder
from edgemem.system.meeting import Meeting

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    Answer = Mapping[str, Any]

__all__ = ["TimeRatio", "ask_together", "middle", "ratio_of_turns", "start_times", "turn_times"]

_LEFT_OUT: Final = 0.025  # at each end of an interval of 95 %


@dataclass(frozen=True, slots=True)
class TimeRatio:
    """Time of one side over that of the other one: the median of the pairs, and an interval that holds it.

    `low` and `high` are the ends of the 95 % intervals of the median of each round, the lowest and the highest.
    """

    median: float
    low: float
    high: float


def middle(answers: Sequence[Answer], key: str) -> int | None:
    """The median of a size that processes told, rounded; None if one could not tell it."""
    known = [a[key] for a in answers if a[key] is not None]
    return int(median(known)) if len(known) == len(answers) else None


def start_times(answers: Sequence[Answer]) -> dict[str, Any]:
    """What processes told of their beginning: `load_ms` and `first_ms`, medians."""
    return {key: median(a[key] for a in answers) for key in ("load_ms", "first_ms")}


def turn_times(answers: Sequence[Answer]) -> dict[str, Any]:
    """What processes told of their turns: `latency_ms`, the median, and `p99_ms`."""
    latencies = [ms for a in answers for ms in a["turns_ms"]]
    return {"latency_ms": median(latencies), "p99_ms": float(np.percentile(latencies, 99))}


def ask_together(
    tasks: Sequence[Mapping[str, Any]], ask: Callable[[Mapping[str, Any]], dict[str, Any]]
) -> list[dict[str, Any]]:
    """The answers of processes that run at once and wait for each other.

    Args:
        tasks: one a process; each gets `meeting`, `number` and `together`, the arguments of its `Meeting`.
        ask: runs one process; an answer with `failed` says that it has gone.
    """
    with temporary_folder() as folder, ThreadPoolExecutor(len(tasks)) as pool:

        def serve(number: int) -> dict[str, Any]:
            answer = ask({**tasks[number], "meeting": str(folder), "number": number, "together": len(tasks)})
            if "failed" in answer:
                Meeting(str(folder)).leave()
            return answer

        return list(pool.map(serve, range(len(tasks))))


def ratio_of_turns(rounds: Sequence[tuple[Answer, Answer]]) -> TimeRatio | None:
    """The ratio of two sides that took turns in each of the rounds; None where no time could be read."""
    ratios = [
        [mine / other for mine, other in zip(a["turns_ms"], b["turns_ms"], strict=True) if other] for a, b in rounds
    ]
    intervals = [_interval_of_median(made) for made in ratios if made]
    if not intervals:
        return None
    middle_ratio = median(ratio for made in ratios for ratio in made)
    return TimeRatio(middle_ratio, min(low for low, _ in intervals), max(high for _, high in intervals))


def _interval_of_median(values: Sequence[float]) -> tuple[float, float]:
    """The 95 % interval of the median by order statistics; all values where there are fewer than six."""
    ordered, count = sorted(values), len(values)
    below, left_out = 0, 0.0
    while (left_out := left_out + comb(count, below) / 2**count) <= _LEFT_OUT:
        below += 1
    place = max(below - 1, 0)
    return ordered[place], ordered[count - 1 - place]
