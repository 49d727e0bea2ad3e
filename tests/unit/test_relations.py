"""Relations, states and regions of records: what a Problem refuses, and what plans and proofs do with them."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

import edgemem
from edgemem import planfile
from edgemem.errors import InvalidPlanError, ModelError, PlanError
from edgemem.planning import choices, make_plans
from edgemem.plans import OffsetPlan
from edgemem.proof import Cause, sweep_plan, verify_planset
from edgemem.records.problem import Problem, UsageRecord
from edgemem.records.sizes import padded
from edgemem.report.document import document
from edgemem.strategy.bounds import lower_bounds
from edgemem.strategy.catalogue import registered
from edgemem.strategy.registry import Strategy
from edgemem.targets import BUILT_IN, Region

A = UsageRecord("a", 0, 1, 64)
B = UsageRecord("b", 1, 2, 32)
C = UsageRecord("c", 2, 3, 16)


def test_padding_is_of_numbers_and_of_columns() -> None:
    assert [padded(n, 16) for n in (0, 1, 16, 17, -5)] == [0, 16, 16, 32, 0]
    assert padded(np.array([0, 1, 16, 17]), 16).tolist() == [0, 16, 16, 32]


def test_relations_are_read_only_columns() -> None:
    problem = Problem([A, B, C], overlap=[(0, 1, 0)], within=[(2, 1, 16)])
    assert problem.overlap is not None
    assert problem.within is not None
    assert problem.overlap.tolist() == [[0, 1, 0]]
    assert problem.within.tolist() == [[2, 1, 16]]
    assert problem.overlap.dtype == problem.within.dtype == np.int64
    with pytest.raises(ValueError, match="read-only"):
        problem.overlap[0, 2] = 1
    assert problem.features == {"overlap", "within"}
    columns = Problem.from_arrays(
        problem.first_op, problem.last_op, problem.size, overlap=problem.overlap, within=problem.within
    )
    assert columns.within is not None
    assert columns.within.tolist() == [[2, 1, 16]]
    again = problem.aligned(16)
    assert again.overlap is not None
    assert again.overlap.tolist() == [[0, 1, 0]]
    plain = Problem([A, B, C])
    assert (plain.overlap, plain.within, plain.regions, plain.traffic) == (None, None, None, None)
    assert plain.features == frozenset()


def test_roles_are_a_column_that_no_plan_has_to_honour() -> None:
    problem = Problem([A, B, C], roles=[3, -1, 3])
    assert problem.roles is not None
    assert problem.roles.tolist() == [3, -1, 3]
    assert problem.roles.dtype == np.int64
    assert not problem.roles.flags.writeable
    assert problem.features == frozenset()
    again = problem.aligned(16)
    assert again.roles is not None
    assert again.roles.tolist() == [3, -1, 3]
    columns = Problem.from_arrays([0, 1], [1, 2], [8, 8], roles=np.array([0, 0]))
    assert columns.roles is not None
    assert columns.roles.tolist() == [0, 0]
    assert Problem([A, B]).roles is None
    assert Problem([A, B], roles=[-1, -1]).roles is None
    for roles, what in (([0], "differ in length"), ([0, -2], "'b' has a negative role"), (["x", "y"], "integers")):
        with pytest.raises(ModelError, match=what):
            Problem([A, B], roles=roles)


def test_phases_are_two_columns_that_no_plan_has_to_honour() -> None:
    problem = Problem([A, B, C], phases=[(0, 1), (-1, -1), (1, 1)])
    assert problem.phases is not None
    assert problem.phases.tolist() == [[0, 1], [-1, -1], [1, 1]]
    assert problem.phases.dtype == np.int64
    assert not problem.phases.flags.writeable
    assert problem.features == frozenset()
    again = problem.aligned(16)
    assert again.phases is not None
    assert again.phases.tolist() == problem.phases.tolist()
    columns = Problem.from_arrays([0, 1], [1, 2], [8, 8], phases=np.array([[0, 0], [0, 1]]))
    assert columns.phases is not None
    assert columns.phases.tolist() == [[0, 0], [0, 1]]
    assert Problem([A, B]).phases is None
    assert Problem([A, B], phases=[(-1, -1)] * 2).phases is None
    assert Problem([], phases=[]).phases is None
    wrong: tuple[tuple[object, str], ...] = (
        ([(0, 1)], "differ in length"),
        ([0, 1], "give 2 a record"),
        ([(0, 0), (0, -2)], "'b' has a negative phase"),
        ([(0.5, 1), (0, 1)], "integers"),
    )
    for phases, what in wrong:
        with pytest.raises(ModelError, match=what):
            Problem([A, B], phases=phases)  # type: ignore[arg-type]  # what a caller without a type checker gives


@pytest.mark.parametrize(
    ("overlap", "within", "what"),
    [
        ([(0, 3, 0)], [], "overlap names record 3 of 3"),
        ([(-1, 0, 0)], [], "overlap names record"),
        ([(1, 1, 0)], [], "relates record 'b' to itself"),
        ([(0, 2, 0)], [], "record 'a' is used until operator 1, but 'c' begins at 2"),
        ([(1, 0, 0)], [], "an input and a result of one operator"),
        ([(0, 1, 0), (0, 1, 4)], [], "a pair of records twice"),
        ([(0, 1)], [], "rows of three integers"),
        ([(0, 1, 0.5)], [], "rows of three integers"),
        ([(0, 1, 2**62)], [], "beyond 2\\*\\*61"),
        ([], [(0, 5, 0)], "within names record 5"),
        ([], [(0, 0, 0)], "to itself"),
        ([], [(2, 1, 17)], "'c' at 17 in 'b' would end at 33 of 32 bytes"),
        ([], [(2, 1, -16)], "it must lie inside"),
        ([], [(2, 1, 8)], "8 is no multiple of the alignment 16"),
        ([], [(2, 0, 0)], "never in use together"),
        ([], [(1, 0, 0), (1, 2, 0)], "'b' at 0 in 'c': it lies inside another record, too"),
    ],
)
def test_rows_that_cannot_hold_are_refused(
    overlap: list[tuple[int, int, int]], within: list[tuple[int, int, int]], what: str
) -> None:
    alignment = 16 if "multiple" in what else 1
    with pytest.raises(ModelError, match=what):
        Problem([A, B, C], overlap=overlap, within=within, alignment=alignment)


def test_chains_are_allowed_and_cycles_are_not() -> None:
    same = [UsageRecord(name, 0, 1, 8) for name in "abc"]
    Problem(same, within=[(0, 1, 0), (1, 2, 0)])
    with pytest.raises(ModelError, match="lies inside itself"):
        Problem(same, within=[(0, 1, 0), (1, 2, 0), (2, 0, 0)])


def test_siblings_share_bytes_unless_one_is_pinned() -> None:
    whole = UsageRecord("whole", 0, 2, 64)
    first, second = UsageRecord("first", 0, 5, 32), UsageRecord("second", 2, 6, 32)
    rows = [(1, 0, 0), (2, 0, 16)]
    assert lower_bounds(Problem([whole, first, second], within=rows)).offsets == 64
    later = Problem([replace(whole, size=48), first, second, UsageRecord("other", 3, 5, 8)], within=rows)
    assert lower_bounds(later).offsets == 48 + 8
    planset = make_plans(later)
    assert [(p.size, p.optimal) for p in planset.offsets] == [(56, True)]
    assert verify_planset(planset) == ()
    for pinned in range(3):
        records = [replace(r, offset=16 if i == pinned else None) for i, r in enumerate((whole, first, second))]
        with pytest.raises(ModelError, match=r"'first' and 'second' share bytes of 'whole' .* records without a pin"):
            Problem(records, within=rows)
    pinned_whole = replace(whole, offset=16)
    Problem([pinned_whole, first, second], within=[(1, 0, 0), (2, 0, 32)])
    Problem([pinned_whole, replace(first, last_op=1), second], within=rows)
    Problem([pinned_whole, first, replace(second, size=16)], within=[(1, 0, 0), (2, 1, 16)])
    # An overlap lets them, where it is wide enough.
    dying = replace(first, last_op=2)
    Problem([pinned_whole, dying, second], within=[(1, 0, 16), (2, 0, 0)], overlap=[(1, 2, 16)])
    with pytest.raises(ModelError, match="share bytes of 'whole'"):
        Problem([pinned_whole, dying, second], within=[(1, 0, 16), (2, 0, 0)], overlap=[(1, 2, 17)])


def test_pins_and_places_inside_a_record_must_agree() -> None:
    whole, part = UsageRecord("whole", 0, 3, 64, offset=128), UsageRecord("part", 1, 2, 16, offset=160)
    Problem([whole, part], within=[(1, 0, 32)])
    with pytest.raises(ModelError, match=r"'whole' and 'part' are pinned at 128 and 160, but .* 16 bytes apart"):
        Problem([whole, part], within=[(1, 0, 16)])
    free = replace(whole, offset=None)
    with pytest.raises(ModelError, match="'part' is pinned at 16, but lies at 32 in 'whole'"):
        Problem([free, replace(part, offset=16)], within=[(1, 0, 32)])
    with pytest.raises(ModelError, match=r"'whole', pinned at 0\.\.64, is in the reserved range 40\.\.48"):
        Problem([free, replace(part, offset=16)], within=[(1, 0, 16)], reserved=[(40, 48)])
    with pytest.raises(
        ModelError, match=r"'other' at 40.* and 'whole' at 0.*pinned onto|'whole'.*'other'.*pinned onto"
    ):
        Problem([free, replace(part, offset=16), UsageRecord("other", 0, 0, 8, offset=40)], within=[(1, 0, 16)])


def test_a_record_without_bytes_has_no_relations() -> None:
    empty = replace(B, size=0)
    with pytest.raises(ModelError, match="'b' is empty"):
        Problem([A, empty], overlap=[(0, 1, 0)])
    with pytest.raises(ModelError, match="'b' is empty"):
        Problem([A, empty], within=[(1, 0, 0)])


def test_an_operator_does_not_read_what_it_makes() -> None:
    records = [A, UsageRecord("b", 1, 1, 8), UsageRecord("c", 1, 2, 8)]
    with pytest.raises(ModelError, match="'b' is an input of the operator that makes it"):
        Problem(records, overlap=[(0, 1, 0), (1, 2, 0)])


def test_a_state_is_there_for_the_whole_run() -> None:
    kept = UsageRecord("cache", 0, 3, 8, "state", ("past", "present"))
    problem = Problem([kept, C])
    assert problem.features == {"state"}
    assert all(s.can_plan(problem) for s in registered())
    assert verify_planset(edgemem.plan(problem)) == ()
    for wrong in (replace(kept, first_op=1), replace(kept, last_op=2)):
        with pytest.raises(ModelError, match="'cache' is a state, which is in use for the whole run, 0 to 3"):
            Problem([wrong, C])


def test_regions_are_masks() -> None:
    problem = Problem([replace(A, regions=(0, 2)), B, replace(C, regions=(1,), traffic=5)])
    assert problem.regions is not None
    assert problem.traffic is not None
    assert problem.regions.tolist() == [5, 0, 2]
    assert problem.traffic.tolist() == [0, 0, 5]
    columns = Problem.from_arrays(
        problem.first_op, problem.last_op, problem.size, names="abc", regions=[5, 0, 2], traffic=[0, 0, 5]
    )
    assert columns.records == problem.records
    for regions in ((1, 0), (0, 0), (-1,), (62,)):
        with pytest.raises(ModelError, match="record 'a' has the regions"):
            Problem([replace(A, regions=regions)])
    with pytest.raises(ModelError, match="negative traffic"):
        Problem([replace(A, traffic=-1)])
    with pytest.raises(ModelError, match="numbered 0 to 61"):
        Problem.from_arrays([0], [0], [1], regions=[2**62])
    with pytest.raises(ModelError, match="no region that both may lie in"):
        Problem([replace(A, regions=(0,)), replace(B, regions=(1,))], within=[(1, 0, 0)])
    same = UsageRecord("x", 0, 1, 8, offset=0, regions=(0,)), UsageRecord("y", 0, 1, 8, offset=0, regions=(1,))
    Problem(same)
    with pytest.raises(ModelError, match="onto each other"):
        Problem([replace(r, regions=(0, 1)) for r in same])


def test_a_plan_lies_in_the_regions_its_records_may_lie_in() -> None:
    problem = Problem([replace(A, regions=(0, 1)), replace(B, regions=(1,)), C], alignment=16)
    board = replace(BUILT_IN["generic"], alignment=16, regions=(Region("sram", 64), Region("psram", None, ((48, 64),))))

    def causes(regions: list[int], offsets: list[int], sizes: tuple[int, ...]) -> set[Cause]:
        plan = OffsetPlan("any", {}, np.array(offsets), sum(sizes), False, None, np.array(regions), sizes)
        return {v.cause for v in sweep_plan(problem, plan, board)}

    assert causes([0, 1, 1], [0, 0, 32], (64, 48)) == set()
    assert causes([0, 1, 1], [0, 0, 16], (64, 32)) == {Cause.OVERLAP}
    assert causes([0, 1, 0], [0, 0, 0], (64, 32)) == set()
    assert causes([0, 1, 1], [0, 0, 48], (64, 64)) == {Cause.IN_RESERVED}
    assert causes([0, 0, 0], [0, 64, 0], (96,)) == {Cause.WRONG_REGION}
    assert causes([0, 1, 2], [0, 0, 0], (64, 32)) == {Cause.WRONG_REGION}
    assert causes([0, 1, 1], [0, 0, 32], (64, 64)) == {Cause.WRONG_SIZE}
    assert causes([0, 1, 1], [0, 0, 32], (64, 32)) == {Cause.OUTSIDE_ARENA}
    assert lower_bounds(problem).offsets == 96
    with pytest.raises(PlanError, match="no strategy for offsets honours regions that records may lie in"):
        edgemem.plan(problem)


def test_a_region_holds_what_is_in_it() -> None:
    planset = make_plans(Problem([A, B]), choices("offsets/greedy_by_size"))
    board = replace(BUILT_IN["generic"], alignment=1, regions=(Region("sram", 95),))
    found = verify_planset(replace(planset, target=board))
    assert [v.cause for v in found] == [Cause.OVER_CAPACITY]
    assert "96 bytes are needed in region 'sram', which has 95" in str(found[0])


def test_a_record_within_another_is_where_it_belongs() -> None:
    problem = Problem([A, B], within=[(1, 0, 16)])

    def causes(*offsets: int) -> list[Cause]:
        size = int((np.array(offsets) + problem.size).max())
        return [v.cause for v in sweep_plan(problem, OffsetPlan("any", {}, np.array(offsets), size, optimal=False))]

    assert causes(0, 16) == causes(8, 24) == []
    assert Cause.NOT_WITHIN in causes(0, 0)
    assert Cause.NOT_WITHIN in causes(0, 64)


def test_strategies_that_honour_nothing_of_it_say_so() -> None:
    inside = Problem([A, B], within=[(1, 0, 16)])
    with pytest.raises(PlanError, match="greedy_by_size cannot honour records within others; these can: search"):
        edgemem.plan(inside, strategy="offsets/greedy_by_size")
    with pytest.raises(PlanError, match="equality cannot honour records within others"):
        edgemem.plan(inside, strategy="shared_objects/equality")
    found = edgemem.plan(inside)
    assert [(p.strategy, p.size, p.optimal) for p in found.offsets] == [("search", 64, True)]
    assert found.offsets[0].offsets.tolist() == [0, 16]
    spread = Problem([replace(A, regions=(0, 1)), B])
    with pytest.raises(PlanError, match="search cannot honour regions that records may lie in; no other strategy"):
        edgemem.plan(spread, strategy="offsets/search")
    with pytest.raises(PlanError, match="no strategy for offsets honours regions that records may lie in"):
        edgemem.plan(spread)
    # An overlap is a permission that nobody need make use of.
    either = Problem([A, B], overlap=[(0, 1, 0)])
    assert all(s.can_plan(either) for s in registered())
    planset = edgemem.plan(either)
    assert planset.best_offsets is not None
    assert (planset.best_offsets.strategy, planset.best_offsets.size) == ("search", 64)
    assert planset.best_offsets.optimal
    assert {p.size for p in planset.offsets if p.strategy != "search"} == {96}
    assert planset.bounds.offsets == 64


@pytest.mark.parametrize(
    ("values", "what"),
    [
        (np.array([0]), "no int64 array of 2 numbers"),
        (np.array([0, 1], np.int32), "no int64 array"),
        ([0, 1], "no int64 array"),
        (np.array([0, -16]), "the number -16"),
        (np.array([0, 2**63 - 8]), "an arena beyond int64"),
        (np.array([0, 128]), "record 'b' the offset 128 instead of 64"),
    ],
)
def test_what_a_strategy_gives_is_checked(values: object, what: str) -> None:
    problem = Problem([A, replace(B, offset=64)])
    wrong = Strategy("wrong", "offsets", "", "", {}, None, None, {}, frozenset({"pinned"}), lambda _: values)  # type: ignore[arg-type, return-value]
    with pytest.raises(InvalidPlanError, match=f"the strategy wrong gave {what}"):
        wrong.solve(problem)


def test_json_has_the_columns_that_are_used() -> None:
    records = [replace(A, regions=(0,), traffic=3), B]
    used = replace(
        make_plans(Problem([A, B]), choices("offsets/naive")), problem=Problem(records, overlap=[(0, 1, 0)]), digest="x"
    )
    data = document(used)["model"]
    assert data["overlap"] == [[0, 1, 0]]
    assert "within" not in data
    assert [(r["regions"], r["traffic"]) for r in data["records"]] == [([0], 3), ([], 0)]
    plain = document(replace(used, problem=Problem([A, B])))
    assert not {"overlap", "within"} & plain["model"].keys()
    assert not {"regions", "traffic"} & plain["model"]["records"][0].keys()
    placed = replace(used.offsets[0], regions=np.array([0, 1]), region_sizes=(64, 32))
    assert document(replace(used, offsets=(placed,)))["plans"][0]["region_sizes"] == [64, 32]
    json.dumps(data)


def test_relations_survive_a_plan_file() -> None:
    records = [replace(A, regions=(0,), traffic=3), B, C]
    plain = make_plans(Problem([A, B, C]), choices("offsets/naive"))
    placed = replace(plain.offsets[0], regions=np.array([0, 1, 1]), region_sizes=(64, 48))
    planset = replace(plain, problem=Problem(records, overlap=[(0, 1, -4)], within=[(2, 1, 16)]), offsets=(placed,))
    data = planfile.encode(planset)
    assert data[4] == 4
    back = planfile.decode(data)
    assert back.problem.records == tuple(records)
    assert back.problem.overlap is not None
    assert back.problem.within is not None
    assert (back.problem.overlap.tolist(), back.problem.within.tolist()) == ([[0, 1, -4]], [[2, 1, 16]])
    assert back.offsets[0].region_sizes == (64, 48)
    assert back.offsets[0].regions is not None
    assert back.offsets[0].regions.tolist() == [0, 1, 1]
    assert planfile.encode(back) == data
