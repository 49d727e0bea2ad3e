"""Compares the product's overlap distances with those that follow from the kernels' loops, on random operators.

    python -m tests.oracle.kernel_dispatch --cases 3000 --profile cmsis-nn-mve --seed 1

Prints each unsafe case, how often each branch ran, and counts. The exit code is 1 if any case is unsafe.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter

from edgemem.model.profiles import PROFILES
from tests.oracle.kernel_dispatch.compare import campaign


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.oracle.kernel_dispatch")
    parser.add_argument("--cases", type=int, default=3000, help="random operators for each profile")
    parser.add_argument("--profile", choices=[name for name in PROFILES if name != "none"], action="append")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--loose", action="store_true", help="print loose cases as well")
    given = parser.parse_args()
    is_unsafe = False
    for profile in given.profile or PROFILES[1:]:
        verdicts: Counter[str] = Counter()
        branches: Counter[tuple[str, str]] = Counter()
        for row in campaign(profile, given.seed, given.cases):
            verdicts[row.verdict] += 1
            for name in row.branches:
                branches[name, row.verdict] += 1
            if row.verdict in ("unsafe", "no model") or (row.verdict == "loose" and given.loose):
                print(f"{profile}: {row}")
        print(f"{profile}, seed {given.seed}: " + ", ".join(f"{n} {name}" for name, n in sorted(verdicts.items())))
        for name in sorted({name for name, _ in branches}):
            counts = {v: n for (branch, v), n in sorted(branches.items()) if branch == name}
            print(f"    {name}: " + ", ".join(f"{n} {verdict}" for verdict, n in counts.items()))
        is_unsafe |= verdicts["unsafe"] > 0
    return int(is_unsafe)


if __name__ == "__main__":
    sys.exit(main())
