"""Runs one solver on one instance in a process of its own, to measure the memory of both together."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

from edgemem.strategy.bounds import lower_bounds
from edgemem.system.process_memory import peak_bytes
from tests.bench.planners.instances import instance
from tests.bench.planners.measurement import PeerLimits, solvers

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.bench.planners.measurement import BenchSolver

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
    command = [sys.executable, "-m", __name__, json.dumps(task)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return None if done.returncode else json.loads(done.stdout)


def _measure(task: dict[str, Any]) -> int | None:
    problem = instance(task["instance"], **task["bindings"]).problem()
    (solver,) = solvers(task["strategies"], task["peers"], task["family"], None)
    solver.prepare(problem, lower_bounds(problem), PeerLimits(task["peer_seconds"]))()
    return peak_bytes()


if __name__ == "__main__":
    print(json.dumps(_measure(json.loads(sys.argv[1]))))
