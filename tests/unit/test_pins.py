"""Pinned offsets and reserved ranges, from the records to the plan, its proof and its file."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from onnx import TensorProto, helper

import edgemem
from edgemem import planfile
from edgemem.cli.main import main
from edgemem.errors import BudgetExceededError, ModelError, PlanError, PlanFileError
from edgemem.planning import make_plans
from edgemem.planning.verification import right_plan
from edgemem.proof import Cause, verify_planset
from edgemem.records.problem import Problem, UsageRecord
from edgemem.strategy.bounds import lower_bounds
from edgemem.strategy.catalogue import registered
from edgemem.targets import BUILT_IN, Region
from tests.extent import run_for_seeds
from tests.oracle import pinned

if TYPE_CHECKING:
    from pathlib import Path

    from edgemem.plans import PlanSet

# Two that live all the time around b, which is pinned: a fits below it, c does not.
RECORDS = (
    UsageRecord("a", 0, 3, 48),
    UsageRecord("b", 1, 2, 32, offset=64),
    UsageRecord("c", 0, 2, 80),
    UsageRecord("d", 3, 3, 64),
)
PINNED = Problem(RECORDS, alignment=16)
RESERVED = Problem(RECORDS, alignment=16, reserved=((0, 16), (100, 120)))


def offsets_of(planset: PlanSet) -> dict[str, int]:
    plan = planset.best_offsets
    assert plan is not None
    return dict(zip(planset.problem.names, plan.offsets.tolist(), strict=True))


def test_records_and_columns_say_the_same() -> None:
    columns = Problem.from_arrays(
        PINNED.first_op, PINNED.last_op, PINNED.size, names=PINNED.names, alignment=16, pinned=[-1, 64, -1, -1]
    )
    assert columns.pinned is not None
    assert PINNED.pinned is not None
    assert columns.pinned.tolist() == PINNED.pinned.tolist() == [-1, 64, -1, -1]
    assert columns.records == RECORDS
    free = Problem([replace(r, offset=None) for r in RECORDS])
    assert free.pinned is None
    assert Problem.from_arrays([0], [0], [1], pinned=[-1]).pinned is None
    assert free.constraints == {}


def test_reserved_ranges_are_widened_and_joined() -> None:
    assert Problem([], alignment=16, reserved=[(100, 120), (0, 1), (40, 40), (20, 30), (128, 129)]).reserved == (
        (0, 32),
        (96, 144),
    )


@pytest.mark.parametrize(
    ("records", "reserved", "what"),
    [
        ([UsageRecord("a", 0, 0, 4, offset=8)], (), "pinned at 8, no multiple of 16"),
        ([UsageRecord("a", 0, 0, 4, offset=-16)], (), "negative offset"),
        ([UsageRecord("a", 0, 2, 40, offset=0), UsageRecord("b", 2, 3, 4, offset=32)], (), "onto each other"),
        ([UsageRecord("a", 0, 0, 4, offset=32)], ((40, 41),), "in the reserved range 32..48"),
        ([UsageRecord("a", 0, 0, 4, offset=2**63 - 16)], (), "more than int64"),
        ([UsageRecord("a", 0, 0, 4, offset=2**64)], (), "within int64"),
        ([], ((4, 2),), "no range of bytes"),
        ([], ((-4, 2),), "no range of bytes"),
        ([], ((0, 2**63 - 1),), "more than int64"),
    ],
)
def test_what_no_plan_can_honour_is_refused(
    records: list[UsageRecord], reserved: tuple[tuple[int, int], ...], what: str
) -> None:
    with pytest.raises(ModelError, match=what):
        Problem(records, alignment=16, reserved=reserved)


def test_pins_of_another_length_are_refused() -> None:
    with pytest.raises(ModelError, match="first_op and pinned differ"):
        Problem.from_arrays([0], [0], [1], pinned=[1, 2])


def test_pins_that_never_meet_may_share_bytes() -> None:
    problem = Problem([UsageRecord("a", 0, 1, 8, offset=0), UsageRecord("b", 2, 3, 8, offset=4)])
    assert offsets_of(edgemem.plan(problem)) == {"a": 0, "b": 4}
    Problem([UsageRecord("a", 0, 1, 8, offset=0), UsageRecord("empty", 0, 1, 0, offset=4)])


def test_plans_keep_to_pins() -> None:
    planset = edgemem.plan(PINNED)
    assert offsets_of(planset) == {"a": 0, "b": 64, "c": 96, "d": 48}
    assert planset.best_offsets is not None
    assert planset.best_offsets.size == 176
    assert planset.best_offsets.optimal
    assert planset.best_shared_objects is not None
    assert all(p.offsets[1] == 64 for p in planset.offsets)


def test_plans_keep_out_of_reserved_ranges() -> None:
    planset = edgemem.plan(RESERVED)
    assert RESERVED.reserved == ((0, 16), (96, 128))
    assert offsets_of(planset) == {"a": 16, "b": 64, "c": 128, "d": 128}
    # Ranges above all records do not count.
    high = edgemem.plan(Problem(RECORDS, alignment=16, reserved=((10**6, 10**9),)))
    assert high.best_offsets is not None
    assert high.best_offsets.size == 176


def test_the_alignment_can_still_be_changed() -> None:
    free = Problem([replace(r, offset=None) for r in RECORDS], alignment=16, reserved=RESERVED.reserved)
    planset = edgemem.plan(free, alignment=64)
    assert planset.problem.reserved == ((0, 128),)
    assert min(offsets_of(planset).values()) == 128
    with pytest.raises(ModelError, match=r"'b', pinned at 64\.\.96, is in the reserved range 0\.\.128"):
        edgemem.plan(RESERVED, alignment=64)


def test_another_alignment_widens_the_ranges_as_they_were_given() -> None:
    problem = Problem([UsageRecord("a", 0, 0, 4)], alignment=64, reserved=[(0, 10)])
    assert problem.reserved == ((0, 64),)
    assert problem.given_reserved == ((0, 10),)
    assert offsets_of(edgemem.plan(problem, alignment=1)) == {"a": 10}
    again = problem.aligned(16).aligned(4)
    assert (again.reserved, again.given_reserved, again.alignment) == (((0, 12),), ((0, 10),), 4)


def test_the_bound_is_the_room_beside_them() -> None:
    # 64 bytes below b, and 64 of 128 above it.
    assert lower_bounds(PINNED).offsets == 96 + 64
    one = Problem([UsageRecord("p", 0, 0, 5, offset=96), UsageRecord("f", 0, 0, 5)], alignment=16)
    assert lower_bounds(one).offsets == 101
    # Both 16-byte gaps are too few for 40 bytes, which then end unpadded.
    gaps = Problem(
        [UsageRecord("f", 0, 0, 20), UsageRecord("g", 0, 0, 20)], alignment=16, reserved=[(16, 32), (48, 64)]
    )
    assert lower_bounds(gaps).offsets == 64 + 32 - 12


def random_problem(seed: int) -> Problem:
    """Records pinned where a plan has them, and ranges reserved where it has nothing."""
    random = np.random.default_rng(seed)
    count, alignment = int(random.integers(1, 40)), int(random.choice([1, 16]))
    first = random.integers(0, 20, count)
    last = first + random.integers(0, 8, count)
    size = random.integers(0, 100, count)
    pinned = np.full(count, -1)
    reserved = [(int(b), int(b + random.integers(1, 40))) for b in random.integers(0, 600, random.integers(0, 3))]
    for i in range(count):
        trial = pinned.copy()
        trial[i] = int(random.integers(0, 40)) * alignment
        if random.random() < 0.4:
            try:
                Problem.from_arrays(first, last, size, alignment=alignment, pinned=trial, reserved=reserved)
            except ModelError:
                continue
            pinned = trial
    return Problem.from_arrays(first, last, size, alignment=alignment, pinned=pinned, reserved=reserved)


@pytest.mark.full
@run_for_seeds(range(40), most=5)
def test_plans_bounds_and_proofs_agree(seed: int) -> None:
    problem = random_problem(seed)
    planset = make_plans(problem)
    assert verify_planset(planset) == ()
    columns = (problem.first_op, problem.last_op, problem.size, problem.alignment)
    assert pinned.offset_lower_bound(*columns, **problem.constraints) == planset.bounds.offsets
    order = np.argsort(-problem.size, kind="stable")
    expected = next(p for p in planset.offsets if p.strategy == "greedy_by_size").offsets
    assert pinned.place_in_smallest_gap(*columns, order, **problem.constraints).tolist() == expected.tolist()


def test_only_strategies_that_honour_them_run() -> None:
    able = {s.name for s in registered("offsets") if s.can_plan(RESERVED)}
    assert able == {"search", "greedy_by_size", "pyramid", "spatio_temporal"}
    assert able == {s.name for s in registered("offsets") if s.honours >= {"pinned", "reserved"}}
    assert {p.strategy for p in make_plans(RESERVED).offsets} <= able
    assert {p.strategy for p in make_plans(RESERVED).shared_objects} == {
        p.strategy for p in make_plans(Problem([replace(r, offset=None) for r in RECORDS], alignment=16)).shared_objects
    }
    with pytest.raises(PlanError, match="naive cannot honour pinned offsets; these can: greedy_by"):
        edgemem.plan(PINNED, strategy="offsets/naive")
    with pytest.raises(PlanError, match="naive cannot honour pinned offsets or reserved ranges; these can: greedy_by"):
        edgemem.plan(RESERVED, strategy="offsets/naive")
    for name in sorted(able):
        assert edgemem.plan(PINNED, strategy=f"offsets/{name}").best_offsets is not None


def test_proof_finds_what_is_not_where_it_should_be() -> None:
    planset = make_plans(RESERVED)
    plan = planset.offsets[0]
    moved, inside = plan.offsets.copy(), plan.offsets.copy()
    moved[1], inside[0] = 192 + 16, 0
    for offsets, cause in ((moved, Cause.NOT_WHERE_PINNED), (inside, Cause.IN_RESERVED)):
        size = int((offsets + RESERVED.size).max())
        broken = replace(planset, offsets=(replace(plan, offsets=offsets, size=size, optimal=False),))
        assert cause in {v.cause for v in verify_planset(broken)}
    wrong = replace(planset, bounds=replace(planset.bounds, offsets=planset.bounds.offsets - 16))
    assert Cause.WRONG_BOUND in {v.cause for v in verify_planset(wrong)}


def test_proof_asks_the_target_too() -> None:
    planset = make_plans(PINNED)
    board = replace(BUILT_IN["generic"], alignment=16, regions=(Region("sram", None, ((0, 1),)),))
    assert Cause.IN_RESERVED in {v.cause for v in verify_planset(replace(planset, target=board))}


def test_every_pin_and_range_survives_a_plan_file() -> None:
    planset = edgemem.plan(RESERVED)
    data = planfile.encode(planset)
    assert data[4] == 3
    back = planfile.decode(data)
    assert back.problem.records == RECORDS
    assert back.problem.reserved == RESERVED.reserved
    assert planfile.encode(back) == data
    assert edgemem.verify(back) == ()
    assert planfile.encode(edgemem.plan(Problem([UsageRecord("a", 0, 0, 4)])))[4] == 1


def test_a_plan_file_with_impossible_pins_is_refused() -> None:
    planset = edgemem.plan(Problem(RECORDS, alignment=16))
    forged = planset.problem
    assert forged.pinned is not None
    column = forged.pinned.copy()
    column[1] = 8
    forged.pinned = column
    with pytest.raises(PlanFileError, match="no multiple of 16"):
        planfile.encode(planset)


def test_a_csv_column_pins_records(tmp_path: Path) -> None:
    file = tmp_path / "records.csv"
    file.write_text("tensor,first_op,last_op,size,offset\na,0,3,48,\nb,1,2,32,64\nc,0,2,80,\nd,3,3,64,\n")
    planset = edgemem.plan(file, alignment=16)
    assert offsets_of(planset) == {"a": 0, "b": 64, "c": 96, "d": 48}
    file.write_text("id,lower,upper,size_bytes,offset\nb,1,3,32,6x\n")
    with pytest.raises(ModelError, match="line 2: offset '6x' is no number of bytes"):
        edgemem.plan(file)
    file.write_text("tensor,first_op,last_op,size,offset\nb,1,3,32\n")
    with pytest.raises(ModelError, match="4 fields, not 5"):
        edgemem.plan(file)


def model_file(path: Path) -> Path:
    """Four steps without aliases: x -> a -> b -> c -> y, 1 KiB each."""
    names = ["x", "a", "b", "c", "y"]
    nodes = [helper.make_node("Softmax", [i], [o], name=f"to_{o}") for i, o in pairwise(names)]
    values = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [256]) for n in (names[0], names[-1])]
    graph = helper.make_graph(nodes, "chain", values[:1], values[1:])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    return path


def board(path: Path, capacity: str) -> Path:
    path.write_text(f'[[region]]\nname = "sram"\ncapacity = "{capacity}"\nreserved = ["0..100", "1KiB..2KiB"]\n')
    return path


def test_a_target_reserves_ranges_for_a_model(tmp_path: Path) -> None:
    model, target = model_file(tmp_path / "chain.onnx"), board(tmp_path / "board.toml", "5KiB")
    planset = edgemem.plan(model, target=str(target))
    plan = planset.best_offsets
    assert plan is not None
    assert planset.problem.reserved == ((0, 128), (1024, 2048))
    assert sorted(set(plan.offsets.tolist())) == [2048, 3072]
    assert plan.optimal
    planned = tmp_path / "planned.onnx"
    edgemem.save(model, planset, planned)
    assert edgemem.verify(planned) == ()
    back = right_plan(planned)[0].planset
    assert back.target == planset.target
    assert back.target is not None
    assert back.target.region == Region("sram", 5 * 1024, ((0, 100), (1024, 2048)))


def test_a_capacity_counts_what_is_reserved(tmp_path: Path) -> None:
    model = model_file(tmp_path / "chain.onnx")
    for capacity, why in ((4095, "search proved that all take 4,096"), (3199, "the lower bound is 3,200")):
        target = board(tmp_path / "board.toml", str(capacity))
        with pytest.raises(BudgetExceededError, match=f"no plan of the model as it is can fit it: {why}") as e:
            edgemem.plan(model, target=str(target))
        assert (e.value.required, e.value.available, e.value.impossible) == (4096, capacity, True)


def test_the_bound_may_be_missed_without_a_proof() -> None:
    # 30 bytes are free below the range, which neither record can share: only a search proves it.
    problem = Problem([UsageRecord("a", 0, 0, 20), UsageRecord("b", 0, 0, 20)], reserved=((30, 31),))
    planset = edgemem.plan(problem)
    assert planset.bounds.offsets == 41
    assert planset.proved.offsets == 51
    with pytest.raises(BudgetExceededError, match="search proved that all take 51 or more") as e:
        edgemem.plan(problem, budget=50)
    assert e.value.impossible
    with pytest.raises(BudgetExceededError, match="none was found that fits") as e:
        edgemem.plan(problem, strategy="offsets/greedy_by_size", budget=50)
    assert not e.value.impossible


@pytest.mark.full
def test_the_command_line_says_the_same(tmp_path: Path) -> None:
    model, target = model_file(tmp_path / "chain.onnx"), board(tmp_path / "board.toml", "5KiB")
    out = tmp_path / "planned.onnx"
    runner = CliRunner()
    done = runner.invoke(main, ["plan", str(model), "--target", str(target), "-o", str(out), "--json"])
    assert done.exit_code == 0, done.output
    data = json.loads(done.stdout)
    assert data["model"]["reserved"] == [[0, 128], [1024, 2048]]
    assert data["model"]["target"]["region"] == [
        {"name": "sram", "capacity": 5120, "reserved": ["0..100", "1024..2048"]}
    ]
    assert {r["offset"] for r in data["model"]["records"]} == {None}
    assert runner.invoke(main, ["verify", str(out)]).exit_code == 0
    over = runner.invoke(main, ["plan", str(model), "--target", str(board(tmp_path / "small.toml", "3KiB"))])
    assert over.exit_code == 3
    refused = runner.invoke(main, ["plan", str(model), "--target", str(target), "-s", "offsets/naive"])
    assert refused.exit_code == 1
    assert "naive cannot honour" in refused.stderr


def test_a_time_limit_leaves_a_plan_around_pins() -> None:
    count = 3000
    pins = [UsageRecord(f"p{i}", i, i + 5, 16, offset=64 * i) for i in range(0, 40, 4)]
    records = [UsageRecord(f"t{i}", i % 500, i % 500 + 7, 1 + i % 77) for i in range(count)]
    problem = Problem([*pins, *records], reserved=((16, 24), (500, 510)))
    for strategy in ("auto", "offsets/search"):
        planset = edgemem.plan(problem, strategy=strategy, time_limit=0.0)
        assert planset.best_offsets is not None
        assert verify_planset(planset) == ()
