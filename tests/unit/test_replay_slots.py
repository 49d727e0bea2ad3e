"""Slots refuse what cannot be replayed, and name the first slot that is wrong."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from edgemem.errors import InvalidPlanError
from edgemem.trace.slots import Slots

GOOD: dict[str, Any] = {
    "size": 256,
    "alignment": 64,
    "bytes": [100, 64, 30],
    "offset": [0, 128, -1],
    "other": [-1, 192, -1],
    "lane": [0, 1, 0],
    "section": [-1, 3, 0],
    "space": [-1, -1, 0],
    "spaces": ([[0, 64], [128, 256]],),
}


def make(**changes: Any) -> Slots:
    return Slots(**{**GOOD, **changes})


def test_columns_become_read_only_and_keep_their_values() -> None:
    offset = np.array([0, 128, -1])
    slots = make(offset=offset)
    offset[0] = 64
    assert len(slots) == 3
    assert slots.offset.tolist() == [0, 128, -1]
    assert slots.spaces[0].tolist() == [[0, 64], [128, 256]]
    with pytest.raises(ValueError, match="read-only"):
        slots.offset[0] = 64
    with pytest.raises(ValueError, match="read-only"):
        slots.spaces[0][0, 0] = 1


def test_a_plan_without_requests_and_a_space_without_room_are_possible() -> None:
    assert len(make(**{name: [] for name in ("bytes", "offset", "other", "lane", "section", "space")})) == 0
    assert len(make(spaces=([],))) == 3


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"size": -1}, "impossible"),
        ({"alignment": 0}, "impossible"),
        ({"alignment": 48}, "impossible"),
        ({"lane": [0, 1]}, "differ in length"),
        ({"bytes": [100, 0, 30]}, "slot 1 asks for no bytes"),
        ({"lane": [0, 0, -1]}, "slot 2 has a lane"),
        ({"lane": [0, 0, 1 << 16]}, "slot 2 has a lane"),
        ({"section": [-2, 0, 0]}, "slot 0 has a section"),
        ({"space": [-1, -1, 1]}, "slot 2 names a space"),
        ({"space": [-1, -1, -2]}, "slot 2 names a space"),
        ({"offset": [0, 128, 0]}, "slot 2 is dynamic"),
        ({"offset": [-1, 128, -1], "other": [0, -1, -1]}, "slot 0 has a second place"),
        ({"offset": [32, 128, -1]}, "slot 0 has its offset"),
        ({"offset": [192, 128, -1]}, "slot 0 has its offset"),
        ({"offset": [-64, 128, -1]}, "slot 0 has its offset"),
        ({"other": [-1, 256, -1]}, "slot 1 has its other"),
        ({"spaces": ([[0, 257]],)}, "space 0"),
        ({"spaces": ([[-1, 64]],)}, "space 0"),
        ({"spaces": ([[0, 64]], [[64, 64]])}, "space 1"),
        ({"spaces": ([[0, 64], [32, 96]],)}, "space 0"),
    ],
)
def test_what_cannot_be_replayed_is_refused(changes: dict[str, Any], why: str) -> None:
    with pytest.raises(InvalidPlanError, match=why):
        make(**changes)


def test_intervals_that_touch_are_two() -> None:
    assert make(spaces=([[0, 64], [64, 256]],)).spaces[0].tolist() == [[0, 64], [64, 256]]
