"""Random programs within a budget compute what PyTorch computes, bit for bit."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

from tests.torch.compared import POLICIES, SHARES, failure, peak_of_program
from tests.torch.programs import make_program, reduced

pytestmark = [pytest.mark.usefixtures("_one_thread", "_steady_costs"), pytest.mark.filterwarnings("ignore")]


@pytest.mark.parametrize("seed", range(24))
def test_a_program_within_a_budget_computes_the_same(seed: int) -> None:
    program = make_program(seed)
    share, policy = SHARES[seed % len(SHARES)], POLICIES[seed % len(POLICIES)]
    assert failure(program, int(share * peak_of_program(program)), policy) is None, program


@pytest.mark.parametrize("seed", range(100, 106))
def test_a_program_without_a_budget_computes_the_same(seed: int) -> None:
    program = make_program(seed)
    assert failure(program, None) is None, program


@pytest.mark.parametrize("seed", range(200, 212))
def test_a_program_that_its_budget_ends_leaves_what_pytorch_leaves(seed: int) -> None:
    program = make_program(seed)
    assert failure(program, int(0.1 * peak_of_program(program)), POLICIES[seed % len(POLICIES)]) is None, program


def test_a_program_is_reduced_to_what_fails() -> None:
    program = make_program(1)
    needed = program.steps[0][3]
    smallest = reduced(program, lambda p: any(needed in step for step in p.steps))
    assert smallest.steps == ((needed,),)
