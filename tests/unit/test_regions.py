"""Targets with several regions: what a model's tensors move, where they go, and what is said, written and refused."""

from __future__ import annotations

import csv
import io
import json
import re
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from click.testing import CliRunner

from edgemem import api, planfile
from edgemem.cli.main import main
from edgemem.errors import BudgetExceededError, InvalidPlanError, ModelError, PlanError, UnsupportedError
from edgemem.model.graph import Graph, Op, Tensor
from edgemem.plans import Settings
from edgemem.proof import prove
from edgemem.records.lifetime import lifetimes
from edgemem.records.micro_memories import MicroMemories, MicroSizes, choose_memories
from edgemem.report.c_header import as_c_header
from edgemem.report.csv import as_csv
from edgemem.report.regions import region_uses
from edgemem.report.svg import as_svg
from edgemem.report.tflm_bufferplan import as_tflm_bufferplan
from edgemem.targets import BUILT_IN, Region, Target, find_target, from_table, to_table
from tests.unit.test_pins import model_file
from tests.unit.test_plan_schema import errors

if TYPE_CHECKING:
    from pathlib import Path

    from edgemem.plans import OffsetPlan

NEAR, FAR = Region("near", 128, cost=1), Region("far", None, cost=10)
# in (outside) -> Conv a (64 bytes) -> Reshape b -> Conv c (128) -> Conv d (96) -> Conv out (outside)
GRAPH = Graph(
    "g",
    (
        Tensor("in", "uint8", (64,)),
        Tensor("a", "uint8", (64,)),
        Tensor("b", "uint8", (8, 8)),
        Tensor("c", "uint8", (128,)),
        Tensor("d", "uint8", (96,)),
        Tensor("out", "uint8", (64,)),
    ),
    (
        Op("first", "Conv", (0,), (1,)),
        Op("view", "Reshape", (1,), (2,)),
        Op("second", "Conv", (2, 2), (3,)),
        Op("third", "Conv", (3,), (4,)),
        Op("last", "Conv", (4, 2), (5,)),
    ),
    (0,),
    (5,),
)


def board(*regions: Region, **rules: object) -> Target:
    return replace(BUILT_IN["generic"], name="board", alignment=16, regions=regions, **rules)  # type: ignore[arg-type]


def best_of(target: Target, **options: object) -> OffsetPlan:
    best = api.plan(GRAPH, target=target, **options).best_offsets  # type: ignore[arg-type]
    assert best is not None
    return best


def test_traffic_is_what_operators_write_and_read() -> None:
    problem = lifetimes(GRAPH, board(NEAR, FAR)).problem
    # a and b are one piece of memory, so that the view moves nothing: written once, read by `second` and `last`.
    assert {r.name: (r.traffic, r.regions) for r in problem.records} == {
        "a": (64 * 3, (0, 1)),
        "c": (128 * 2, (0, 1)),
        "d": (96 * 2, (0, 1)),
    }
    plain = lifetimes(GRAPH, board(NEAR)).problem
    assert (plain.traffic, plain.regions) == (None, None)


def test_tensors_go_where_their_bytes_cost_least_as_far_as_there_is_room() -> None:
    planset = api.plan(GRAPH, target=board(NEAR, FAR))
    best = planset.best_offsets
    assert best is not None
    # `c` moves most, and leaves no room for others; `d` begins while `c` is alive.
    assert best.regions is not None
    assert dict(zip(planset.problem.names, best.regions.tolist(), strict=True)) == {"a": 1, "c": 0, "d": 1}
    uses = region_uses(planset)
    assert [(use.arena, use.moved) for use in uses] == [(128, 256), (160, 192 + 192)]
    assert sum(use.cost for use in uses) == best.cost_bound == 256 + 10 * 384
    assert best.size == 288
    assert planset.has_regions


def test_the_first_of_regions_that_cost_the_same_holds_all_that_fits() -> None:
    assert not api.plan(GRAPH, target=board(Region("a"), Region("b"))).has_regions
    best, plain = best_of(board(Region("a"), Region("b"))), best_of(board(Region("a")))
    assert (best.offsets.tolist(), best.size, best.strategy) == (plain.offsets.tolist(), plain.size, plain.strategy)


