"""The memory of a session's runs, as the session itself and as the report of all executors have it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from edgemem.runtime.memory import MemoryReport, origin_of

if TYPE_CHECKING:
    from edgemem.replay.families import Mode
    from edgemem.replay.library import Stats
    from edgemem.replay.replayer import Replayer
    from edgemem.replay.store import FoundPlan

__all__ = ["SessionMemory", "found_plan", "memory_of", "report_of"]


@dataclass(frozen=True, slots=True)
class SessionMemory:
    """The memory of a session's runs, in bytes and counts; the plan's figures are of the call that ran last.

    Attributes:
        mode: `record` until a plan is made, `replay` inside it, `plain` without one.
        reason: why the mode is plain, why the last run deviated from its plan, or why the file's plan is not used; ""
            otherwise.
        planned: the plan's arena.
        bound: lower bound of the arena for the requests that were recorded; the plan may have room for larger ones.
        peak: the most that was alive at once in the last run that went as planned, results on the heap included.
        requests, hits, misses: of the last run: all, those served by the arena, those served by the heap.
        runs, replayed, bails, replans: since the session was opened: all, those that went as planned, those that
            did not, and plans made beyond the first of each call.
        arena: of all arenas that the session holds now.
    """

    mode: Mode
    reason: str
    planned: int
    bound: int
    peak: int
    requests: int
    hits: int
    misses: int
    runs: int
    replayed: int
    bails: int
    replans: int
    arena: int


def found_plan(replayer: Replayer | None) -> FoundPlan | None:
    """The plan that served the last run, or None before there is one."""
    family = replayer.current if replayer is not None else None
    served = family.latest if family is not None else None  # read once: another thread may change it
    return served.found if served is not None else None


def memory_of(replayer: Replayer | None, plain: str) -> SessionMemory:
    """The memory of a session that is replayed, or of one that runs plainly for the reason `plain`."""
    if replayer is None:
        return SessionMemory("plain", plain, *([0] * 11))
    family, counters = replayer.current, replayer.totals()
    last, complete = replayer.last()
    found = found_plan(replayer)
    best = found.planset.best_offsets if found is not None else None
    return SessionMemory(
        mode=family.mode if family is not None else "record",
        reason=_reason(replayer, last),
        planned=best.size if best is not None else 0,
        bound=found.bound if found is not None else 0,
        peak=complete.peak if complete is not None else 0,
        requests=last.requests if last is not None else 0,
        hits=last.hits if last is not None else 0,
        misses=last.misses if last is not None else 0,
        runs=counters.runs,
        replayed=counters.replayed,
        bails=counters.bails,
        replans=counters.replans,
        arena=replayer.arena_bytes(),
    )


def _reason(replayer: Replayer, last: Stats | None) -> str:
    family = replayer.current
    if family is None:
        return ""
    if family.mode == "replay" and last is not None and last.bail >= 0:
        return family.deviation
    if family.mode == "record" and not family.reason and replayer.policy.record != "first-run":
        return f'there is no stored plan for this call, and with record="{replayer.policy.record}" it is not recorded'
    return family.reason


def report_of(memory: SessionMemory, found: FoundPlan | None) -> MemoryReport:
    """The same in the form that all executors have, with the plan that served the last run."""
    best = found.planset.best_offsets if found is not None else None
    counters = ("peak", "requests", "hits", "misses", "runs", "replayed", "bails", "replans")
    return MemoryReport(
        executor="replay",
        mode=memory.mode,
        origin=origin_of(found.planset, best, found.source) if found is not None and best is not None else None,
        planned=memory.planned,
        lower_bound=memory.bound if best is not None else None,
        reserved=memory.arena,
        outside=found.outside if found is not None else 0,
        reason=memory.reason,
        details={name: getattr(memory, name) for name in counters},
    )
