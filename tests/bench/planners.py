"""`search` beside the planners of omnimalloc, on puzzles of known optimum, random problems and the published instances.

    python tests/bench/planners.py [--effort fast|default|max] [--limit SECONDS] [--only NAME ...] [--json FILE]

Ratios are arena / lower bound by the load. Seconds are processor time of one call; every planner runs in the same
process, one after the other. The peers get the limit as their timeout, single-threaded where they have threads.
Published instances are CSV files of (id, lower, upper, size), half-open, in `../shared/data/instances` or where
EDGEMEM_SHARED points; they are left out when absent, and the peers when omnimalloc is not installed.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import sys
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).parents[2]))

from edgemem import _kernels
from edgemem.records import Problem
from edgemem.strategy.offsets.search import WORK
from tests.bench.instances import PUZZLES, random_dense, random_sparse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

LARGEST_FOR_PEERS = 10_000  # above it they take minutes and gigabytes


def published() -> Iterator[tuple[str, Callable[[], Problem]]]:
    beside = Path(__file__).parents[2].parent / "shared"
    for path in sorted((Path(os.environ.get("EDGEMEM_SHARED", beside)) / "data" / "instances").glob("*.csv")):

        def read(path: Path = path) -> Problem:
            with path.open(newline="") as rows:
                table = np.array([[int(r[c]) for c in ("lower", "upper", "size")] for r in csv.DictReader(rows)])
            return Problem.from_arrays(table[:, 0], table[:, 1] - 1, table[:, 2])

        yield path.stem, read


def instances() -> dict[str, Callable[[], Problem]]:
    found = dict(published())
    for name, make in PUZZLES.items():
        for count in (100, 300, 1_000, 10_000):
            for percent in (0, 2, 5):
                title = f"{name}_{count}" + (f"_less_{percent}%" if percent else "")
                found[title] = partial(make, count, 1, removed=percent / 100)
    for count in (250, 1_000, 10_000, 1_000_000):
        found[f"sparse_{count}"] = partial(random_sparse, count, 1)
        if count <= LARGEST_FOR_PEERS:
            found[f"dense_{count}"] = partial(random_dense, count, 1)
    return found


def search(problem: Problem, effort: str) -> dict[str, Any]:
    p = problem
    start = time.process_time()
    offsets, bound, stopped, work = _kernels.search_offsets(p.first_op, p.last_op, p.size, p.alignment, WORK[effort])
    seconds = time.process_time() - start
    return {"arena": int((offsets + p.size).max()), "seconds": seconds, "bound": bound, "stop": stopped, "work": work}


def peers(problem: Problem, limit: float) -> dict[str, dict[str, Any]]:
    try:
        from omnimalloc import Allocation
        from omnimalloc import allocators as theirs
    except ImportError:
        return {}
    columns = (problem.size.tolist(), problem.first_op.tolist(), (problem.last_op + 1).tolist())
    rows = tuple(Allocation(i, *row) for i, row in enumerate(zip(*columns, strict=True)))
    results = {}
    for name, allocator in {
        "supermalloc": theirs.SupermallocAllocator(timeout=limit, num_threads=1),
        "omni": theirs.OmniAllocator(),
        "telamalloc": theirs.TelamallocAllocator(timeout=limit),
        "tabu": theirs.TabuSearchAllocator(timeout=limit),
    }.items():
        start = time.process_time()
        placed = allocator.allocate(rows)
        seconds = time.process_time() - start
        results[name] = {"arena": max((a.offset or 0) + a.size for a in placed), "seconds": seconds}
    return results


def cell(result: dict[str, Any] | None, load: int) -> str:
    return "" if result is None else f"{result['arena'] / load:.4f} {result['seconds']:.3g}s"


def main() -> None:
    known = instances()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--effort", choices=WORK, default="default")
    parser.add_argument("--limit", type=float, default=1.0, metavar="SECONDS", help="the peers' timeout")
    parser.add_argument("--no-peers", action="store_true")
    parser.add_argument("--only", nargs="+", choices=known, default=list(known), metavar="NAME")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows there as well")
    arguments = parser.parse_args()

    names = ("supermalloc", "omni", "telamalloc", "tabu")
    table = Table("instance", "records", "search", "stopped by", "work", *(() if arguments.no_peers else names))
    rows = []
    for name in arguments.only:
        problem = known[name]()
        p = problem
        load = _kernels.offset_lower_bound(p.first_op, p.last_op, p.size, p.alignment)
        ours = search(problem, arguments.effort)
        compare = not arguments.no_peers and len(problem) <= LARGEST_FOR_PEERS
        others = peers(problem, arguments.limit) if compare else {}
        table.add_row(
            name,
            str(len(problem)),
            cell(ours, load),
            ours["stop"],
            str(ours["work"]),
            *(() if arguments.no_peers else (cell(others.get(peer), load) for peer in names)),
        )
        rows.append({"instance": name, "records": len(problem), "load": load, "search": ours, **others})
    Console(width=None if sys.stdout.isatty() else 160).print(table)
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
