from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import pytest

import edgemem
from edgemem.errors import (
    BudgetExceededError,
    InvalidPlanError,
    ModelError,
    PlanFileError,
    StalePlanError,
    UnknownStrategyError,
)
from edgemem.records.problem import Problem, UsageRecord
from edgemem.targets import BUILT_IN, Region
from models.build import build

if TYPE_CHECKING:
    from pathlib import Path

RECORDS = Problem([UsageRecord("a", 0, 1, 16), UsageRecord("b", 1, 2, 24), UsageRecord("c", 2, 3, 16)])


@pytest.fixture(scope="module")
def resnet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "resnet18.onnx"
    onnx.save(build("resnet18", size="small"), path)
    return path


def test_plan_save_verify(resnet: Path, tmp_path: Path) -> None:
    planset = edgemem.plan(resnet)
    best = planset.best_offsets
    assert best is not None
    assert planset.bounds.offsets <= best.size < planset.naive
    planned = tmp_path / "planned.onnx"
    edgemem.save(resnet, planset, planned)
    assert edgemem.verify(planned) == ()
    assert planned.read_bytes().startswith(resnet.read_bytes()), "the model itself is kept byte for byte"


def test_a_stand_alone_plan_is_proved_against_its_model(resnet: Path, tmp_path: Path) -> None:
    planset = edgemem.plan(resnet)
    alone = tmp_path / "resnet18.edgemem"
    edgemem.save(None, planset, alone)
    assert edgemem.verify(alone) == ()
    assert edgemem.verify(alone, resnet) == ()
    other = tmp_path / "other.onnx"
    onnx.save(build("unet", size="small"), other)
    assert [v.cause.name for v in edgemem.verify(alone, other)] == ["STALE_DIGEST"]
    with pytest.raises(StalePlanError, match="another graph"):
        edgemem.save(other, planset, tmp_path / "wrong.onnx")
    assert not (tmp_path / "wrong.onnx").exists()


def test_a_wrong_plan_is_not_written(resnet: Path, tmp_path: Path) -> None:
    planset = edgemem.plan(resnet, strategy="greedy_by_size")
    best = planset.best_offsets
    assert best is not None
    wrong = replace(planset, offsets=(replace(best, offsets=np.zeros_like(best.offsets)),))
    out = tmp_path / "out.onnx"
    out.write_bytes(b"precious")
    with pytest.raises(InvalidPlanError, match="refused") as caught:
        edgemem.save(resnet, wrong, out)
    assert caught.value.violations
    assert out.read_bytes() == b"precious"


def test_strategies_by_name(resnet: Path) -> None:
    both = edgemem.plan(resnet, strategy="greedy_by_size")
    assert [p.strategy for p in both.offsets] == [p.strategy for p in both.shared_objects] == ["greedy_by_size"]
    one = edgemem.plan(resnet, strategy=["offsets/greedy_by_breadth:op_ties=high_first", "naive"])
    assert [(p.strategy, dict(p.options)) for p in one.offsets] == [
        ("greedy_by_breadth", {"op_ties": "high_first"}),
        ("naive", {}),
    ]


@pytest.mark.parametrize(
    ("strategy", "what"),
    [
        ("best", "no strategy 'best'; there are auto, naive"),
        ("elsewhere/naive", "no family"),
        ("offsets/min_cost_flow", "no strategy 'min_cost_flow'"),
        ("strip_packing:ties=random", "ties is one of index, size"),
        ("naive:fit=first", "has no option 'fit'"),
    ],
)
def test_unknown_strategies(strategy: str, what: str) -> None:
    with pytest.raises(UnknownStrategyError, match=what):
        edgemem.plan(RECORDS, strategy=strategy)


def test_options_reach_the_family_that_has_them() -> None:
    planset = edgemem.plan(RECORDS, strategy="greedy_by_size:fit=smallest")
    assert planset.offsets == ()
    assert dict(planset.shared_objects[0].options) == {"fit": "smallest"}


def test_a_budget_names_what_is_alive_at_the_peak() -> None:
    with pytest.raises(BudgetExceededError) as caught:
        edgemem.plan(RECORDS, budget=39)
    e = caught.value
    assert (e.required, e.available, e.op) == (40, 39, "op 1")
    assert e.tensors == (("b", 24), ("a", 16))
    assert "no plan can fit" in str(e)
    edgemem.plan(RECORDS, budget=40)


# Its smallest arena is 5, its lower bound 4.
GAP = Problem.from_arrays([0, 0, 1, 1, 2, 2, 3, 4], [0, 1, 2, 3, 2, 3, 5, 5], [2, 2, 1, 1, 1, 1, 2, 2])


