"""Random graphs and what find_order and its solvers say of them, in numbers:

python -m tests.oracle.orders --graphs 2000 --large 50 --related 200 --seed 1

The exit code is 1 where an answer is wrong. A failure is shown with the smallest graph that it is found in.
"""

from __future__ import annotations

import argparse
import sys
import time
from concurrent.futures import ProcessPoolExecutor

from tests.oracle.orders.campaign import Tally, check, fingerprint

__all__: list[str] = []

_SHARE = {"small": 20, "large": 2, "related": 20, "peaks": 100}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.oracle.orders", description=__doc__)
    parser.add_argument("--graphs", type=int, default=200, help="graphs of nine operators or fewer")
    parser.add_argument("--large", type=int, default=0, help="graphs of 20 to 300 operators")
    parser.add_argument("--related", type=int, default=0, help="graphs with overlaps, slots, pins or reserved ranges")
    parser.add_argument("--peaks", type=int, default=0, help="small graphs whose peaks alone are simulated")
    parser.add_argument("--seed", type=int, default=0, help="number of the first graph")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--fingerprint", choices=("small", "large"), help="print only a hash of the answers")
    given = parser.parse_args()
    if given.fingerprint:
        print(fingerprint(given.fingerprint, range(given.seed, given.seed + given.graphs)))
        return 0
    start = time.perf_counter()
    work = [
        (kind, first, min(first + _SHARE[kind], given.seed + count))
        for kind, count in (
            ("peaks", given.peaks),
            ("small", given.graphs),
            ("large", given.large),
            ("related", given.related),
        )
        for first in range(given.seed, given.seed + count, _SHARE[kind])
    ]
    tally = Tally()
    with ProcessPoolExecutor(given.jobs) as pool:
        for done, part in enumerate(pool.map(_share, work), 1):
            tally.add(part)
            print(f"{done} of {len(work)}", *part.failures, sep="\n", file=sys.stderr)
    for name, count in sorted(tally.counts.items()):
        print(f"{count:9,} {name}")
    for name, count in tally.kinds.most_common():
        print(f"{count:9,} FAILED {name}")
    shown: set[str] = set()
    for failure in tally.failures:
        kind = failure.split(":")[1] + failure.split(":")[2]
        if kind not in shown:
            shown.add(kind)
            print(f"\n{failure}")
    print(f"\n{sum(tally.kinds.values())} failures, {time.perf_counter() - start:.0f} s")
    return 1 if tally.kinds else 0


def _share(job: tuple[str, int, int]) -> Tally:
    kind, first, end = job
    tally = Tally()
    for seed in range(first, end):
        check(kind, seed, tally)
    return tally


if __name__ == "__main__":
    sys.exit(main())
