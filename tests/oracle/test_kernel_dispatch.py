"""Distances of the kernel profiles against the loops of the kernels, and the arithmetic of the loops on examples."""

from __future__ import annotations

import numpy as np
import pytest

from edgemem.model.profiles import PROFILES
from tests.oracle.kernel_dispatch.case import Case
from tests.oracle.kernel_dispatch.compare import campaign, compare
from tests.oracle.kernel_dispatch.trace import Trace

CASES = 150
SEED = 8


@pytest.mark.parametrize("profile", PROFILES[1:])
def test_no_distance_lets_a_kernel_overwrite_what_it_reads(profile: str) -> None:
    rows = list(campaign(profile, SEED, CASES))
    wrong = [str(row) for row in rows if row.verdict in ("unsafe", "no model")]
    assert not wrong, f"--profile {profile} --seed {SEED} --cases {CASES}: " + "\n".join(wrong)
    assert any(row.verdict == "tight" for row in rows)


def depthwise(given: tuple[int, ...], made: tuple[int, ...], stride: int = 1) -> Case:
    """A depthwise convolution 1x1 of int8."""
    attributes = {"kernel": (1, 1), "stride": (stride, stride), "dilation": (1, 1), "pads": (0, 0, 0, 0)}
    weights = (1, 1, 1, made[3])
    inputs = (given, weights, made[3:])
    return Case("DEPTHWISE_CONV_2D", inputs, made, "int8", "int8", 0, frozenset((1, 2)), attributes)


# Least distances that arm-none-eabi-gcc 12.2's build of CMSIS-NN 99f736a showed on an emulated Cortex-M55.
@pytest.mark.parametrize(
    ("case", "least"),
    [
        (depthwise((1, 2, 6, 1), (1, 2, 6, 2)), 15),
        (depthwise((1, 1, 7, 1), (1, 1, 4, 2), stride=2), 7),
        (depthwise((2, 1, 8, 1), (2, 1, 8, 9)), 131),
    ],
)
def test_one_input_channel_on_helium(case: Case, least: int) -> None:
    row = compare("cmsis-nn-mve", case)
    assert row.least == least
    assert row.verdict in ("tight", "loose", "disjoint"), str(row)


def test_distance_of_a_trace() -> None:
    every = np.arange(8)
    trace = Trace(8, 8, (1, 1))
    trace.each(every, every)
    assert trace.least() == 0
    trace = Trace(8, 8, (1, 4))  # each result is four bytes long
    trace.each(every, every)
    assert trace.least() == 3 * 6 + 3
    trace = Trace(8, 8, (1, 1))  # in vectors of four
    trace.each(every, every, block=4)
    assert trace.least() == 0
    trace = Trace(8, 4, (1, 1))  # read twice, written between
    trace.read(every)
    trace.write([0, 1, 2, 3])
    assert trace.least() == -8
    trace.read([1])
    assert trace.least() == 3


@pytest.mark.parametrize(("block", "least"), [(0, 8), (1, 2), (4, 2), (16, -6)])
def test_distance_of_a_copy(block: int, least: int) -> None:
    trace = Trace(6, 8, (1, 1))
    trace.copy(2, 0, 6, block=block)
    trace.write([0, 1])
    assert trace.least() == least
