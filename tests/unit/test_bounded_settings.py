"""Settings that come with a file: they are followed as far as a program can that plans while a caller waits."""

from __future__ import annotations

import os

import pytest

from edgemem.planning import plan_sets
from edgemem.planning import problem_plan as settled
from edgemem.planning.limits import bounded
from edgemem.planning.recording_plan import plan_recording
from edgemem.plans import Settings
from edgemem.trace import Trace
from edgemem.trace.recording import Fingerprint, Recording

RECORDING = Recording(Fingerprint("runtime", "1", "model"), Trace.from_stream([64, 128, -1, 256, -2, -3]))
GREEDY = Settings(
    strategies=("search:effort=max,threads=256,time_limit=1000000", "mip", "of another edgemem", "offsets/naive"),
    effort="max",
    seed=7,
    time_limit=1e9,
    threads=256,
    alignment=2**60,
)


@pytest.fixture(autouse=True)
def three_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 2, 5}, raising=False)


def test_what_is_moderate_stays_as_it_is() -> None:
    for settings in (Settings(), Settings(("offsets/search",), "fast", 7, 2.0, 2, 128), Settings(effort="default")):
        assert bounded(settings) == settings


def test_what_is_not_is_bounded() -> None:
    assert bounded(GREEDY) == Settings(
        strategies=("offsets/search:effort=default,threads=3,time_limit=10.0", "offsets/naive"),
        effort="default",
        seed=7,
        time_limit=10.0,
        threads=3,
    )
    assert bounded(Settings(("mip", "nothing"))).strategies == ("auto",)


def test_a_recording_is_planned_within_the_bounds_and_says_what_was_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Settings] = []
    planned = plan_sets.make_plans

    def noted(problem: object, *arguments: object, limits: Settings, **more: object) -> object:
        asked.append(limits)
        return planned(problem, *arguments, limits=limits, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(settled, "make_plans", noted)
    planset = plan_recording(RECORDING, GREEDY, from_file=True)
    assert (asked[0].effort, asked[0].threads, asked[0].time_limit) == ("default", 3, 10.0)
    assert planset.problem.alignment == 64
    assert planset.settings == GREEDY
    plan_recording(RECORDING, Settings(("offsets/search",), effort="max", threads=256))
    assert (asked[1].effort, asked[1].threads) == ("max", 256)
