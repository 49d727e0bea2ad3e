"""What the proof of an offset plan and a shared-objects plan takes: processor seconds, and the memory of the process.

    python tests/bench/proof.py [--records N]

Each figure comes from a process of its own, which reads the plans and proves them. Peak memory is that of the whole
process with the problem and the plans in it; beside it what it held before the proof. Linux only.

The instances: `sparse` as in docs/bench.md; `together`, where all records are alive at one operator; `nested`, where
each interval holds the next.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.append(str(Path(__file__).parents[2]))

import numpy as np

from edgemem import _kernels
from edgemem.plans import LowerBounds, OffsetPlan, PlanSet, SharedObjectsPlan
from edgemem.proof import verify_planset
from edgemem.records.problem import Problem
from edgemem.strategy.bounds import lower_bounds, naive_size
from tests.bench.planners.instances import instance

if TYPE_CHECKING:
    from collections.abc import Callable

MIB = 2**20


def together(count: int) -> Problem:
    sizes = np.random.default_rng(1).integers(1, 10**6, count)
    return Problem.from_arrays(np.zeros(count, np.int64), np.full(count, 9), sizes)


def nested(count: int) -> Problem:
    order = np.random.default_rng(1).permutation(count)
    return Problem.from_arrays(order, 2 * count - order, 1 + order)


def sparse(count: int) -> Problem:
    return instance(f"sparse:{count}").problem()


MAKERS: dict[str, Callable[[int], Problem]] = {"sparse": sparse, "together": together, "nested": nested}


def plan(problem: Problem, file: Path, *, in_order: bool) -> None:
    """Write columns, offsets, objects and claims: planned in order, or with nothing shared."""
    columns = (problem.first_op, problem.last_op, problem.size)
    assignment = np.arange(len(problem))
    offsets = np.cumsum(problem.size) - problem.size
    if in_order:
        order = np.argsort(problem.first_op, kind="stable")
        offsets = _kernels.place_in_smallest_gap(*columns, 1, order)
        assignment = _kernels.assign_in_order(*columns[:2], problem.size.reshape(-1, 1), order, "first")
    objects = np.zeros(assignment.max() + 1, np.int64)
    np.maximum.at(objects, assignment, problem.size)
    bounds = lower_bounds(problem)
    claims = np.array([bounds.offsets, bounds.shared_objects, naive_size(problem)])
    np.savez(file, columns=np.stack(columns), offsets=offsets, assignment=assignment, objects=objects, claims=claims)


def prove(file: Path) -> str:
    """Prove what `plan` wrote, in this process."""
    with np.load(file) as data:
        problem = Problem.from_arrays(*data["columns"])
        offsets, assignment, objects = data["offsets"], data["assignment"], tuple(data["objects"].tolist())
        offsets_bound, objects_bound, naive = data["claims"].tolist()
    arena, total = int((offsets + problem.size).max()), sum(objects)
    planset = PlanSet(
        problem,
        naive,
        LowerBounds(offsets_bound, objects_bound),
        (OffsetPlan("hand", {}, offsets, arena, optimal=arena == offsets_bound),),
        (SharedObjectsPlan("hand", {}, assignment, objects, total, optimal=total == objects_bound),),
    )
    before, start = status("VmRSS"), time.process_time()
    violations = verify_planset(planset)
    seconds = time.process_time() - start
    if violations:
        raise SystemExit(f"the plan is wrong: {violations[0]}")
    return f"{seconds:7.2f} | {status('VmHWM') / MIB:8.0f} | {before / MIB:8.0f} |"


def status(key: str) -> int:
    """A figure of this process in bytes, by its name in /proc."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{key}:"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--alone", type=Path, metavar="FILE", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.alone:
        print(prove(arguments.alone))
        return
    print("| instance           | records   | CPU s   | peak MiB | held MiB |", "|---" * 5 + "|", sep="\n")
    count = arguments.records
    for name, make in MAKERS.items():
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "plan.npz"
            plan(make(count), file, in_order=name == "sparse")
            command = [sys.executable, __file__, "--alone", str(file)]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            print(f"| {name:18} | {count:9,} | {done.stdout.strip()}", flush=True)


if __name__ == "__main__":
    main()
