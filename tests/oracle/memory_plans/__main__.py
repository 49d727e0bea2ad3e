"""Random graphs and changed plans, in numbers:

python -m tests.oracle.memory_plans --graphs 2000 --mutations 100000 --files 300 --runs 100 --catalogue 20

The exit code is 1 where a plan is wrong and verify accepts it, or right and refused.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from tests.oracle.memory_plans.campaign import FORMS, Tally, check_random
from tests.oracle.memory_plans.catalogue import catalogue_names, check_model
from tests.oracle.memory_plans.files import change_onnx_files, change_tflite_files, reorder_tflite
from tests.oracle.memory_plans.real_runs import run_onnx, run_tflite

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__: list[str] = []

_SHARE = 25  # graphs of one piece of work

_Job = tuple[str, int, int, int]  # what, first and end, changes of each


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.oracle.memory_plans", description=__doc__)
    parser.add_argument("--graphs", type=int, default=200, help="random graphs of each form")
    parser.add_argument("--mutations", type=int, default=10_000, help="changes of their plans, all together")
    parser.add_argument("--files", type=int, default=0, help="random planned files of each format that are changed")
    parser.add_argument("--runs", type=int, default=0, help="random models of each format in their runtimes")
    parser.add_argument("--catalogue", type=int, metavar="N", help="also all models, with N changes for each target")
    parser.add_argument("--first", type=int, default=0, help="number of the first graph")
    parser.add_argument("--forms", nargs="+", choices=FORMS, default=["onnx", "tflite"])
    parser.add_argument("--jobs", type=int, default=1)
    given = parser.parse_args()
    start = time.perf_counter()
    # Not every change applies to every plan.
    each = -(-given.mutations * 3 // (2 * max(given.graphs, 1) * len(given.forms)))
    work: list[_Job] = [(form, a, b, each) for a, b in _shares(given.first, given.graphs) for form in given.forms]
    work += [
        (what, a, b, 20)
        for a, b in _shares(given.first, given.files)
        for what in ("onnx files", "tflite files", "reordered")
    ]
    work += [(what, a, b, 0) for a, b in _shares(given.first, given.runs) for what in ("onnx runs", "tflite runs")]
    if given.catalogue is not None:
        work += [("model", k, k + 1, given.catalogue) for k in range(len(catalogue_names()))]
    tally = Tally()
    with ProcessPoolExecutor(given.jobs) as pool:
        for part in pool.map(_share, work):
            tally.add(part)
            print(f"{tally.mutations:,} changes, {len(tally.findings)} findings", file=sys.stderr)
    print(report(tally, time.perf_counter() - start))
    return 1 if tally.findings else 0


def _shares(first: int, count: int) -> Iterator[tuple[int, int]]:
    for a in range(first, first + count, _SHARE):
        yield a, min(a + _SHARE, first + count)


def _share(job: _Job) -> Tally:
    what, first, end, changes = job
    tally = Tally()
    with tempfile.TemporaryDirectory(prefix="memory-plans-") as name:
        folder = Path(name)
        for seed in range(first, end):
            match what:
                case "onnx files":
                    change_onnx_files(seed, changes, folder, tally)
                case "tflite files":
                    change_tflite_files(seed, changes, folder, tally)
                case "reordered":
                    reorder_tflite(seed, folder, tally)
                case "onnx runs":
                    run_onnx(seed, folder, tally)
                case "tflite runs":
                    run_tflite(seed, folder, tally)
                case "model":
                    check_model(catalogue_names()[seed], tally, mutations=changes)
                case _:
                    check_random(what, seed, changes, tally)
    return tally


def report(tally: Tally, seconds: float) -> str:
    """The tally as text."""
    lines = [f"graphs {dict(tally.graphs)}, {tally.mutations:,} changes, {seconds:.0f} s"]
    lines.append(f"honest plan sets {dict(tally.honest)}")
    lines += [f"not planned: {count} x {why}" for why, count in tally.not_planned.most_common()]
    lines.append(f"{'change':52} {'wrong':>7} {'accepted':>9} {'harmless':>9} {'refused':>8}")
    kinds = sorted({kind for kind, _, _ in tally.changes})
    for kind in [*kinds, "all"]:
        wrong, accepted, harmless, refused = (
            sum(n for (k, w, a), n in tally.changes.items() if kind in (k, "all") and test(w, a))
            for test in (lambda w, _: w, lambda w, a: w and a, lambda w, _: not w, lambda w, a: not w and not a)
        )
        share = f"{100 * refused / harmless:.0f} %" if harmless else ""
        lines.append(f"{kind:52} {wrong:7,} {accepted:9,} {harmless:9,} {refused:8,} {share:>6}")
    lines.append(f"{len(tally.findings)} findings")
    lines += tally.findings[:200]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
