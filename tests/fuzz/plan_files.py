"""Plan files: damaged ones, most of them with a right checksum again, and tables that no honest writer makes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from edgemem.errors import PlanFileError
from edgemem.planfile import decode_all, encode, encode_all
from edgemem.plans import LowerBounds, OffsetPlan, PlanSet, Settings, SharedObjectsPlan
from edgemem.proof import prove, verify_planset
from edgemem.records.problem import Problem, UsageRecord
from edgemem.report.csv import as_csv
from edgemem.report.document import document
from edgemem.report.export import export
from edgemem.report.peak import find_peak
from edgemem.targets import BUILT_IN
from edgemem.trace import Trace
from edgemem.trace.recording import Fingerprint, Recording, Signature
from tests.forge import sealed
from tests.fuzz.cases import Target
from tests.fuzz.mutation import edge, mutate_bytes, reread
from tests.plansets import recorded

if TYPE_CHECKING:
    import random
    from collections.abc import Sequence


__all__ = ["FILES", "TARGET", "change_planset", "refused_or_sound", "resealed"]

_FORMS = ("json", "csv", "svg", "c-header")  # the last two show offsets
_HEADER = 16  # bytes: magic, version, checksum, length


def small() -> PlanSet:
    problem = Problem([UsageRecord("a", 0, 1, (2, 3), "input", ("a", "v")), UsageRecord("ü", 1, 1, (4, 1))])
    column = np.array([0, 1], np.int64)
    return PlanSet(
        problem,
        naive=10,
        bounds=LowerBounds(10, 10),
        offsets=(OffsetPlan("o", {"k": True, "t": "x"}, column, 10, True),),
        shared_objects=(SharedObjectsPlan("s", {}, column, ((2, 3), (4, 1)), 10, False),),
        target=BUILT_IN["gpu-texture"],
        digest="00ff",
        steps=("x", "y"),
        unplanned=(("u", "why"),),
        order=(1, 0),
        dims={"N": 2},
        input_shapes={"a": (1, 2)},
        versions={"edgemem": "1"},
    )


def bare() -> PlanSet:
    return PlanSet(Problem([UsageRecord("a", 0, 0, 1)]), 1, LowerBounds(1, 1), (), ())


def bare_recording() -> PlanSet:
    """One request with a place, and two on the heap, of which one is freed."""
    problem = Problem([UsageRecord("", 1, 1, 1)])
    plan = OffsetPlan("", {}, np.array([0], np.int64), 1, True)
    signature = Signature("c", (("i", "t", (2,)),))
    recording = Recording(Fingerprint("", "", "", {}, signature), Trace.from_stream([8, 1, -2, -1, 4]))
    return PlanSet(problem, 1, LowerBounds(1, 1), (plan,), (), settings=Settings(seed=1), recording=recording)


FILES = {
    "small": encode(small()),
    "bare": encode(bare()),
    "bare recording": encode(bare_recording()),
    "several": encode_all([recorded(), small(), bare_recording()]),
}


def refused_or_sound(data: bytes) -> bool:
    """Whether the bytes were read; then they must be plan sets that survive being written again."""
    try:
        plansets = decode_all(data)
    except PlanFileError:
        return False
    assert encode_all(decode_all(encode_all(plansets))) == encode_all(plansets)
    return True


def resealed(data: bytes) -> bytes:
    """The same payload behind a header with the right checksum and length."""
    if len(data) < _HEADER:
        return data
    body = data[_HEADER:]
    return sealed(body, data[4])


def change_planset(planset: PlanSet, chance: random.Random) -> PlanSet:
    """One thing in the plan set other than it should be, and still such that it can be written."""
    offsets = tuple(_offsets_changed(plan, chance) for plan in planset.offsets)
    kind = chance.randrange(9)
    changes: dict[str, Any] = {}
    if kind in (0, 1, 2):
        changes["offsets"] = offsets
    elif kind == 3:
        changes["problem"] = _problem_changed(planset.problem, chance)
    elif kind == 4:
        changes["naive"] = edge(chance)
    elif kind == 5:
        changes["bounds"] = LowerBounds(edge(chance), edge(chance))
    elif kind == 6:
        changes["settings"] = Settings((chance.choice(("auto", "search:effort=max", "x")),), "max", threads=256)
    elif kind == 7:
        changes["target"] = chance.choice((None, *BUILT_IN.values()))
    elif planset.recording is not None:
        trace = Trace.from_stream([chance.choice((1, 64, 100, edge(chance) or 1)) for _ in range(chance.randrange(5))])
        changes["recording"] = Recording(planset.recording.fingerprint, trace)
    return replace(planset, **changes)


def _offsets_changed(plan: OffsetPlan, chance: random.Random) -> OffsetPlan:
    offsets = plan.offsets.copy()
    shift = chance.choice((1, 64, 2**20, 2**40, 2**55, 2**61))
    if chance.random() < 0.5:
        offsets += shift
    elif len(offsets):
        offsets[chance.randrange(len(offsets))] = edge(chance)
    size = chance.choice((plan.size, plan.size + shift, edge(chance)))
    return replace(plan, offsets=offsets, size=size, optimal=chance.random() < 0.5)


def _problem_changed(problem: Problem, chance: random.Random) -> Problem:
    records = list(problem.records)
    if records:
        at = chance.randrange(len(records))
        sizes = (0, 1, edge(chance, 2**40)) if problem.extents is None else ((1, 1), (2**20, 2**20))
        records[at] = replace(records[at], size=chance.choice(sizes))  # type: ignore[arg-type]
    return Problem(records, alignment=chance.choice((1, 64, 128, 2**20, 2**61)))


def _run(data: bytes) -> None:
    plansets = decode_all(data)
    assert encode_all(decode_all(encode_all(plansets))) == encode_all(plansets)
    for planset in plansets:
        as_csv(planset)
        document(planset)
        if not verify_planset(planset):
            proved = prove(planset)
            find_peak(planset)
            for form in _FORMS if planset.offsets else _FORMS[:2]:
                export(proved, form)


def _mutate(chance: random.Random, data: bytes, others: Sequence[bytes]) -> bytes:
    kind = chance.random()
    if kind < 0.05:
        return mutate_bytes(chance, data, others)
    if kind < 0.4:

        def changed() -> bytes:
            plansets = list(decode_all(data))
            at = chance.randrange(len(plansets))
            plansets[at] = change_planset(plansets[at], chance)
            return encode_all(plansets)

        return reread(changed, resealed(mutate_bytes(chance, data, others)))
    return resealed(data[:_HEADER] + mutate_bytes(chance, data[_HEADER:], [o[_HEADER:] for o in others[:50]]))


TARGET = Target(_run, lambda: [*FILES.values()], _mutate)
