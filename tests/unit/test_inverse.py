"""Lists turned around, against what they mean."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from edgemem.schedule.inverse import inverse


@given(st.lists(st.lists(st.integers(0, 5), unique=True), max_size=6))
def test_a_number_is_in_a_list_where_the_list_is_among_its_positions(lists: list[list[int]]) -> None:
    turned = inverse(lists, 6)
    assert len(turned) == 6
    for n, positions in enumerate(turned):
        assert list(positions) == [at for at, numbers in enumerate(lists) if n in numbers]
