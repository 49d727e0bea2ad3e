"""Runs one solver on one instance in a process of its own, to measure the memory of both together."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

from edgemem.bench.instances import instance
from edgemem.bench.measurement import PeerLimits, solvers
from edgemem.strategy.bounds import lower_bounds
from edgemem.system.child_process import run_child
from edgemem.system.process_memory import peak_bytes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from edgemem.bench.measurement import BenchSolver

__all__ = ["peak_rss"]


def peak_rss(text: str, bindings: Mapping[str, Any], solver: BenchSolver, limits: PeerLimits) -> int | None:
    """Peak resident bytes of a fresh process that makes or reads the instance and plans it once.

    None if the process fails, or the system does not report it (Linux does). `text` and `bindings` are arguments of
    `instance`.
    """
    task = {
        "instance": text,
        "bindings": dict(bindings),
        "strategies": [] if solver.peer else [solver.name],
        "peers": [solver.name] if solver.peer else [],
        "family": solver.family,
        "peer_seconds": limits.peer_seconds,
    }
    done = run_child("edgemem.bench.peak_memory", stdin=json.dumps(task))
    # The answer is the last line, because a peer may print lines of its own before it.
    answer: int | None = json.loads(done.stdout.splitlines()[-1]) if done.returncode == 0 else None
    return answer


def main() -> None:
    """Do the task on stdin and print the figure."""
    task = json.loads(sys.stdin.read())
    problem = instance(task["instance"], **task["bindings"]).problem()
    (solver,) = solvers(task["strategies"], task["peers"], task["family"], None)
    solver.prepare(problem, lower_bounds(problem), PeerLimits(task["peer_seconds"]))()
    sys.stdout.write(f"\n{json.dumps(peak_bytes())}\n")


if __name__ == "__main__":
    main()
