"""Usage records as CSV: every column, and every line that is wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

import edgemem
from edgemem import formats
from edgemem.errors import ModelError
from edgemem.planning import choices, make_plans
from edgemem.proof import prove
from edgemem.records.problem import Problem, UsageRecord
from edgemem.report.csv import problem_csv
from edgemem.report.export import export

if TYPE_CHECKING:
    from pathlib import Path

    from edgemem.records.problem import Kind


def read(path: Path, text: str) -> Problem:
    path.write_text(text, encoding="utf-8")
    source = formats.load(path)
    assert isinstance(source, formats.RecordFile)
    return source.problem()


def same(a: Problem, b: Problem) -> bool:
    rows = [[None if r is None else r.tolist() for r in (p.overlap, p.within)] for p in (a, b)]
    return a.records == b.records and sorted(map(str, rows[0])) == sorted(map(str, rows[1]))


def test_every_column_says_something(tmp_path: Path) -> None:
    problem = read(
        tmp_path / "records.csv",
        "id,lower,upper,size_bytes,within,kind,overlap,regions,traffic,offset,object\n"
        "the cache,0,4,64,,state,,0,7,128,1\n"
        "in,0,2,32,,input,out@-16 copy@0,0|1,,,\n"
        "out,1,3,32,,tensor,,1,,,\n"
        "copy,1,4,16,out@16,,,,,,2\n",
    )
    assert problem.records == (
        UsageRecord("the cache", 0, 3, 64, "state", (), 128, (0,), 7),
        UsageRecord("in", 0, 1, 32, "input", (), None, (0, 1)),
        UsageRecord("out", 1, 2, 32, regions=(1,)),
        UsageRecord("copy", 1, 3, 16),
    )
    assert problem.overlap is not None
    assert problem.within is not None
    assert problem.overlap.tolist() == [[1, 2, -16], [1, 3, 0]]
    assert problem.within.tolist() == [[3, 2, 16]]


HEAD = "tensor,first_op,last_op,size"


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (f"{HEAD},colour\na,0,1,4,red\n", "behind them any of offset, kind, regions"),
        (f"{HEAD},offset,offset\na,0,1,4,,\n", "behind them any of"),
        (f"offset,{HEAD}\n,a,0,1,4\n", "the first line names the columns"),
        (f"{HEAD},kind\na,0,1,4,tensor\nb,0,1,4,weights\n", "line 3: kind 'weights' is none of tensor, input"),
        (f"{HEAD},kind\na,0,1,4,state\nb,0,2,4,\n", "'a' is a state, which is in use for the whole run, 0 to 2"),
        (f"{HEAD},regions\na,0,1,4,0+1\n", "line 2: regions '0[+]1' is no indices"),
        (f"{HEAD},regions\na,0,1,4,1|0\n", "regions [(]1, 0[)]; give their indices"),
        (f"{HEAD},traffic\na,0,1,4,-3\n", "line 2: traffic '-3' is no whole number"),
        (f"{HEAD},overlap\na,0,1,4,b\n", "line 2: overlap 'b' is not NAME@NUMBER"),
        (f"{HEAD},overlap\na,0,1,4,b@x\n", "line 2: overlap 'b@x' is not NAME@NUMBER"),
        (f"{HEAD},overlap\na,0,1,4,b@0\n", "line 2: overlap: no record has the name 'b'"),
        (
            f"{HEAD},within\na,0,1,4,\nb,0,1,4,\nb,0,1,4,\nc,0,1,4,b@0\n",
            "line 5: within: two records have the name 'b'",
        ),
        (f"{HEAD},within\na,0,1,4,\nb,0,1,4,a@0 a@0\n", "line 3: within names 2 records"),
        (f"{HEAD},within\na,0,1,4,\nb,0,1,4,a@1\n", "records.csv: within: record 'b' at 1 in 'a'"),
        (f"{HEAD},overlap\na,0,1,4,b@0\nb,2,3,4,\n", "records.csv: overlap: record 'a' is used until operator 1"),
        (f"{HEAD},within\na,0,1,4\n", "line 2: 4 fields, not 5"),
        (f"{HEAD}\na,0,1,{'9' * 5000}\n", "line 2: size '999"),
        (f"{HEAD},kind\na,0,1,{'9' * 25},\n", "within int64"),
        (f"{HEAD}\na,{'9' * 5000},1,4\n", r"line 2: '9+\.\.\. and '1' must be integers"),
        (f"{HEAD}\na,1_0,1,4\n", "line 2: '1_0' and '1' must be integers"),
        (f"{HEAD}\na,0,\u0663,4\n", "line 2: '0' and '\u0663' must be integers"),
        (f"{HEAD}\n{'a' * 5000},3,1,4\n", r"line 2: 'a+\.\.\. is alive from 3 to 1"),
        (f"{HEAD},kind\na,0,1,4,{'k' * 5000}\n", r"line 2: kind 'k+\.\.\. is none of"),
    ],
)
def test_a_wrong_line_says_what_is_wrong(tmp_path: Path, text: str, what: str) -> None:
    with pytest.raises(ModelError, match=what):
        read(tmp_path / "records.csv", text)


NAMES = st.lists(st.text("ab %@='|é\"", min_size=1, max_size=4).map(str.strip).filter(bool), unique=True, max_size=6)


@st.composite
def problems(draw: st.DrawFn) -> Problem:
    """Records that may be anything a file can say; relations only where they hold."""
    names = draw(NAMES)
    rank = draw(st.sampled_from((1, 1, 2, 3)))
    kinds: list[Kind] = ["tensor", "input", "output", "variable", "scratch", "state"]
    records = []
    for name in names:
        kind = draw(st.sampled_from(kinds))
        a, b = sorted((draw(st.integers(0, 4)), draw(st.integers(0, 4))))
        sides = [draw(st.integers(1, 9)) for _ in range(rank)]
        size = sides[0] if rank == 1 else (sides[0], sides[1]) if rank == 2 else (sides[0], sides[1], sides[2])
        span = (0, 5) if kind == "state" else (a, b)
        regions = tuple(sorted(draw(st.sets(st.integers(0, 3), max_size=2))))
        records.append(UsageRecord(name, *span, size, kind, (), None, regions, draw(st.integers(0, 2))))
    if any(r.kind == "state" for r in records):
        records.append(UsageRecord("the last one", 5, 5, records[0].size))
    overlap, within = [], []
    for i, one in enumerate(records):
        for j, other in enumerate(records):
            if (
                i < j
                and one.last_op == other.first_op
                and one.first_op < one.last_op
                and other.first_op < other.last_op
            ):
                overlap.append((i, j, draw(st.integers(-9, 9))))
    inner = draw(st.integers(0, len(records))) if rank == 1 else len(records)
    if inner < len(records):
        one = records[inner]
        for j, other in enumerate(records):
            meet = max(one.first_op, other.first_op) <= min(one.last_op, other.last_op)
            spare = _bytes(other) - _bytes(one)
            apart = one.regions and other.regions and not set(one.regions) & set(other.regions)
            if j != inner and meet and spare >= 0 and not apart:
                within.append((inner, j, draw(st.integers(0, spare))))
                break
    return Problem(records, overlap=overlap, within=within)


def _bytes(record: UsageRecord) -> int:
    assert isinstance(record.size, int)
    return record.size


@pytest.mark.full
@given(problems())
def test_what_is_written_is_read_back(tmp_path_factory: pytest.TempPathFactory, problem: Problem) -> None:
    file = tmp_path_factory.mktemp("csv") / "records.csv"
    assert same(read(file, problem_csv(problem)), problem)


@pytest.mark.full
@given(problems())
def test_an_exported_plan_is_read_back_with_its_places(
    tmp_path_factory: pytest.TempPathFactory, problem: Problem
) -> None:
    free = Problem(
        [UsageRecord(r.name, r.first_op, r.last_op, r.size, traffic=r.traffic) for r in problem.records],
        overlap=() if problem.overlap is None else problem.overlap,
    )
    planset = make_plans(free, choices("greedy_by_size"))
    back = read(tmp_path_factory.mktemp("csv") / "records.csv", export(prove(planset), "csv"))
    assert back.names == free.names
    plan = planset.best_offsets
    assert plan is not None
    pinned = [] if back.pinned is None else back.pinned.tolist()
    assert pinned == plan.offsets.tolist()
    assert (back.overlap is None) == (free.overlap is None)
    assert back.size.tolist() == free.size.tolist()


def test_a_plain_file_stays_as_it_was() -> None:
    problem = Problem([UsageRecord("a", 0, 1, 4), UsageRecord("b", 1, 1, 2)])
    assert problem_csv(problem) == f"{HEAD}\na,0,1,4\nb,1,1,2\n"
    planset = edgemem.plan(problem, strategy=["offsets/naive", "shared_objects/naive"])
    assert export(prove(planset), "csv") == f"{HEAD},offset,object\na,0,1,4,0,0\nb,1,1,2,4,1\n"


@pytest.mark.parametrize(
    "name", ["q\n::error file=x::y\n", "=1+1", "+1", "-1", "@x", "::error::x", " =1", "##[error]x"]
)
def test_a_name_in_csv_is_no_command(name: str) -> None:
    """Neither for a spreadsheet nor for a log of GitHub Actions."""
    records = [UsageRecord(name, 0, 1, 64), UsageRecord("b", 1, 2, 64)]
    problem = Problem(records)
    proved = prove(make_plans(problem, choices("greedy_by_size")))
    for text in (export(proved, "csv"), problem_csv(problem)):
        lines = text.splitlines()
        assert len(lines) == 3
        assert all(line.lstrip(' "')[:1] not in "=+-@:#" for line in lines[1:])


def test_within_names_what_the_first_column_says(tmp_path: Path) -> None:
    problem = Problem([UsageRecord("=a\nb", 0, 1, 64), UsageRecord("b", 1, 1, 64)], within=[(1, 0, 0)])
    again = read(tmp_path / "again.csv", problem_csv(problem))
    assert [r.name for r in again.records] == ["=a\\nb", "b"]
    assert again.within is not None
    assert again.within.tolist() == [[1, 0, 0]]
