"""What an executor makes of a plan set: the place of every tensor, and what it cannot do."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from edgemem import OffsetPlan
from tests.oracle.memory_plans.program import BITS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from edgemem import PlanSet, SharedObjectsPlan, UsageRecord
    from tests.oracle.memory_plans.simulation import Span
    from tests.oracle.memory_plans.timeline import Timeline

__all__ = ["faults_of", "placements", "required"]

# An executor takes for each record every tensor in it, or the record's name if it lists none, at the record's place.


def names_of(record: UsageRecord) -> tuple[str, ...]:
    return record.tensors or (record.name,)


def faults_of(planset: PlanSet, plan: OffsetPlan | SharedObjectsPlan, timeline: Timeline) -> Iterator[str]:
    """What is wrong with a plan whatever the operators do: no place, too little of it, or memory that is not there."""
    target = timeline.target
    columns = [plan.assignment] if not isinstance(plan, OffsetPlan) else [plan.offsets]
    columns += [plan.regions] if isinstance(plan, OffsetPlan) and plan.regions is not None else []
    if any(len(c) != len(planset.problem.records) for c in columns):
        yield "there are not as many places as records"
        return
    placed = {n for r in planset.problem.records for n in names_of(r)}
    runtime_places = {n for n, _ in planset.unplanned} if target.name == "tflm" else set()
    for name in sorted(required(timeline) - placed - runtime_places):
        yield f"{name!r} has no place"
    for k, record in enumerate(planset.problem.records):
        here = [n for n in names_of(record) if n in timeline.ids and _is_there(timeline, n)]
        for name in here:
            if not _fits(timeline, name, record.size):
                yield f"{name!r} is larger than the record {record.name!r} of {record.size}"
        if isinstance(plan, OffsetPlan):
            yield from _offset_faults(planset, plan, timeline, k, here)
        else:
            yield from _object_faults(plan, timeline, k, here)


def _is_there(timeline: Timeline, name: str) -> bool:
    """Whether a tensor has bytes that something reads or writes, of which the checker knows how many."""
    i = timeline.ids[name]
    return timeline.units[i] > 0 and i in timeline.used and _has_size(timeline, name)


def _fits(timeline: Timeline, name: str, size: object) -> bool:
    """Whether a tensor fits into a size in bytes, or into an extent in texels."""
    if isinstance(size, tuple) != timeline.target.texels:
        return False
    extent = timeline.extents.get(name)
    if isinstance(size, tuple):
        return extent is not None and len(size) == 2 and extent[0] <= size[0] and extent[1] <= size[1]
    return isinstance(size, int) and timeline.units[timeline.ids[name]] <= size


def _offset_faults(planset: PlanSet, plan: OffsetPlan, timeline: Timeline, k: int, here: list[str]) -> Iterator[str]:
    target = timeline.target
    begin = int(plan.offsets[k])
    region = 0 if plan.regions is None else int(plan.regions[k])
    sizes = plan.region_sizes or (plan.size,)
    if not here:
        return
    if not 0 <= region < min(len(target.regions), len(sizes)):
        yield f"{here} in region {region}, which is not there"
        return
    limit = sizes[region]
    # A larger plan beside the best one is no plan for a region, and nobody takes it.
    capacity = target.regions[region].capacity if plan is planset.best_offsets else None
    step = max(target.alignment, target.regions[region].alignment)
    if begin < 0 or begin % step:
        yield f"{here} at {begin}, no multiple of {step}"
    allowed = planset.problem.records[k].regions
    if allowed and region not in allowed:
        yield f"{here} in region {region}, which it may not lie in"
    for name in here:
        end = begin + timeline.units[timeline.ids[name]]
        if end > limit or (capacity is not None and end > capacity):
            yield f"{name!r} ends at {end}, the arena at {limit} and the region at {capacity}"
        if any(begin < high and low < end for low, high in target.regions[region].reserved):
            yield f"{name!r} at {begin}..{end} lies in a reserved range"
        if name in target.pins and (region, begin) != (0, target.pins[name]):
            yield f"{name!r} is pinned at {target.pins[name]} and at {begin}"


def _object_faults(plan: SharedObjectsPlan, timeline: Timeline, k: int, here: list[str]) -> Iterator[str]:
    number = int(plan.assignment[k])
    if here and not 0 <= number < len(plan.objects):
        yield f"{here} in object {number}, which is not there"
        return
    for name in here:
        if not _fits(timeline, name, plan.objects[number]):
            yield f"{name!r} does not fit into object {number} of {plan.objects[number]}"


def placements(planset: PlanSet, plan: OffsetPlan | SharedObjectsPlan, timeline: Timeline) -> Iterator[dict[int, Span]]:
    """The place of every tensor by its id; twice where a tensor has two, as an executor may take either."""
    bases, where = _bases(plan)
    rows = []
    for k, record in enumerate(planset.problem.records):
        for name in names_of(record):
            i = timeline.ids.get(name)
            if i is not None and timeline.units[i] and 0 <= where[k] < len(bases):
                begin = bases[where[k]] + (int(plan.offsets[k]) if isinstance(plan, OffsetPlan) else 0)
                size = timeline.units[i] if _has_size(timeline, name) else int(planset.problem.size[k])
                if size:
                    rows.append((i, (begin, begin + size)))
    last = dict(rows)
    yield last
    first = dict(reversed(rows))
    if first != last:
        yield first


def _bases(plan: OffsetPlan | SharedObjectsPlan) -> tuple[list[int], list[int]]:
    """Where each region or object begins when all lie one after the other, and which one each record is in."""
    if isinstance(plan, OffsetPlan):
        where = [0] * len(plan.offsets) if plan.regions is None else plan.regions.tolist()
        sizes = list(plan.region_sizes or (plan.size,))
    else:
        where = plan.assignment.tolist()
        sizes = [int(np.prod(o)) for o in plan.objects]
    bases = [0]
    for size in sizes:
        bases.append(bases[-1] + size)
    return bases, where


def required(timeline: Timeline) -> set[str]:
    """Names of all tensors, and of workspace, that the target has in its memory."""
    target, program = timeline.target, timeline.program
    main = program.main
    states = {n for pair in timeline.states.items() for n in pair}
    outside = {n for n, v in program.values.items() if v.role in ("constant", "opaque")} | program.unreached
    outside |= {n for n, v in program.values.items() if v.role == "variable" and target.variables == "outside"}
    if target.inputs == "outside":
        outside |= set(main.inputs) - states
    if target.outputs == "outside":
        outside |= set(main.outputs) - states
    if target.texels:
        outside |= {n for n in program.values if timeline.extents.get(n) is None}
    calls = program.steps if timeline.inline else main.calls
    blocks = [main, *(b for call in calls for b in call.bodies)] if timeline.inline else [main]
    for call in calls:
        if call.type in timeline.views and call.reads and call.reads[0] in outside:
            outside.add(call.writes[0])
    names = {n for b in blocks for n in (*b.inputs, *b.outputs)}
    names |= {n for call in calls for n in (*call.reads, *call.writes) if n}
    names |= {f"{label}:scratch{k}" for label, sizes in timeline.workspace.items() for k in range(len(sizes))}
    return {n for n in names - outside if timeline.units[timeline.ids[n]] and _has_size(timeline, n)}


def _has_size(timeline: Timeline, name: str) -> bool:
    value = timeline.program.values.get(name)
    return value is None or (value.role != "opaque" and value.dtype in BITS)
