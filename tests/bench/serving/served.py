"""The same requests served by a plain and a planned session: their time, and the memory of a process for each."""

from __future__ import annotations

import time
from statistics import median
from typing import TYPE_CHECKING, Any

from tests.bench.serving import sessions
from tests.bench.serving.children import child_output

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tests.bench.serving.checks import Checks

__all__ = ["WARM", "compare_memory", "compare_times", "time_ratio"]

SLOWER = 1.02
WARM = 10  # requests that do not count as time: the first ones of a server


def compare_times(name: str, path: Path, requests: Sequence[str], threads: int, checks: Checks) -> None:
    """Both serve every request in this process, and which goes first changes with each; results are compared."""
    plain, planned = sessions.plain(path, threads), sessions.planned(path, threads, cache=False)
    seconds: dict[str, list[float]] = {"plain": [], "planned": []}
    busy = {"plain": 0.0, "planned": 0.0}
    equal = True
    for k, request in enumerate(requests):
        feeds = sessions.requested(plain, request)
        results: dict[str, Any] = {}
        ways = [("plain", plain), ("planned", planned)]
        for way, session in ways if k % 2 else reversed(ways):
            began, worked = time.perf_counter(), time.thread_time()
            results[way] = session.run(None, feeds)
            seconds[way].append(time.perf_counter() - began)
            busy[way] += time.thread_time() - worked if k >= WARM else 0
        equal &= sessions.same(results["plain"], results["planned"])
    counted = {way: row[WARM:] for way, row in seconds.items()}
    ratio = time_ratio(counted["plain"], counted["planned"])
    middle = median(b / a for a, b in zip(counted["plain"], counted["planned"], strict=True))
    each = {way: sum(row) / len(row) * 1e3 for way, row in counted.items()}
    memory = planned.memory
    print(
        f"\n{name}: {len(requests)} requests, {threads} threads; ms a request {each['plain']:.2f} plain, "
        f"{each['planned']:.2f} planned; median of the ratios {middle:.3f}, of the calling thread's "
        f"processor time {busy['planned'] / busy['plain']:.3f}; {memory.replayed} of {memory.runs} runs "
        f"replayed, {memory.bails} left their plan; worst {max(counted['plain']) * 1e3:.1f} and "
        f"{max(counted['planned']) * 1e3:.1f} ms; {memory.mode}; arenas {memory.arena / 2**20:.1f} MiB"
    )
    checks.holds(f"{name}: equal results", equal)
    checks.at_most(f"{name}: time of all requests after the first {WARM}", ratio, SLOWER)
    planned.close()


def time_ratio(plain: Sequence[float], planned: Sequence[float], blocks: int = 10) -> float:
    """How much longer the second took: the median over blocks of requests, each the ratio of its sums.

    A cost that comes with every tenth request or more often counts; a stall of the machine does not.
    """
    size = max(1, len(plain) // blocks)
    return median(sum(planned[k : k + size]) / sum(plain[k : k + size]) for k in range(0, len(plain), size))


def compare_memory(name: str, path: Path, requests: Sequence[str], threads: int, against: str, checks: Checks) -> None:
    """RSS after all requests, a process for each way; `against` is the way that sets the limit."""
    grown = {}
    for way in ("plain", "tuned", "planned"):
        grown[way] = [int(part) for part in child_output("requests_child.py", path, threads, way, *requests).split()]
    for what, k in (("RSS growth", 0), ("peak", 1)):
        print(f"{name}: {what}: " + ", ".join(f"{way} {row[k] / 2**20:.1f}" for way, row in grown.items()) + " MiB")
    checks.at_most(f"{name}: RSS growth against {against}", grown["planned"][0] / grown[against][0], 1.0)
