"""Random tensor operations on a GPU against their evaluation in NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from tests.gpu_cases import KINDS, case
from tests.webgpu import EVERY_REACH, compute

SEEDS = range(100, 104)
NEAR = {"fp32": 1e-4, "fp16": 4e-3}  # of the largest number


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("kind", KINDS)
def test_operations(kind: str, seed: int) -> None:
    made = case(kind, seed)
    storage, precision = EVERY_REACH[seed % len(EVERY_REACH)]
    result = compute(
        made.op,
        {i: v for i, v in made.values.items() if i not in made.constants},
        made.shape,
        layout=made.layout,
        constants={i: v for i, v in made.values.items() if i in made.constants},
        storage=storage,
        precision=precision,
        in_place=made.in_place if storage == "buffer" else -1,
    )
    expected = made.expected(precision)
    near = NEAR[precision] * max(np.abs(expected).max(initial=0.0), 1e-3)
    np.testing.assert_allclose(result, expected, rtol=0, atol=near)


@pytest.mark.parametrize("kind", KINDS)
def test_cases_are_what_an_operation_is_tested_with(kind: str) -> None:
    """Their results are numbers that differ, in both layouts."""
    made = [case(kind, seed) for seed in range(30)]
    results = [c.expected("fp32") for c in made]
    assert all(np.isfinite(r).all() for r in results)
    assert sum(len(np.unique(r)) > 1 for r in results) > 15
    assert {c.layout for c in made} == {"nchw", "nhwc"}
