"""Runs one solver on one instance in a process of its own, to measure the memory of both together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from edgemem.bench.instances import instance
from edgemem.bench.measurement import PeerLimits, solvers
from edgemem.strategy.bounds import lower_bounds
from edgemem.system.child_call import ChildError, Message, call_child, serve
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
    try:
        answer: int | None = call_child("edgemem.bench.peak_memory", Message(task)).data["peak"]
    except ChildError:
        return None
    return answer


def _measure(question: Message) -> Message:
    task = question.data
    problem = instance(task["instance"], **task["bindings"]).problem()
    (solver,) = solvers(task["strategies"], task["peers"], task["family"], None)
    solver.prepare(problem, lower_bounds(problem), PeerLimits(task["peer_seconds"]))()
    return Message({"peak": peak_bytes()})


if __name__ == "__main__":
    serve(_measure)
