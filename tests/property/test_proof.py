"""The proof's kernel and the oracle agree, on right plans and on broken ones."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from edgemem import _kernels
from edgemem.plans import SharedObjectsPlan
from edgemem.proof import Cause, sweep_plan
from edgemem.proof.faults import COLUMNS, Fault
from edgemem.records.problem import Problem
from tests.extent import run_for_seeds
from tests.oracle import proof as oracle

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    Column = NDArray[np.int64]

SEEDS = range(24)
ROUNDS = 60
SINGLE = {
    Fault.NEGATIVE_OFFSET: "negative offset",
    Fault.MISALIGNED: "misaligned",
    Fault.OUTSIDE_ARENA: "outside arena",
    Fault.NO_SUCH_REGION: "no such region",
    Fault.ARENA_TOO_LARGE: "arena too large",
    Fault.NOT_WHERE_PINNED: "not where pinned",
    Fault.IN_RESERVED: "in reserved",
}


def _records(random: Random, count: int, operators: int) -> list[tuple[int, int, int]]:
    most = random.choice((1, 3, 12, 40))
    records = []
    for _ in range(count):
        first = random.randrange(operators)
        last = min(operators - 1, first + random.randrange(random.choice((1, 3, operators))))
        records.append((first, last, 0 if random.random() < 0.05 else random.randint(1, most)))
    return records


def _relate(random: Random, case: oracle.Case) -> None:
    """Some records inside others, most of which they fit in, and some overlaps between those that meet."""
    count = len(case.records)
    ranks = random.sample(range(count), count)  # what a record lies in comes before it
    for k, inner in enumerate(ranks):
        if k and random.random() < 0.4:
            outer = random.choice(ranks[max(0, k - 3) : k])
            room = case.records[outer][2] - case.records[inner][2]
            steps = max(room, 0) // case.alignment
            delta = random.randint(0, steps) * case.alignment if random.random() < 0.9 else random.randint(-2, 8)
            case.within.append((inner, outer, delta))
    made: set[int] = set()
    for i in range(count):
        for j in range(count):
            meet = i != j and case.records[i][1] == case.records[j][0]
            one = {k for k in (i, j) if case.records[k][0] == case.records[k][1]}
            taken = one & made if i in one else set()
            if (
                meet
                and random.random() < 0.5
                and not taken
                and not (j in one and any(a == j for a, _, _ in case.overlap))
            ):
                made.add(j)
                case.overlap.append((i, j, random.randint(-5, 8)))


def _constrain(random: Random, case: oracle.Case, *, regions: int) -> None:
    for region in range(regions):
        end = 0
        for _ in range(random.randrange(3)):
            begin = end + random.randrange(6) * case.alignment
            end = begin + random.randint(1, 3) * case.alignment
            case.reserved.append((region, begin, end))
    for i in range(len(case.records)):
        if random.random() < 0.2:
            case.pins[i] = random.randrange(8) * case.alignment


def _place(random: Random, case: oracle.Case, regions: int) -> None:
    """Offsets that keep to everything, as far as trying some places finds such."""
    count = len(case.records)
    if regions > 1 or random.random() < 0.1:
        case.regions = [random.randrange(regions) for _ in range(count)]
    outer = {i: (j, delta) for i, j, delta in case.within}
    case.arenas = [2**62] * regions
    depth = {i: len(list(_chain(outer, i))) for i in range(count)}
    case.offsets = [10**6 + 100 * i * case.alignment for i in range(count)]
    for i in sorted(range(count), key=depth.__getitem__):
        if i in outer:
            j, delta = outer[i]
            case.offsets[i] = case.offsets[j] + delta
            if case.regions:
                case.regions[i] = case.regions[j]
            continue
        far = case.offsets[i]
        for at in (case.pins.get(i, 0), *(random.randrange(12) * case.alignment for _ in range(12))):
            case.offsets[i] = at
            faults, conflicts = oracle.offset_faults(case)
            if not any(i in pair for pair in conflicts) and not any(
                w == "in reserved" and k == i for w, k, _ in faults
            ):
                break
        else:
            case.offsets[i] = far


def _chain(outer: dict[int, tuple[int, int]], record: int) -> Iterable[int]:
    while record in outer:
        record = outer[record][0]
        yield record


def _settle(random: Random, case: oracle.Case, regions: int) -> None:
    """Arenas that fit the offsets, and then, mostly, something broken."""
    case.arenas = [
        max(
            (
                o + r[2]
                for k, (o, r) in enumerate(zip(case.offsets, case.records, strict=True))
                if r[2] and case.region(k) == g
            ),
            default=0,
        )
        for g in range(regions)
    ]
    for _ in range(random.choice((0, 1, 1, 3))):
        i = random.randrange(len(case.records))
        match random.randrange(6):
            case 0:
                case.offsets[i] += random.choice((-1, 1)) * case.alignment
            case 1:
                case.offsets[i] = case.offsets[random.randrange(len(case.records))]
            case 2:
                case.offsets[i] = random.randint(-3, 40)
            case 3:
                g = random.randrange(regions)
                case.arenas[g] = max(0, case.arenas[g] + random.randint(-9, 9))
            case 4 if case.regions:
                case.regions[i] = random.randint(-1, regions)
            case _:
                first, last, size = case.records[i]
                case.records[i] = (first, last, max(0, size + random.choice((-1, 1, 5))))


def random_case(random: Random, *, plain: bool) -> tuple[oracle.Case, int]:
    case = oracle.Case(_records(random, random.randint(1, 9), random.randint(1, 8)), [], random.choice((1, 1, 4)))
    regions = 1 if plain else random.choice((1, 1, 2, 3))
    if not plain:
        _relate(random, case)
    if random.random() < 0.5:
        _constrain(random, case, regions=regions)
    _place(random, case, regions)
    _settle(random, case, regions)
    return case, regions


def _flat(rows: Iterable[Sequence[int]]) -> Column:
    return np.array([number for row in rows for number in row], np.int64)


def _columns(case: oracle.Case) -> tuple[Column, Column, Column, int]:
    first, last, size = (np.array([r[k] for r in case.records], np.int64) for k in range(3))
    return first, last, size, case.alignment


def _shared(case: oracle.Case) -> dict[str, Any]:
    pins = np.array([case.pins.get(i, -1) for i in range(len(case.records))], np.int64)
    reserved = _flat((low, high) for _, low, high in case.reserved)
    given = {"pinned": pins, "reserved": reserved, "overlap": _flat(case.overlap), "within": _flat(case.within)}
    return {key: column for key, column in given.items() if len(column)}


def _offset_rows(case: oracle.Case) -> list[list[int]]:
    given = _shared(case)
    if case.regions:
        given["region"] = np.array(case.regions, np.int64)
    if case.regions and case.reserved:
        given["reserved_region"] = np.array([r for r, _, _ in case.reserved], np.int64)
    arrays = np.array(case.offsets, np.int64), np.array(case.arenas, np.int64)
    rows = _kernels.find_offset_faults(*_columns(case), *arrays, **given)
    found: list[list[int]] = rows.reshape(-1, COLUMNS).tolist()
    return found


def _check_offsets(case: oracle.Case) -> bool:
    """Whether the plan is right; both must say so."""
    rows = _offset_rows(case)
    assert len(rows) < 100
    faults, conflicts = oracle.offset_faults(case)
    pairs = {(min(a, b), max(a, b)) for code, a, b, *_ in rows if code == Fault.OVERLAP}
    assert pairs <= conflicts
    assert bool(pairs) == bool(conflicts)
    for code, a, b, op, *_ in rows:
        if code == Fault.OVERLAP:
            assert op == case.records[b][0]
            assert case.records[a][0] <= op <= case.records[a][1]
    others = {(SINGLE[Fault(c)], a, n) for c, a, _, _, n, *_ in rows if c in SINGLE}
    others |= {("not within", a, b) for c, a, b, *_ in rows if c == Fault.NOT_WITHIN}
    assert others == faults
    return not rows


@pytest.mark.full
@pytest.mark.parametrize("plain", [True, False])
@run_for_seeds(SEEDS, quick=4)
def test_offsets(seed: int, plain: bool) -> None:
    random = Random(seed)
    right = sum(_check_offsets(random_case(random, plain=plain)[0]) for _ in range(ROUNDS))
    assert 0 < right < ROUNDS


@pytest.mark.full
@pytest.mark.parametrize("plain", [True, False])
@run_for_seeds(SEEDS, quick=4)
def test_bounds(seed: int, plain: bool) -> None:
    random = Random(1000 + seed)
    for _ in range(ROUNDS):
        case, regions = random_case(random, plain=plain)
        case.reserved = [row for row in case.reserved if row[0] == 0]
        claims = _kernels.recompute_claims(*_columns(case), **_shared(case))
        assert claims == (*oracle.bounds(case), oracle.naive(case))
        if regions == 1 and _check_offsets(case):
            assert claims[0] <= case.arenas[0]


@run_for_seeds(SEEDS, quick=4)
def test_objects(seed: int) -> None:
    random = Random(2000 + seed)
    right = 0
    for _ in range(ROUNDS):
        count, rank = random.randint(1, 9), random.choice((1, 2, 3))
        records = [
            (first, last, tuple(random.randint(0, 4) for _ in range(rank)))
            for first, last, _ in _records(random, count, random.randint(1, 8))
        ]
        assignment: list[int] = []
        for i in range(count):
            alone = [
                k
                for k in range(i + 1)
                if not oracle.object_faults(oracle.Sharing(records[: i + 1], [*assignment, k], [(0,)] * count))[1]
            ]
            assignment.append(next(k for k in (random.choice(alone), max(assignment, default=-1) + 1) if k in alone))
        number = {k: position for position, k in enumerate(dict.fromkeys(assignment))}
        assignment = [number[k] for k in assignment]
        objects = [
            tuple(max(c) for c in zip(*(r[2] for r, a in zip(records, assignment, strict=True) if a == k), strict=True))
            for k in range(len(number))
        ]
        case = oracle.Sharing(records, assignment, objects)
        for _ in range(random.choice((0, 1, 2))):
            match random.randrange(4):
                case 0:
                    assignment[random.randrange(count)] = random.randint(-1, len(objects))
                case 1:
                    k = random.randrange(len(objects))
                    objects[k] = tuple(side + random.choice((-1, 0, 1)) for side in objects[k])
                case 2:
                    objects[random.randrange(len(objects))] = tuple(
                        random.randint(0, 4) for _ in range(random.randint(2, 3))
                    )
                case _:
                    objects.append(objects[0])
        right += _check_objects(case)
    assert 0 < right < ROUNDS


def _check_objects(case: oracle.Sharing) -> bool:
    first, last = (np.array([r[k] for r in case.records], np.int64) for k in range(2))
    extents = np.array([r[2] for r in case.records], np.int64)
    problem = Problem.from_arrays(first, last, extents if extents.shape[1] > 1 else extents[:, 0])
    plain: Any = tuple(sides[0] if len(sides) == 1 else sides for sides in case.objects)
    plan = SharedObjectsPlan("any", {}, np.array(case.assignment), plain, case.size, optimal=False)
    violations = sweep_plan(problem, plan)
    causes = {
        "no such object": Cause.NO_SUCH_OBJECT,
        "empty object": Cause.EMPTY_OBJECT,
        "object too small": Cause.OBJECT_TOO_SMALL,
        "object too large": Cause.WRONG_SIZE,
    }
    faults, conflicts = oracle.object_faults(case)
    single = sorted(v.cause for v in violations if v.cause is not Cause.OBJECT_SHARED)
    assert single == sorted(causes[what] for what, _ in faults)
    pairs = {tuple(sorted(map(int, v.records))) for v in violations if v.cause is Cause.OBJECT_SHARED}
    assert pairs <= conflicts
    assert bool(pairs) == bool(conflicts)
    return not violations


@run_for_seeds(range(10), quick=3)
def test_limits_of_int64(seed: int) -> None:
    random = Random(3000 + seed)
    edges = [-(2**63), -(2**63) + 1, -1, 0, 1, 2**62, 2**63 - 2, 2**63 - 1]
    for _ in range(ROUNDS):
        case, regions = random_case(random, plain=random.random() < 0.5)
        case.offsets = [random.choice((o, random.choice(edges) + random.choice((0, 0, 1)))) for o in case.offsets]
        case.offsets = [min(max(o, -(2**63)), 2**63 - 1) for o in case.offsets]
        case.arenas = [random.choice((case.arenas[g], *edges)) for g in range(regions)]
        case.overlap = [(i, j, random.choice((d, *edges))) for i, j, d in case.overlap]
        case.within = [(i, j, random.choice((d, *edges))) for i, j, d in case.within]
        _check_offsets(case)
        claims = _kernels.recompute_claims(*_columns(case), **_shared(case))
        assert all(claim >= 0 for claim in claims)
