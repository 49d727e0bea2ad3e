"""Recorded plans: a session's stream of requests, where each lives, and what they were recorded with. As bytes, too.

    "EDGT", uint32 version, uint32 CRC-32 of what follows, uint32 length of the text, the text (JSON), plan files

The text lists the plans: the fingerprint, the number of events, the requests that stay on the heap as [event, bytes],
and the length of the plan file (edgemem.planfile) that holds the others.
"""

from __future__ import annotations

import json
import struct
import zlib
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from edgemem import planfile
from edgemem.bounds import lower_bounds, naive_size
from edgemem.distribution import installed_version
from edgemem.errors import EdgememError, InvalidPlanError, PlanFileError
from edgemem.planning import Choice, run
from edgemem.plans import LowerBounds, OffsetPlan, PlanSet
from edgemem.proof import verify_planset
from edgemem.strategy.catalogue import registered
from edgemem.trace import Trace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from edgemem.plans import Plan
    from edgemem.records.problem import Problem

__all__ = ["SHARED", "Fingerprint", "RecordedPlan", "Signature", "decode", "encode", "plan_trace"]

_MAGIC, _VERSION = b"EDGT", 1
_HEADER = struct.Struct("<4sIII")


# The method of signatures whose results lie in the arena, and stay there for as long as they are held.
SHARED = "run, results in the arena"


@dataclass(frozen=True, slots=True)
class Signature:
    """How a session is called: plans are kept apart by it.

    Attributes:
        call: the method.
        inputs: (name, element type, shape) of what is fed, by name.
        outputs: names asked for; () for all.
        bound: whether results live in the arena.
    """

    call: str
    inputs: tuple[tuple[str, str, tuple[int, ...]], ...]
    outputs: tuple[str, ...] = ()
    bound: bool = False


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """What a stream of requests depends on; a plan serves no other.

    `model` is the digest of the file without its plans, `level` the graph optimisation level's name, `providers` the
    execution providers in order. Threads are counted as they run, with the machine's number for the default.
    """

    model: str
    runtime: str
    level: str
    intra_threads: int
    inter_threads: int
    providers: tuple[str, ...]
    signature: Signature

    def differences(self, other: Fingerprint) -> tuple[str, ...]:
        """What differs, in words: `runtime 1.30.0 instead of 1.31.1`; `other` is what is wanted."""
        return tuple(
            f"{f.name.replace('_', ' ')} {mine} instead of {wanted}"
            for f in fields(self)
            if (mine := getattr(self, f.name)) != (wanted := getattr(other, f.name))
        )


@dataclass(frozen=True, slots=True, eq=False)
class RecordedPlan:
    """A plan for one signature of one session.

    Attributes:
        fingerprint: what it was recorded with.
        trace: the stream; times and threads are lost when it is stored.
        planset: the requests that have a place in the arena, and their one plan: those that are freed within a run,
            and with `SHARED` the results too.
    """

    fingerprint: Fingerprint
    trace: Trace
    planset: PlanSet

    @property
    def plan(self) -> OffsetPlan:
        """Where the planned requests live."""
        best = self.planset.best_offsets
        assert best is not None
        return best

    @property
    def offsets(self) -> NDArray[np.int64]:
        """The place of every request in bytes; -1 for those on the heap. int64 [requests]."""
        places = np.full(len(self.trace.requests), -1, np.int64)
        places[np.searchsorted(self.trace.requests, self.planset.problem.first_op)] = self.plan.offsets
        return places


def plan_trace(trace: Trace, fingerprint: Fingerprint, *, names: Sequence[str] | None = None) -> RecordedPlan:
    """Plan a recorded stream without optional solvers, stopping at the lower bound, and prove the plan.

    `names` label the requests. Raises InvalidPlanError if a strategy gave a wrong plan (a bug).
    """
    problem = trace.problem(names=names, outlive=fingerprint.signature.call == SHARED)
    bounds = lower_bounds(problem)
    best = _planned(problem, bounds)
    planset = PlanSet(
        problem,
        naive_size(problem),
        bounds,
        (best,),
        (),
        versions={"edgemem": installed_version(), "onnxruntime": fingerprint.runtime},
    )
    _proved(planset)
    return RecordedPlan(fingerprint, trace, planset)


def _planned(problem: Problem, bounds: LowerBounds) -> OffsetPlan:
    """The first plan that meets the bound, or the smallest; what needs an optional solver is left out."""
    best: OffsetPlan | None = None
    # Quick ones first, as `auto` has it.
    for strategy in sorted(registered("offsets"), key=lambda s: s.limit is not None):
        if strategy.extra is not None or (strategy.limit is not None and len(problem) > strategy.limit):
            continue
        for options in strategy.variants():
            made: Plan = run(problem, Choice(strategy, options), bounds)
            assert isinstance(made, OffsetPlan)
            if best is None or made.size < best.size:
                best = made
            if best.optimal:
                return best
    assert best is not None
    return best