def test_one_region_gives_the_plan_of_a_target_without_cost() -> None:
    one = api.plan(GRAPH, target=board(Region("arena", cost=7)))
    plain = api.plan(GRAPH, target=board(Region("arena")))
    assert [(p.strategy, p.size, p.options) for p in one.plans] == [
        (p.strategy, p.size, p.options) for p in plain.plans
    ]
    assert all((a.offsets == b.offsets).all() for a, b in zip(one.offsets, plain.offsets, strict=True))
    assert planfile.encode(replace(one, target=plain.target)) == planfile.encode(plain)


def test_offsets_keep_to_the_alignment_of_their_region() -> None:
    target = board(Region("wide", 1024, cost=1, alignment=64), FAR)
    planset = api.plan(GRAPH, target=target)
    best = planset.best_offsets
    assert best is not None
    assert not (best.offsets % 64).any()
    moved = replace(best, offsets=best.offsets + 16, size=best.size + 16, region_sizes=(best.size + 16, 0))
    with pytest.raises(InvalidPlanError, match=r"in region 0 is no multiple of 64"):
        prove(replace(planset, offsets=(replace(moved, optimal=False),)), GRAPH)
    assert board(Region("only", alignment=64)).alignment == 64


@pytest.mark.parametrize(
    ("regions", "message"),
    [
        ((Region("x", 100), Region("y", 120)), "no region holds 'c', 128 bytes: x has 100, y has 120"),
        ((Region("x", 64), Region("y", 128)), "alive at third, and x has 64, y has 128; alive there: 'c' 128, 'd' 96"),
        (
            (Region("x", 112), Region("y", 176)),
            "no placement holds all tensors: none .* room for '[acd]'.* x has",
        ),
        (
            (Region("x", 100), Region("y", 188)),
            "no placement holds all tensors: 288 bytes are alive at third.* x has 100",
        ),
    ],
)
def test_what_does_not_fit_names_a_tensor_and_the_regions(regions: tuple[Region, ...], message: str) -> None:
    with pytest.raises(BudgetExceededError, match=message) as found:
        api.plan(GRAPH, target=board(*regions))
    assert found.value.impossible
    assert found.value.tensors


