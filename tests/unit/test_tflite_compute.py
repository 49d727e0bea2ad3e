"""What operators of .tflite files compute: tensor operations in NumPy against LiteRT's kernels, one operator a file."""

from __future__ import annotations

import numpy as np
import pytest

from edgemem_converters.tflite.model import TfliteConverter
from tests.oracle.tensor_ops import run_program
from tests.tflite_cases import CASES, POSITIVE, Case
from tests.tflite_operators import build, random_feeds, run

pytest.importorskip("ai_edge_litert")


def check(case: Case, low: float = -2.0, high: float = 2.0) -> None:
    data = build(*case[:4], version=2 if case[0] == "BROADCAST_TO" else 1)
    feeds = random_feeds(data, 1, low, high)
    expected = run(data, feeds)
    model = TfliteConverter.from_bytes(data)
    program = model.program()
    assert not [step for step in program.steps if isinstance(step, str)], program.steps
    found = run_program(program, feeds)
    for index, value in expected.items():
        spread = value.astype(np.float64).std() or 1.0
        assert found[index].shape == value.shape
        np.testing.assert_allclose(found[index] / spread, value / spread, rtol=2e-6, atol=2e-6)
    alone = model.operator_model(0)
    again = dict(zip(sorted(feeds), TfliteConverter.from_bytes(alone).graph().inputs, strict=True))
    outputs = run(alone, {again[i]: value for i, value in feeds.items()})
    for one, other in zip(expected.values(), outputs.values(), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("name", CASES)
def test_an_operator_is_what_litert_computes(name: str) -> None:
    check(CASES[name])


@pytest.mark.parametrize("name", POSITIVE)
def test_an_operator_of_positive_numbers(name: str) -> None:
    check(POSITIVE[name], 1e-8 if "small" in name else 0.1, 2e-7 if "small" in name else 3.0)
