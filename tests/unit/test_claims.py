"""What a plan file claims and nothing here proves is never shown as proved."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import pytest
from click.testing import CliRunner

from edgemem import planfile
from edgemem.cli.main import main
from edgemem.planning import make_plans
from edgemem.planning.choice import choices
from edgemem.plans import LowerBounds, OffsetPlan, SearchReport, SharedObjectsPlan
from edgemem.records.problem import Problem

AnyPlan = TypeVar("AnyPlan", OffsetPlan, SharedObjectsPlan)

if TYPE_CHECKING:
    from pathlib import Path

    from edgemem.plans import Plan, PlanSet

CAUSES = {"wrong_bound", "wrong_naive", "below_bound", "false_optimal"}
STRATEGIES = ("offsets/naive", "offsets/greedy_by_size", "shared_objects/naive", "shared_objects/greedy_by_size")


def random_problem(rng: np.random.Generator) -> Problem:
    count = int(rng.integers(2, 9))
    first = rng.integers(0, 6, count)
    return Problem.from_arrays(first, first + rng.integers(0, 4, count), rng.integers(1, 9, count) * 16, alignment=16)


def loads(problem: Problem) -> tuple[int, int]:
    """The greatest sum alive at once, and the sum over k of the greatest k-th largest size: every operator is tried."""
    rows = list(zip(problem.first_op.tolist(), problem.last_op.tolist(), problem.size.tolist(), strict=True))
    alive = [sorted((s for a, b, s in rows if a <= op <= b), reverse=True) for op in range(max(r[1] for r in rows) + 1)]
    maxima = [max((sizes[k] for sizes in alive if len(sizes) > k), default=0) for k in range(len(rows))]
    return max(map(sum, alive)), sum(maxima)


def forged(rng: np.random.Generator, planset: PlanSet) -> PlanSet:
    """A plan set of right plans, with something untrue said of them."""

    def report(plan: Plan) -> SearchReport:
        bound = int(rng.choice([plan.size, plan.size, int(rng.integers(0, plan.size + 1)), plan.size + 16]))
        return SearchReport(bound, str(rng.choice(["bound", "proof", "work", "sure"])), int(rng.integers(0, 99)), 1)

    def lied(plan: AnyPlan) -> AnyPlan:
        name = str(rng.choice(["search", plan.strategy, "optimal", "lower bound"]))
        return replace(plan, strategy=name, optimal=bool(rng.integers(2)), search=report(plan))

    kind = int(rng.integers(4))
    if kind == 0:
        bounds = LowerBounds(*(int(b + rng.choice([-16, 0, 16, 160])) for b in vars_of(planset.bounds)))
        return replace(planset, bounds=bounds)
    if kind == 1:
        return replace(planset, naive=int(planset.naive + rng.choice([-16, 16, 1600])))
    some = slice(None) if kind == 2 else slice(1)
    return replace(
        planset,
        offsets=tuple(map(lied, planset.offsets[some])),
        shared_objects=tuple(map(lied, planset.shared_objects[some])),
    )


def vars_of(bounds: LowerBounds) -> tuple[int, int]:
    return bounds.offsets, bounds.shared_objects


def run(*args: object) -> tuple[int, str]:
    done = CliRunner().invoke(main, [str(a) for a in args])
    return done.exit_code, done.output


@pytest.mark.full
def test_no_forged_bound_or_status_is_believed(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    path = tmp_path / "forged.edgemem"
    wanted = [choice for name in STRATEGIES for choice in choices(name)]
    claimed = refused = 0
    for number in range(1000):
        problem = random_problem(rng)
        planset = forged(rng, make_plans(problem, wanted))
        arena, objects = loads(problem)
        bound = {"offsets": arena, "shared_objects": objects}
        path.write_bytes(planfile.encode(planset))
        code, said = run("verify", path, "--json")
        data = json.loads(said)
        assert (code == 0) == data["right"], number
        if not data["right"]:
            refused += 1
            assert {v["cause"] for v in data["violations"]} <= CAUSES, number
            continue
        for plan in data["plans"]:
            assert plan["lower_bound"] == bound[plan["family"]], number
            assert plan["optimal"] == (plan["size"] == plan["lower_bound"]), number
        shown = json.loads(run("show", path, "--json")[1])
        assert shown["proved"] == shown["lower_bounds"] == bound, number
        assert all(p["optimal"] == (p["size"] == bound[p["family"]]) for p in shown["plans"]), number
        assert all(p["search"] is None or p["search"]["claimed"] for p in shown["plans"]), number
        if shown["claimed"] != bound:
            claimed += 1
            if claimed % 8 == 1:  # text for people is slow to make
                assert_text(path, shown)
    assert claimed > 100
    assert refused > 300


def assert_text(path: Path, shown: dict[str, dict[str, int]]) -> None:
    headlines = run("show", path)[1].splitlines()[:2]
    for family, label, headline in zip(shown["chosen"], ("arena", "shared objects"), headlines, strict=True):
        assert headline.startswith(label)
        best = shown["plans"][shown["chosen"][family]]  # type: ignore[index]
        is_at_bound = best["size"] == shown["lower_bounds"][family]  # type: ignore[index]
        assert ("lower bound (optimal)" in headline) == is_at_bound
        assert "proved optimal" not in headline
        claims = not is_at_bound and best["size"] == shown["claimed"][family]  # type: ignore[index]
        assert ("claimed optimal, not proved here" in headline) == claims
    verified = " ".join(run("verify", path)[1].split())
    assert "claimed (not proved here)" in verified


def test_a_search_of_this_process_is_believed_and_a_file_of_its_plan_is_not() -> None:
    planset = make_plans(
        Problem.from_arrays([0, 1, 2], [1, 2, 3], [16, 16, 16], alignment=16), choices("offsets/naive")
    )
    (plan,) = planset.offsets
    proved = replace(planset, offsets=(replace(plan, search=SearchReport(plan.size, "proof", 1, 1), optimal=True),))
    assert proved.proved.offsets == proved.claimed.offsets == plan.size == 48
    back = planfile.decode(planfile.encode(proved))
    assert (back.proved.offsets, back.claimed.offsets) == (32, 48)
    assert not back.offsets[0].optimal
    assert planfile.encode(back) == planfile.encode(proved)
