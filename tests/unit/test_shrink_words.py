"""What `shrink` says first: ratios that say something, and "least" of nothing but the least."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, cast

import pytest

from edgemem.cli.shrink_view import answer_lines
from edgemem.shrinking.candidate import Candidate, CandidateLimits
from edgemem.shrinking.explanation import explain
from edgemem.shrinking.result import Found
from edgemem.shrinking.steps import parse_steps
from edgemem.targets import BUILT_IN

if TYPE_CHECKING:
    from edgemem.shrinking.branch import Workshop


def candidate(memory: int, steps: str, macs: float = 1.0) -> Candidate:
    made, kernels = parse_steps(steps)
    model = lambda: pytest.fail("a model is made")  # noqa: E731
    whole = Candidate(made, kernels, BUILT_IN["tflm"], memory, 0, macs, 10, 1.0, model)
    return replace(whole, is_planned=True)


START = candidate(3_000_000, "")


def headline(best: Candidate, *others: Candidate) -> str:
    return answer_lines(Found((START, best, *others), (best, *others), (), best), CandidateLimits())[0]


def test_once_less_is_told_in_bytes() -> None:
    assert headline(candidate(2_999_000, "order")).startswith("least: 2.86 MiB, 1,000 bytes less with order")
    assert headline(candidate(3_000_000, "order")).startswith("least: 2.86 MiB, no less memory with order")
    assert headline(candidate(1_000_000, "order")).startswith("least: 976.56 KiB, 3x less with order")


def test_what_is_chosen_is_not_called_least_where_another_one_takes_less() -> None:
    said = headline(candidate(1_397_040, "order"), candidate(1_381_872, "stream=0:5:4", 1.1))
    assert said.startswith("chosen: 1.33 MiB, 2.1x less with order (least planned: 1.32 MiB with stripes), arithmetic")


@pytest.mark.parametrize("refused", [{"order"}, set()])
def test_a_budget_between_two_candidates_is_told_the_nearest(refused: set[str]) -> None:
    """What is below the budget was refused, or breaks a limit; the candidate just above it would do."""

    class Shop:
        refusals = ("order: its outputs differ",)
        target = BUILT_IN["tflm"]

    below = candidate(1_381_872, "order", 1.0 if refused else 2.0)
    above = candidate(1_397_040, "stream=0:5:4")
    said = explain(cast("Workshop", Shop()), (START, below, above), CandidateLimits(1_390_000), refused)
    assert "; stream=0:5:4 comes nearest with 1,397,040" in said
