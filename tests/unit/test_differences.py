"""How far results are apart, where some of them are no numbers."""

from __future__ import annotations

import numpy as np
import pytest

from edgemem.runtime.differences import at_most, compare_values

NAN, INF = np.nan, np.inf


@pytest.mark.parametrize(
    ("here", "there", "far"),
    [
        ([NAN, 1], [5, 1], INF),
        ([5, 1], [NAN, 1], INF),
        ([NAN, INF, 1], [NAN, INF, 1.5], 1 / 3),
        ([INF, 1], [-INF, 1], INF),
        ([INF, 1], [2, 1], INF),
        ([2, 1], [2, 1.5], 0.25),
    ],
)
def test_numbers_that_are_none_must_be_so_on_both_sides(here: list[float], there: list[float], far: float) -> None:
    is_same, difference = compare_values(np.array(here, np.float32), np.array(there, np.float32))
    assert not is_same
    assert difference == pytest.approx(far)


def test_the_same_bits_are_no_difference() -> None:
    values = np.array([NAN, INF, 1], np.float32)
    assert compare_values(values, values.copy()) == (True, 0.0)


@pytest.mark.parametrize(
    ("difference", "text"), [(2.98e-07, "3e-07"), (3.4e-07, "4e-07"), (3e-07, "3e-07"), (9.6e-08, "1e-07"), (0.0, "0")]
)
def test_no_difference_is_larger_than_what_it_is_said_to_be_at_most(difference: float, text: str) -> None:
    assert at_most(difference) == text
    assert float(at_most(difference)) >= difference