def _proved(planset: PlanSet) -> None:
    violations = verify_planset(planset)
    if violations:
        raise InvalidPlanError(f"the recorded plan is refused: {violations[0]}; record it again", violations=violations)


def encode(plans: Sequence[RecordedPlan]) -> bytes:
    """Recorded plans as bytes. Equal plans give equal bytes."""
    listed, files = [], []
    for plan in plans:
        file = planfile.encode(plan.planset)
        events = np.setdiff1d(plan.trace.requests, plan.planset.problem.first_op)
        files.append(file)
        listed.append(
            {
                "fingerprint": asdict(plan.fingerprint),
                "events": len(plan.trace),
                "heap": np.stack((events, plan.trace.size[events]), axis=1).tolist(),
                "bytes": len(file),
            }
        )
    text = json.dumps(listed, separators=(",", ":"), sort_keys=True).encode()
    body = text + b"".join(files)
    return _HEADER.pack(_MAGIC, _VERSION, zlib.crc32(body), len(text)) + body


def decode(data: bytes) -> tuple[RecordedPlan, ...]:
    """The plans that `encode` wrote, proved again.

    Safe for any bytes: raises PlanFileError for what is not well-formed, and InvalidPlanError for a plan in which
    requests overlap.
    """
    if len(data) < _HEADER.size:
        raise PlanFileError("no recorded plan: too short; record it again")
    magic, number, checksum, length = _HEADER.unpack_from(data)
    body = data[_HEADER.size :]
    if magic != _MAGIC:
        raise PlanFileError(f"no recorded plan: it begins with {magic!r}; record it again")
    if number != _VERSION:
        raise PlanFileError(f"the recorded plan has version {number}, this edgemem reads {_VERSION}; record it again")
    if zlib.crc32(body) != checksum or length > len(body):
        raise PlanFileError("the recorded plan is damaged (its checksum differs); record it again")
    try:
        listed = json.loads(body[:length])
        plans, position = [], length
        for entry in listed:
            size = _count(entry["bytes"])
            plans.append(_decoded(entry, body[position : position + size]))
            position += size
        _nothing_left(len(body) - position)
    except InvalidPlanError:
        raise
    except (EdgememError, ValueError, TypeError, KeyError, IndexError, OverflowError, RecursionError) as e:
        raise PlanFileError(f"the recorded plan is malformed: {e}; record it again") from None
    return tuple(plans)


def _nothing_left(count: int) -> None:
    if count:
        raise ValueError(f"{count} bytes belong to no plan")


def _decoded(entry: dict[str, Any], file: bytes) -> RecordedPlan:
    planset = planfile.decode(file)
    if len(planset.offsets) != 1 or planset.problem.extents is not None:
        raise ValueError("not one offset plan in bytes")
    heap = [(_count(event), _count(size)) for event, size in entry["heap"]]
    stream = _stream(planset.problem, heap, _count(entry["events"]))
    trace = Trace.from_stream(stream)
    if len(trace.requests) != len(planset.problem) + len(heap):
        raise ValueError("events and records differ")
    if np.any(np.diff(planset.problem.first_op) <= 0):
        raise ValueError("records are not in the order of their requests")
    _proved(planset)
    return RecordedPlan(_fingerprint(entry["fingerprint"]), trace, planset)


def _stream(problem: Problem, heap: list[tuple[int, int]], count: int) -> NDArray[np.int64]:
    first, last = problem.first_op.tolist(), problem.last_op.tolist()
    outliving = last.count(count - 1)  # what is freed within the run ends before its last event
    if count != 2 * len(problem) - outliving + len(heap):
        raise ValueError(f"{count} events for {len(problem)} records and {len(heap)} requests on the heap")
    sizes = [*zip(first, problem.size.tolist(), strict=True), *heap]
    asked = dict(sizes)
    freed = {end + 1: start for start, end in zip(first, last, strict=True) if end + 1 < count}
    events = sorted([*asked, *freed])
    if events != list(range(count)) or not all(asked.values()):
        raise ValueError("events are missing, or two are one")
    numbers = {event: k for k, event in enumerate(sorted(asked))}
    return np.array([asked[e] if e in asked else -numbers[freed[e]] - 1 for e in events], np.int64)


def _fingerprint(table: dict[str, Any]) -> Fingerprint:
    signature = table["signature"]
    inputs = tuple((str(n), str(t), tuple(map(_count, shape))) for n, t, shape in signature["inputs"])
    outputs = tuple(map(str, signature["outputs"]))
    return Fingerprint(
        str(table["model"]),
        str(table["runtime"]),
        str(table["level"]),
        _count(table["intra_threads"]),
        _count(table["inter_threads"]),
        tuple(map(str, table["providers"])),
        Signature(str(signature["call"]), inputs, outputs, bool(signature["bound"])),
    )


def _count(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**62:
        raise ValueError(f"{value!r} is no count")
    return value
