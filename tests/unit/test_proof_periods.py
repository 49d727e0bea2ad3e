"""The proof of a cycle's plan runs it for several periods, whatever the records of one period say."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import example, given

from edgemem import planfile
from edgemem.cli.main import main
from edgemem.errors import InvalidPlanError
from edgemem.planning.choice import choices
from edgemem.planning.plan_sets import make_plans
from edgemem.proof import Cause, prove, verify_planset
from edgemem.trace.cycle import Cycle
from tests.periodic import Request, periodic_programs, unrolled

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from edgemem.plans import PlanSet
    from edgemem.trace.slots import Slots

# The first one lives for longer than a period; the second one wraps around; the third one does neither.
REQUESTS = [Request(100, 1, 9), Request(50, 3, 7), Request(70, 4, -1), Request(30, 5, 6)]


def _planned(requests: list[Request] = REQUESTS, length: int = 7, after: int = 0) -> PlanSet:
    cycle = Cycle.of(unrolled(requests, length, after, 5))
    made = make_plans(cycle.problem(16)[0], choices("offsets/greedy_by_size"))
    return replace(made, cycle=cycle)


@pytest.mark.full
@given(periodic_programs())
@example((REQUESTS, 7, 0))
def test_a_right_plan_is_right_in_all_periods(program: tuple[list[Request], int, int]) -> None:
    assert verify_planset(_planned(*program)) == ()


def _changed(slots: Slots, name: str, request: int, place: int) -> Slots:
    column = getattr(slots, name).copy()
    column[request] = place
    changed: Slots = replace(slots, **{name: column})
    return changed


@pytest.mark.parametrize(
    ("change", "names"),
    [
        # One place for what is there twice, and one that lies on another.
        (lambda s: _changed(s, "other", 0, -1), ("request 0 of period 0", "request 0 of period 1")),
        (lambda s: _changed(s, "offset", 1, int(s.offset[0])), ("request 0 of period 0", "request 1 of period 0")),
    ],
)
def test_places_that_overlap_in_some_period_are_found(
    change: Callable[[Slots], Slots], names: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    planset = _planned()
    plain = Cycle.slots

    def slots(self: Cycle, planned: Any) -> Slots:
        return change(plain(self, planned))

    monkeypatch.setattr(Cycle, "slots", slots)
    found = verify_planset(planset)
    assert {v.cause for v in found} == {Cause.OVERLAP}
    assert any(set(v.records) == set(names) for v in found)
    with pytest.raises(InvalidPlanError):
        prove(planset)


def test_a_plan_of_other_records_is_not_of_the_cycle() -> None:
    planset = _planned()
    assert planset.cycle is not None
    other = replace(planset, cycle=replace(planset.cycle, size=np.array([100, 50, 70, 31])))
    assert [v.cause for v in verify_planset(other)] == [Cause.WRONG_STEPS]


def test_a_place_for_what_is_never_freed_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = Cycle.slots
    monkeypatch.setattr(Cycle, "slots", lambda self, planned: _changed(plain(self, planned), "offset", 2, 0))
    assert Cause.WRONG_STEPS in [v.cause for v in verify_planset(_planned())]


def test_verify_says_what_was_proved(tmp_path: Path) -> None:
    path = tmp_path / "plan.edgemem"
    other = _planned([Request(8, 0, 1)], 2)
    planfile.save_all([_planned(), other], path)
    done = CliRunner().invoke(main, ["verify", str(path)])
    assert done.exit_code == 0
    words = " ".join(done.output.split())
    assert "plan of the cycle: arena" in words
    assert "periods 5 requests of 2 cycles, in four iterations: none alive together overlap" in words
    assert "whether it fits a model" not in words


def test_a_wrong_plan_of_a_second_cycle_is_found(tmp_path: Path) -> None:
    path = tmp_path / "plan.edgemem"
    wrong = _planned()
    (plan,) = wrong.offsets
    planfile.save_all([_planned(), replace(wrong, offsets=(replace(plan, offsets=plan.offsets * 0),))], path)
    done = CliRunner().invoke(main, ["verify", str(path)])
    assert done.exit_code != 0


def test_a_cycle_of_shared_objects_alone_has_no_offsets_to_repeat() -> None:
    objects = make_plans(_planned().problem, choices("shared_objects/greedy_by_size")).shared_objects
    assert verify_planset(replace(_planned(), offsets=(), shared_objects=objects)) == ()
