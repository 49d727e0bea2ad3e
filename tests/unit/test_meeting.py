"""Measured runs of two sides alternate, and what they are compared by is an interval."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from edgemem.commands.process_figures import ratio_of_turns
from edgemem.system.meeting import Meeting

if TYPE_CHECKING:
    from pathlib import Path

TURNS = 5


@pytest.mark.parametrize("count", [1, 2, 3])
def test_one_runs_after_the_other_and_the_first_changes(count: int, tmp_path: Path) -> None:
    ran: list[tuple[int, int]] = []

    def serve(number: int) -> None:
        meeting = Meeting(str(tmp_path), number, count)
        for turn in range(TURNS):
            with meeting.turn(turn):
                ran.append((turn, number))

    with ThreadPoolExecutor(count) as pool:
        list(pool.map(serve, range(count)))
    orders = [range(count) if turn % 2 == 0 else reversed(range(count)) for turn in range(TURNS)]
    assert ran == [(turn, number) for turn, order in enumerate(orders) for number in order]


def test_nobody_waits_for_a_process_that_has_gone(tmp_path: Path) -> None:
    Meeting(str(tmp_path), 1, 2).leave()
    with pytest.raises(TimeoutError, match="has ended"), Meeting(str(tmp_path), 0, 2).turn(1):
        pass


def answer(*ms: float) -> dict[str, list[float]]:
    return {"turns_ms": list(ms)}


def test_what_slows_both_sides_down_is_not_in_the_ratio() -> None:
    load = [1.0, 9.0, 3.0, 7.0, 1.0, 5.0, 2.0, 8.0]
    other = answer(*load)
    mine = answer(*(1.25 * ms for ms in load))
    ratio = ratio_of_turns([(mine, other)] * 3)
    assert ratio is not None
    assert (ratio.low, ratio.median, ratio.high) == (1.25, 1.25, 1.25)


def test_an_interval_holds_the_medians_of_all_rounds() -> None:
    """Of nine values the 95 % interval of the median goes from the second one to the eighth (order statistics)."""
    first = (answer(*range(1, 10)), answer(*[1.0] * 9))
    second = (answer(*range(11, 20)), answer(*[1.0] * 9))
    one, both = ratio_of_turns([first]), ratio_of_turns([first, second])
    assert one is not None
    assert both is not None
    assert (one.low, one.median, one.high) == (2, 5, 8)
    assert (both.low, both.median, both.high) == (2, 10, 18)
    assert ratio_of_turns([(answer(3, 1), answer(1, 2))]) is not None
    assert ratio_of_turns([]) is None
    assert ratio_of_turns([(answer(0.0), answer(0.0))]) is None
