"""Lists turned around, and orders by rank, against what they mean."""

from __future__ import annotations

from random import Random  # noqa: TC003 - hypothesis reads the annotation

from hypothesis import given
from hypothesis import strategies as st

from edgemem.model.topological_order import inverse, ranked_order


@given(st.lists(st.lists(st.integers(0, 5), unique=True), max_size=6))
def test_a_number_is_in_a_list_where_the_list_is_among_its_positions(lists: list[list[int]]) -> None:
    turned = inverse(lists, 6)
    assert len(turned) == 6
    for n, positions in enumerate(turned):
        assert list(positions) == [at for at, numbers in enumerate(lists) if n in numbers]


@given(st.lists(st.tuples(st.sets(st.integers(0, 7)), st.integers(0, 3)), max_size=8), st.randoms())
def test_the_lowest_rank_that_waits_for_none_is_next(drawn: list[tuple[set[int], int]], rng: Random) -> None:
    place = list(range(len(drawn)))
    rng.shuffle(place)
    # An operator waits only for those of lower places: there is no cycle.
    before = [{b for b in waits if b < len(drawn) and place[b] < place[k]} for k, (waits, _) in enumerate(drawn)]
    rank = [r for _, r in drawn]
    done: list[int] = []
    while len(done) < len(drawn):
        ready = [k for k in range(len(drawn)) if k not in done and before[k] <= {*done}]
        done.append(min(ready, key=lambda k: (rank[k], k)))
    assert ranked_order(before, rank) == tuple(done)


def test_operators_behind_a_cycle_are_left_out() -> None:
    assert ranked_order([set(), {2}, {1}, {2, 0}], [0] * 4) == (0,)
