"""Offset strategies from a few hundred to a million usage records, beside omnimalloc's greedy by size.

    python tests/bench/scaling.py [--full] [--json FILE]

Seconds are processor time of one call (both sides use one core), the least of several. Both sides of the comparison
are timed in one process, in turns, on the same instance; omnimalloc's objects are made beforehand, as is edgemem's
Problem. Peak resident memory is that of a process of its own which runs one side, with everything it holds. Both place
the largest record first; omnimalloc into the lowest gap, edgemem into the smallest. The default run leaves out what
takes minutes.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import Console
from rich.table import Table

from edgemem import _kernels
from edgemem.records import Problem
from edgemem.strategy.registry import find

if TYPE_CHECKING:
    from collections.abc import Callable

SEED = 20240229
PEER = "omnimalloc"
# records, operators. Every lifetime is 1 to 500 operators: sparse instances have about 100 records alive, dense ones
# n / 40.
INSTANCES = {
    "few_300": (300, 750),
    **{f"sparse_1e{e}": (10**e, 25 * 10 ** (e - 1)) for e in (3, 4, 5, 6)},
    **{f"dense_1e{e}": (10**e, 10_000) for e in (3, 4, 5)},
}
STRATEGIES = ("greedy_by_size", "greedy_by_breadth", "greedy_in_order", "strip_packing")
SLOW = {(PEER, "sparse_1e6"), (PEER, "dense_1e5"), ("strip_packing", "sparse_1e6")}


def make(instance: str) -> Problem:
    count, horizon = INSTANCES[instance]
    rng = np.random.default_rng([SEED, count, horizon])
    first = rng.integers(0, horizon, count)
    return Problem.from_arrays(first, first + rng.integers(0, 500, count), rng.integers(1, 10**6, count, endpoint=True))


def solver(side: str, problem: Problem) -> Callable[[], int]:
    """A call that plans once and returns the arena."""
    if side != PEER:
        run = find("offsets", side).run
        return lambda: int((run(problem) + problem.size).max())
    from omnimalloc import Allocation
    from omnimalloc.allocators import GreedyBySizeAllocator

    columns = (problem.size.tolist(), problem.first_op.tolist(), (problem.last_op + 1).tolist())
    rows = tuple(Allocation(i, *row) for i, row in enumerate(zip(*columns, strict=True)))
    allocator = GreedyBySizeAllocator()
    return lambda: max((a.offset or 0) + a.size for a in allocator.allocate(rows))


def measure(instance: str, sides: list[str]) -> dict[str, Any]:
    """Runs in a process of its own: seconds and arena of each side, in turns; the bound; the peak memory of it all."""
    problem = make(instance)
    solvers = {side: solver(side, problem) for side in sides}
    seconds: dict[str, float] = {}
    arenas: dict[str, int] = {}
    began = time.process_time()
    for turn in range(5):
        for side, solve in solvers.items():
            start = time.process_time()
            arenas[side] = solve()
            seconds[side] = min(time.process_time() - start, seconds.get(side, float("inf")))
        if turn == 0 and len(sides) == 1 and time.process_time() - began > 1:
            break
        if time.process_time() - began > 5:
            break
    bound = _kernels.offset_lower_bound(problem.first_op, problem.last_op, problem.size, problem.alignment)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # KiB on Linux
    return {"seconds": seconds, "arena": arenas, "bound": bound, "rss_mib": peak / 1024}


def child(instance: str, sides: list[str]) -> dict[str, Any]:
    command = [sys.executable, __file__, "--measure", instance, *sides]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    answer: dict[str, Any] = json.loads(result.stdout)
    return answer


def peer_is_installed() -> bool:
    try:
        import omnimalloc  # noqa: F401
    except ImportError:
        return False
    return True


def rows_of(instance: str, *, peer: bool, full: bool) -> list[dict[str, Any]]:
    rows = []
    for side in (*STRATEGIES, *([PEER] if peer else [])):
        if (side, instance) in SLOW and not full:
            continue
        alone = child(instance, [side])
        seconds, ratio = alone["seconds"][side], None
        if side == PEER:
            both = child(instance, [STRATEGIES[0], PEER])["seconds"]
            seconds, ratio = both[PEER], both[PEER] / both[STRATEGIES[0]]
        rows.append(
            {
                "instance": instance,
                "records": INSTANCES[instance][0],
                "strategy": f"{PEER} greedy_by_size" if side == PEER else side,
                "seconds": seconds,
                "arena_to_bound_ratio": alone["arena"][side] / alone["bound"],
                "rss_mib": alone["rss_mib"],
                "seconds_to_greedy_by_size_ratio": ratio,
            }
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--full", action="store_true", help="also what takes minutes")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows there as well")
    parser.add_argument("--only", nargs="+", choices=INSTANCES, default=list(INSTANCES), metavar="INSTANCE")
    parser.add_argument("--measure", nargs="+", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        print(json.dumps(measure(arguments.measure[0], arguments.measure[1:])))
        return

    console = Console()
    peer = peer_is_installed()
    if not peer:
        console.print(f"{PEER} is not installed (pip install {PEER}): no comparison")
    table = Table(title="offset strategies")
    for heading in (
        "instance",
        "strategy",
        "CPU seconds",
        "arena / bound",
        "peak RSS MiB",
        f"{PEER} / edgemem seconds",
    ):
        table.add_column(heading, justify="left" if heading in ("instance", "strategy") else "right")
    rows = []
    for instance in arguments.only:
        for row in rows_of(instance, peer=peer, full=arguments.full):
            rows.append(row)
            ratio = row["seconds_to_greedy_by_size_ratio"]
            table.add_row(
                instance,
                row["strategy"],
                f"{row['seconds']:.5f}" if row["seconds"] < 0.01 else f"{row['seconds']:.3f}",
                f"{row['arena_to_bound_ratio']:.4f}",
                f"{row['rss_mib']:.0f}",
                "" if ratio is None else f"{ratio:.1f}",
            )
        table.add_section()
    console.print(table)
    if not arguments.full:
        console.print("left out (--full): " + ", ".join(f"{side} on {instance}" for side, instance in sorted(SLOW)))
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
