"""Random tensor operations on a GPU against their evaluation in NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from tests.extent import run_for_seeds
from tests.gpu_cases import KINDS, case, check_case

SEEDS = range(100, 104)


@run_for_seeds(SEEDS, quick=1)
@pytest.mark.parametrize("kind", KINDS)
def test_operations(kind: str, seed: int) -> None:
    check_case(kind, seed)


@pytest.mark.parametrize("kind", KINDS)
def test_cases_are_what_an_operation_is_tested_with(kind: str) -> None:
    """Their results are numbers that differ, in both layouts."""
    made = [case(kind, seed) for seed in range(30)]
    results = [c.expected("fp32") for c in made]
    assert all(np.isfinite(r).all() for r in results)
    assert sum(len(np.unique(r)) > 1 for r in results) > 15
    assert {c.layout for c in made} == {"nchw", "nhwc"}
