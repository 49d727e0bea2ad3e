"""Plan sets for hypothesis, with recordings and settings; a small one by hand; and a form of them that compares."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, get_args

import numpy as np
from hypothesis import strategies as st

from edgemem.model.profiles import PROFILES
from edgemem.plans import LowerBounds, OffsetPlan, PlanSet, SearchReport, Settings, SharedObjectsPlan
from edgemem.records.problem import Kind, Problem, UsageRecord
from edgemem.targets import BUILT_IN, Region, Target
from edgemem.trace import Section, Trace
from edgemem.trace.cycle import Cycle
from edgemem.trace.recording import Fingerprint, Recording, Signature
from tests.periodic import periodic_programs, unrolled

if TYPE_CHECKING:
    from hypothesis.strategies import DrawFn

    from edgemem.records.problem import Size

__all__ = [
    "INT64_MAX",
    "cycle_plansets",
    "files",
    "fingerprint",
    "int64s",
    "plain",
    "plansets",
    "recorded",
    "recorded_plansets",
    "small",
    "streams",
    "typed",
]

INT64_MAX = 2**63 - 1

texts = st.text(st.characters(codec="utf-8"), max_size=8)
natural = st.integers(0, INT64_MAX)
options = st.dictionaries(
    texts,
    st.booleans()
    | st.integers(-INT64_MAX - 1, INT64_MAX)
    | texts
    | st.floats(allow_nan=False, allow_infinity=False).filter(lambda x: str(x) != "-0.0"),
    max_size=4,
)
pins = st.dictionaries(texts, natural, max_size=2)
reports = st.none() | st.builds(SearchReport, natural, texts, natural, st.none() | natural)


def int64s(values: list[int]) -> np.ndarray[Any, np.dtype[np.int64]]:
    return np.array(values, np.int64)


@st.composite
def problems(draw: DrawFn) -> Problem:
    rank = draw(st.integers(1, 3))
    size = st.integers(0, 10**5)
    sizes: st.SearchStrategy[Any] = size if rank == 1 else st.tuples(*[size] * rank)
    records: list[UsageRecord] = []
    for _ in range(draw(st.integers(0, 6))):
        first, length = draw(st.tuples(st.integers(0, 2**62), st.integers(0, 20)))
        kind = draw(st.sampled_from([k for k in get_args(Kind) if k != "state"]))
        tensors = tuple(draw(st.lists(texts, max_size=3)))
        regions = tuple(sorted(draw(st.sets(st.integers(0, 61), max_size=2))))
        cost = draw(st.sampled_from((0, 0, INT64_MAX)))
        records.append(UsageRecord(draw(texts), first, first + length, draw(sizes), kind, tensors, None, regions, cost))
    if draw(st.booleans()):
        end = max((r.last_op for r in records), default=0)
        records.append(UsageRecord(draw(texts), 0, end, draw(sizes), "state", ("past", "present")))
    pinned = draw(st.booleans())
    if records and pinned:
        records[-1] = replace(records[-1], offset=2**12 * draw(st.integers(2, 2**20)))
    alignment = 2 ** draw(st.integers(0, 12))
    overlap, within = [], []
    if draw(st.booleans()):  # an input, its result, and what lies inside the two
        t, size = draw(st.integers(1, 100)), st.integers(1, 10**5)
        extra = [(t - 1, t, 2 * 10**5), (t, t + 1, 2 * 10**5), (t - 1, t, draw(size)), (t, t + 1, draw(size))]
        if rank == 1 and not any(r.kind == "state" for r in records):
            records = [*(UsageRecord(draw(texts), *row) for row in extra), *records]
            overlap = [(0, 1, draw(st.integers(-(2**61), 2**61)))]
            within = [(2, 0, 0), (3, 1, draw(st.integers(0, 10**5 // alignment)) * alignment)]
    return Problem(records, alignment=alignment, reserved=draw(ranges(2**12)), overlap=overlap, within=within)


def ranges(most: int) -> st.SearchStrategy[list[tuple[int, int]]]:
    return st.lists(st.tuples(st.integers(0, most), st.integers(0, most)).map(lambda r: (min(r), max(r))), max_size=3)


@st.composite
def targets(draw: DrawFn) -> Target:
    target = draw(st.sampled_from(list(BUILT_IN.values())))
    if draw(st.booleans()):
        alignment = target.alignment if target.layer_rows else 2 ** draw(st.integers(0, 12))
        target = replace(target, name=draw(texts), alignment=alignment)
        reserved = tuple(draw(ranges(2**63 - 1)))
        regions = [Region(draw(texts), draw(st.none() | natural), reserved)]
        regions += [Region(name) for name in draw(st.lists(texts, max_size=2, unique=True)) if name != regions[0].name]
        names = st.dictionaries(texts, texts, max_size=2)
        target = replace(target, regions=tuple(regions), pins=draw(pins), states=draw(names))
        target = replace(target, pointer_bytes=draw(st.sampled_from((4, 8))))
        if target.is_dense:
            target = replace(target, kernels=draw(st.sampled_from(PROFILES)), slots=draw(st.booleans()))
        else:
            side = draw(st.integers(1, 2**20))
            row = draw(st.integers(0, side)) if target.texels else target.texel_row
            if target.layer_rows:
                side, target = max(side, row), replace(target, layer_rows=1, alignment=2**16)
            target = replace(target, texture_side=side, texel_row=row, binding=draw(st.integers(0, 2**63 - 1)))
    return target


def asked() -> st.SearchStrategy[Settings]:
    """Settings, the default ones included."""
    return st.just(Settings()) | st.builds(
        Settings,
        strategies=st.lists(texts, max_size=3).map(tuple),
        effort=st.none() | texts,
        seed=st.none() | natural,
        time_limit=st.none() | st.floats(0, allow_nan=False, allow_infinity=False),
        threads=st.none() | st.integers(1, INT64_MAX),
        alignment=st.none() | st.integers(0, 62).map(lambda k: 2**k),
    )


@st.composite
def streams(draw: DrawFn) -> list[int]:
    """Any valid stream: requests, and frees of what is alive."""
    stream: list[int] = []
    alive: list[int] = []
    made = 0
    for _ in range(draw(st.integers(0, 30))):
        free = draw(st.booleans())
        if alive and free:
            stream.append(-alive.pop(draw(st.integers(0, len(alive) - 1))) - 1)
        else:
            stream.append(draw(st.integers(1, 10**12)))
            alive.append(made)
            made += 1
    return stream


@st.composite
def signatures(draw: DrawFn) -> Signature:
    shapes = st.tuples(texts, st.lists(natural, max_size=3).map(tuple))
    inputs = draw(st.dictionaries(texts, shapes, max_size=3))
    return Signature(
        draw(texts),
        tuple((name, *inputs[name]) for name in sorted(inputs)),
        tuple(draw(st.lists(texts, max_size=2))),
        draw(st.booleans()),
        draw(st.booleans()),
    )


@st.composite
def recorded_plansets(draw: DrawFn) -> PlanSet:
    """A plan set of a recording; any of its requests may have no place."""
    trace = Trace.from_stream(draw(streams()))
    whole = trace.problem(outlive=draw(st.booleans()))
    kept = [r for r in whole.records if draw(st.integers(0, 4))]
    problem = Problem(kept, alignment=2 ** draw(st.integers(0, 12)))
    column = int64s(draw(st.lists(natural, min_size=len(kept), max_size=len(kept))))
    plan = OffsetPlan(draw(texts), draw(options), column, draw(natural), draw(st.booleans()), draw(reports))
    fingerprint = Fingerprint(draw(texts), draw(texts), draw(texts), draw(options), draw(signatures()))
    return PlanSet(
        problem,
        draw(natural),
        LowerBounds(draw(natural), draw(natural)),
        (plan,),
        (),
        target=draw(st.none() | targets()),
        settings=draw(asked()),
        recording=Recording(fingerprint, trace),
    )


@st.composite
def cycle_plansets(draw: DrawFn) -> PlanSet:
    """A plan set of one period of a program; any of its requests may be dynamic."""
    requests, length, after = draw(periodic_programs())
    sections = tuple(
        Section(draw(texts), draw(st.integers(-1, 3)), draw(st.booleans())) for _ in range(draw(st.integers(0, 3)))
    )
    named = [one._replace(section=draw(st.integers(-1, len(sections) - 1))) for one in requests]
    cycle = replace(Cycle.of(unrolled(named, length, after, 5, sections=sections)), device=draw(texts))
    problem, _ = cycle.problem(2 ** draw(st.integers(0, 12)))
    column = int64s(draw(st.lists(natural, min_size=len(problem), max_size=len(problem))))
    plan = OffsetPlan(draw(texts), draw(options), column, draw(natural), draw(st.booleans()), draw(reports))
    bounds = LowerBounds(draw(natural), draw(natural))
    return PlanSet(problem, draw(natural), bounds, (plan,), (), settings=draw(asked()), cycle=cycle)


@st.composite
def files(draw: DrawFn) -> list[PlanSet]:
    """What one file may hold: one plan set at least, at most one of them with neither a recording nor a cycle."""
    sets = draw(st.lists(recorded_plansets(), max_size=3))
    for i, planset in enumerate(sets):
        assert planset.recording is not None
        name = planset.recording.fingerprint.version + str(i)  # makes them distinct
        fingerprint = replace(planset.recording.fingerprint, version=name)
        sets[i] = replace(planset, recording=replace(planset.recording, fingerprint=fingerprint))
    sets += draw(st.lists(cycle_plansets(), max_size=2))
    if not sets or draw(st.booleans()):
        sets.insert(draw(st.integers(0, len(sets))), draw(plansets()))
    return sets


@st.composite
def plansets(draw: DrawFn) -> PlanSet:
    problem = draw(problems())
    count, rank = len(problem), 1 if problem.extents is None else problem.extents.shape[1]
    offsets, shared = [], []
    for _ in range(draw(st.integers(0, 3))):
        column = int64s(draw(st.lists(natural, min_size=count, max_size=count)))
        places: tuple[Any, ...] = ()
        if draw(st.booleans()):
            sizes = tuple(draw(st.lists(natural, min_size=1, max_size=3)))
            places = (int64s(draw(st.lists(st.integers(0, len(sizes) - 1), min_size=count, max_size=count))), sizes)
        offsets.append(
            OffsetPlan(draw(texts), draw(options), column, draw(natural), draw(st.booleans()), draw(reports), *places)
        )
    for _ in range(draw(st.integers(0, 3))):
        extents: st.SearchStrategy[Any] = st.tuples(*[natural] * rank) if rank > 1 else natural
        objects: tuple[Size, ...] = tuple(draw(st.lists(extents, min_size=1, max_size=4)))
        column = int64s(draw(st.lists(st.integers(0, len(objects) - 1), min_size=count, max_size=count)))
        shared.append(
            SharedObjectsPlan(
                draw(texts), draw(options), column, objects, draw(natural), draw(st.booleans()), draw(reports)
            )
        )
    steps = draw(st.lists(texts, max_size=5))
    return PlanSet(
        problem,
        draw(natural),
        LowerBounds(draw(natural), draw(natural)),
        tuple(offsets),
        tuple(shared),
        target=draw(st.none() | targets()),
        digest=draw(texts),
        steps=tuple(steps) if problem.last_op.max(initial=-1) < len(steps) else (),
        unplanned=tuple(draw(st.lists(st.tuples(texts, texts), max_size=3))),
        order=draw(st.none() | st.integers(0, 6).flatmap(lambda n: st.permutations(range(n))).map(tuple)),
        dims=draw(st.dictionaries(texts, natural, max_size=3)),
        input_shapes=draw(st.dictionaries(texts, st.lists(natural, max_size=4).map(tuple), max_size=3)),
        versions=draw(st.dictionaries(texts, texts, max_size=3)),
        settings=draw(asked()) if draw(st.booleans()) else Settings(),
    )


def plain(p: PlanSet) -> dict[str, object]:
    """Everything in a plan set that a file keeps as values that compare, types of option values included.

    What a search proved comes back as a claim, and a plan as optimal at the lower bound alone.
    """
    q, bounds = p.problem, p.bounds
    search = {id(x): x.search and replace(x.search, claimed=True) for x in p.plans}
    return {
        "records": q.records,
        "relations": [None if rows is None else rows.tolist() for rows in (q.overlap, q.within)],
        "names": q.names,
        "columns": [c.tolist() for c in (q.first_op, q.last_op, q.size)],
        "extents": None if q.extents is None else q.extents.tolist(),
        "alignment": q.alignment,
        "offsets": [(x.strategy, typed(x.options), x.offsets.tolist(), x.size, search[id(x)]) for x in p.offsets],
        "optimal": [x.size == bounds.offsets for x in p.offsets],
        "regions": [(None if x.regions is None else x.regions.tolist(), x.region_sizes) for x in p.offsets],
        "shared": [
            (x.strategy, typed(x.options), x.assignment.tolist(), x.objects, x.size, search[id(x)])
            for x in p.shared_objects
        ],
        "numbers": (p.naive, p.bounds),
        "graph": (p.target, p.digest, p.steps, p.unplanned, p.order),
        "maps": (p.dims, p.input_shapes, p.versions),
        "settings": typed({name: getattr(p.settings, name) for name in Settings.__slots__}),
        "cycle": None if p.cycle is None else cycle_columns(p.cycle),
        "recording": None
        if p.recording is None
        else (
            p.recording.trace.events.tolist(),
            p.recording.fingerprint,
            typed(p.recording.fingerprint.options),
        ),
    }


def cycle_columns(cycle: Cycle) -> dict[str, object]:
    columns = ("size", "start", "end", "lane", "section", "free_section", "is_dynamic")
    listed = {name: getattr(cycle, name).tolist() for name in columns}
    return {**listed, "length": cycle.length, "sections": cycle.sections, "device": cycle.device}


def typed(values: Any) -> dict[str, tuple[type, object]]:
    return {key: (type(value), value) for key, value in values.items()}


def small() -> PlanSet:
    records = [
        UsageRecord("a", 0, 1, 100, "input", ("a", "a/view")),
        UsageRecord("b", 1, 2, 60),
        UsageRecord("ü", 2, 2, 30, "scratch", ("ü",)),
    ]
    return PlanSet(
        Problem(records, alignment=16),
        naive=192,
        bounds=LowerBounds(160, 160),
        offsets=(
            OffsetPlan("greedy_by_size", {"seed": 3, "fast": True, "mode": "x"}, int64s([0, 112, 0]), 172, False),
        ),
        shared_objects=(SharedObjectsPlan("greedy_by_breadth", {}, int64s([0, 1, 0]), (100, 60), 160, True),),
        target=BUILT_IN["tflm"],
        digest="ab" * 32,
        steps=("conv", "relu", "softmax"),
        unplanned=(("s", "a string"),),
        order=(0, 2, 1),
        dims={"N": 1},
        input_shapes={"a": (1, 5, 5)},
        versions={"edgemem": "0.1.0"},
    )


def fingerprint() -> Fingerprint:
    signature = Signature("run", (("a", "<f4", (1, 3)), ("ü", "<i8", ())), ("y",), bound=True)
    return Fingerprint("onnxruntime", "1.31.1", "cd" * 32, {"level": "ALL", "threads": 2}, signature)


def recorded() -> PlanSet:
    """100 bytes and 200 bytes with a place; 90 bytes on the heap for a while, and 40 to the end of the run."""
    trace = Trace.from_stream([100, 200, -1, 90, 40, -2, -3])
    problem = Problem(trace.problem().records[:2], alignment=64)
    plan = OffsetPlan("greedy_by_size", {}, int64s([256, 0]), 356, True)
    return PlanSet(
        problem,
        naive=384,
        bounds=LowerBounds(328, 300),
        offsets=(plan,),
        shared_objects=(),
        settings=Settings(("offsets/greedy_by_size",), "max", 3, 0.5, 2, 64),
        recording=Recording(fingerprint(), trace),
    )