def test_a_budget_that_was_proved_impossible_says_so() -> None:
    with pytest.raises(BudgetExceededError, match="search proved that all take 5 or more") as caught:
        edgemem.plan(GAP, budget=4)
    assert caught.value.impossible
    with pytest.raises(BudgetExceededError, match="no plan can fit it: the lower bound is 4") as caught:
        edgemem.plan(GAP, budget=3)
    assert caught.value.impossible
    with pytest.raises(BudgetExceededError, match="none was found that fits") as caught:
        edgemem.plan(GAP, budget=4, strategy="greedy_by_size")
    assert not caught.value.impossible


def test_limits_are_the_searches_options() -> None:
    planset = edgemem.plan(GAP, effort="max", seed=9, time_limit=60, threads=2)
    (search,) = (p for p in planset.offsets if p.strategy == "search")
    assert dict(search.options) == {"effort": "max", "seed": 9, "time_limit": 60.0, "threads": 2}
    assert type(search.options["time_limit"]) is float
    assert search.search is not None
    assert (search.search.bound, search.search.stopped, search.search.seed) == (5, "proof", 9)
    (named,) = edgemem.plan(GAP, strategy="offsets/search", seed=1).offsets
    assert dict(named.options) == {}, "what is the default anyway is not listed"


@pytest.mark.parametrize(
    ("limits", "what"),
    [
        ({"effort": "huge"}, "effort is one of default, fast, max, not 'huge'"),
        ({"seed": -1}, "seed is a whole number from 0 to"),
        ({"seed": 1.5}, "seed is a whole number"),
        ({"threads": 0}, "threads is a whole number from 1"),
        ({"time_limit": -1}, "time_limit is a number of seconds from 0"),
        ({"time_limit": float("nan")}, "time_limit is a number of seconds"),
        ({"strategy": "naive", "effort": "max"}, "no strategy among those chosen has the option 'effort'"),
        ({"strategy": "search:seed=x"}, "seed is a whole number from 0 to 9223372036854775807, not 'x'"),
        ({"strategy": "search:seed=True"}, "seed is a whole number"),
        ({"strategy": "search:time_limit=soon"}, "time_limit is a number of seconds from 0 to 1000000000, not 'soon'"),
    ],
)
def test_limits_that_make_no_sense(limits: dict[str, Any], what: str) -> None:
    with pytest.raises(UnknownStrategyError, match=what):
        edgemem.plan(RECORDS, **limits)


def test_threads_go_with_any_strategy() -> None:
    assert edgemem.plan(RECORDS, strategy="naive", threads=4).offsets[0].options == {}


def test_a_region_has_a_capacity(resnet: Path) -> None:
    small = replace(BUILT_IN["generic"], regions=(Region("sram", 1024),))
    with pytest.raises(BudgetExceededError, match="region 'sram'"):
        edgemem.plan(resnet, target=small)


def test_alignment_instead_of_the_targets(resnet: Path) -> None:
    planset = edgemem.plan(resnet, alignment=4096)
    best = planset.best_offsets
    assert best is not None
    assert not (best.offsets % 4096).any()


def test_what_does_not_go_together(resnet: Path, tmp_path: Path) -> None:
    planset = edgemem.plan(RECORDS)
    with pytest.raises(ModelError, match="no graph that a target could apply to"):
        edgemem.plan(RECORDS, target="tflm")
    with pytest.raises(ModelError, match="no model to write"):
        edgemem.save(None, planset, tmp_path / "plan.onnx")
    with pytest.raises(ModelError, match=r"still \.onnx"):
        edgemem.save(resnet, edgemem.plan(resnet), tmp_path / "plan.tflite")
    with pytest.raises(ModelError, match="give them to load"):
        edgemem.plan(edgemem.load(resnet), dims={"n": 1})
    with pytest.raises(PlanFileError, match="carries no plan"):
        edgemem.verify(resnet)


def test_missing_and_foreign_files(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="no file"):
        edgemem.plan(tmp_path / "missing.onnx")
    with pytest.raises(ModelError, match=r"no converter for \.bin; there are .*\.onnx.*\.tflite"):
        edgemem.plan(tmp_path / "model.bin")


def test_the_same_records_give_the_same_plan() -> None:
    rng = np.random.default_rng(7)
    first = rng.integers(0, 100, 120)
    problem = Problem.from_arrays(first, first + rng.integers(0, 30, 120), rng.integers(1, 10**6, 120), alignment=64)
    one, two = edgemem.plan(problem), edgemem.plan(problem)
    for a, b in zip(one.offsets, two.offsets, strict=True):
        assert a.offsets.tobytes() == b.offsets.tobytes()
    for c, d in zip(one.shared_objects, two.shared_objects, strict=True):
        assert c.assignment.tobytes() == d.assignment.tobytes()
    from edgemem import planfile

    assert planfile.encode(one) == planfile.encode(two)