def test_the_file_keeps_regions_costs_and_alignments(tmp_path: Path) -> None:
    target = board(NEAR, replace(FAR, alignment=32))
    assert from_table(to_table(target), where="here") == target
    planset = api.plan(GRAPH, target=target)
    api.save(None, planset, tmp_path / "p.edgemem")
    back = planfile.load(tmp_path / "p.edgemem")
    assert back.target == target
    assert back.best_offsets is not None
    assert planset.best_offsets is not None
    assert np.array_equal(back.best_offsets.regions, planset.best_offsets.regions)  # type: ignore[arg-type]
    assert back.best_offsets.region_sizes == planset.best_offsets.region_sizes
    assert api.verify(back, GRAPH) == ()
    shown = CliRunner().invoke(main, ["show", str(tmp_path / "p.edgemem")], env={"COLUMNS": "80"})
    assert "cost 4,096" in shown.output
    rows = [line.split() for line in shown.output.splitlines()]
    assert ["near", "128", "128", "1", "256", "256"] in rows
    assert ["far", "160", "any", "10", "384", "3,840"] in rows
    data = json.loads(CliRunner().invoke(main, ["show", "--json", str(tmp_path / "p.edgemem")]).output)
    assert errors(data) == []
    assert [use["moved"] for use in data["regions"]["uses"]] == [256, 384]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("cost = -1", "the cost of a byte is a whole number, 0 to 1000000, not -1"),
        ("cost = 1.5", "the cost of a byte"),
        ("cost = true", "the cost of a byte"),
        ("alignment = 3", "alignment 3 is not a power of two"),
        ('alignment = "4"', "is not a power of two"),
    ],
)
def test_wrong_regions_are_refused(line: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "board.toml"
    path.write_text(f'[[region]]\nname = "sram"\n{line}\n')
    with pytest.raises(ModelError, match=message):
        find_target(str(path))


def test_strategies_for_shared_objects_have_no_regions() -> None:
    with pytest.raises(PlanError, match="shared objects have no regions"):
        api.plan(GRAPH, strategy="shared_objects/greedy_by_size", target=board(NEAR, FAR))
    assert best_of(board(NEAR, FAR), strategy="greedy_by_size").strategy in ("greedy_by_size", "regions")


def test_the_header_has_an_arena_for_each_region() -> None:
    header = as_c_header(api.plan(GRAPH, target=board(NEAR, replace(FAR, name="far away", alignment=32))), "m")
    for line in (
        "#define M_ARENA_SIZE_NEAR 128",
        "#define M_ARENA_ALIGNMENT_FAR_AWAY 32",
        "#define M_ARENA_NUMBER_FAR_AWAY 1",
        "#define M_OFFSET_C 0",
        "#define M_REGION_C M_ARENA_NUMBER_NEAR",
        "#define M_REGION_A M_ARENA_NUMBER_FAR_AWAY",
        "#define M_REGION_B M_ARENA_NUMBER_FAR_AWAY",
    ):
        assert f"{line}\n" in header
    assert "M_ARENA_SIZE " not in header


def test_other_forms_keep_the_regions_apart() -> None:
    planset = api.plan(GRAPH, target=board(NEAR, FAR))
    # `a` and `d` are 160 bytes behind the 128 of `near`: two rectangles begin at or above 128.
    assert re.findall(r"offset (\d+)", as_svg(planset)) in (["128", "0", "192"], ["224", "0", "128"])
    rows = list(csv.DictReader(io.StringIO(as_csv(planset))))
    assert {row["tensor"]: row["regions"] for row in rows} == {"a": "1", "b": "1", "c": "0", "d": "1"}
    with pytest.raises(PlanError, match="several regions"):
        as_tflm_bufferplan(planset, "m", GRAPH)


@pytest.mark.parametrize(
    ("regions", "expected"),
    [
        # (head, tail): one arena of 100, or 70 and 40
        ((Region("a", 100, cost=1), Region("b", cost=5)), (0, 0)),
        ((Region("a", 99, cost=1), Region("b", cost=5)), (0, 1)),
        ((Region("a", 69, cost=1), Region("b", cost=5)), (1, 0)),
        ((Region("a", 39, cost=1), Region("b", cost=5)), (1, 1)),
        ((Region("a", 99, cost=1), Region("b", 39, cost=5)), None),
        ((Region("a", 200, cost=1, alignment=32), Region("b", cost=5)), (1, 0)),
        ((Region("a", 200, cost=1), Region("b", 200, cost=1)), (0, 0)),
    ],
)
def test_head_and_tail_are_where_they_cost_least(regions: tuple[Region, ...], expected: tuple[int, int] | None) -> None:
    sizes = MicroSizes(100, 70, 40)
    found = choose_memories(sizes, 1000, regions, alignment=16)
    if expected is None:
        assert found is None
        return
    head, tail = expected
    cost = 1000 * regions[head].cost + 40 * regions[tail].cost
    assert found == MicroMemories(head, tail, sizes, cost)


def test_tensorflow_lite_micro_runs_no_onnx_model_in_regions() -> None:
    with pytest.raises(UnsupportedError, match='scratch = "unknown"'):
        api.plan(replace(GRAPH, layout="nchw"), target=board(NEAR, FAR, scratch="tflm", aliasing="tflm"))


def test_shrink_takes_one_region(tmp_path: Path) -> None:
    model, target = model_file(tmp_path / "m.onnx"), tmp_path / "board.toml"
    target.write_text('[[region]]\nname = "near"\ncapacity = 4096\n[[region]]\nname = "far"\ncost = 3\n')
    done = CliRunner().invoke(main, ["shrink", str(model), "-t", str(target)])
    assert done.exit_code != 0
    assert "the target 'board' has 2 regions" in done.output
    assert CliRunner().invoke(main, ["plan", str(model), "-t", str(target)]).exit_code == 0


def test_settings_are_those_that_were_asked_for() -> None:
    assert api.plan(GRAPH, strategy="search", target=board(NEAR, FAR), effort="fast").settings == Settings(
        ("search",), "fast"
    )
