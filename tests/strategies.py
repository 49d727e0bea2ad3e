"""Usage records for hypothesis, and seeded ones where an instance must be large."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import numpy as np
from hypothesis import strategies as st

from edgemem.records.problem import Problem, UsageRecord
from edgemem.strategy.catalogue import registered

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from edgemem.plans import OptionValue
    from edgemem.strategy.registry import Family, Strategy
    from tests.oracle.bounds import Record, TexelRecord

__all__ = [
    "ALIGNMENTS",
    "alignments",
    "all_overlapping",
    "chain",
    "find",
    "problem_of",
    "problem_of_columns",
    "rows",
    "seeded_rows",
    "solved",
    "texel_rows",
]

ALIGNMENTS = (1, 16, 64)

# Few distinct sizes make ties, round ones meet alignments exactly, large ones leave 32 bits.
_SIZES = st.one_of(
    st.sampled_from((0, 1, 2, 3)),
    st.sampled_from((16, 32, 48, 64, 65, 128)),
    st.integers(0, 300),
    st.integers(0, 2**40),
)
# (last operator, longest span) of a problem; the last is as far as an int32 index might be.
_SHAPES = st.sampled_from(((0, 1), (2, 3), (8, 3), (12, 12), (60, 4), (60, 60), (10**9, 10**9)))


def find(family: Family, name: str) -> Strategy:
    """The strategy of that name; there is one."""
    (found,) = (strategy for strategy in registered(family) if strategy.name == name)
    return found


def solved(strategy: Strategy, problem: Problem, **options: OptionValue) -> NDArray[np.int64]:
    """The strategy's offsets or object indices."""
    return strategy.solve(problem, **options).values


def alignments() -> st.SearchStrategy[int]:
    return st.sampled_from(ALIGNMENTS)


@st.composite
def _spans(draw: st.DrawFn, max_records: int) -> list[tuple[int, int]]:
    horizon, longest = draw(_SHAPES)
    n = draw(st.integers(0, max_records))
    form = draw(st.sampled_from(("any", "any", "any", "chain", "nested", "together")))
    if form == "chain":
        return [(i, i + 1) for i in range(n)]
    if form == "nested":
        return [(i, 2 * n - i) for i in range(n)]
    if form == "together":
        return [(draw(st.integers(0, 3)), draw(st.integers(3, 6))) for _ in range(n)]
    firsts = draw(st.lists(st.integers(0, horizon), min_size=n, max_size=n))
    return [(first, first + draw(st.integers(0, longest))) for first in firsts]


@st.composite
def rows(draw: st.DrawFn, max_records: int = 60) -> list[Record]:
    """Records as (first_op, last_op, bytes), in no order, from 0 to `max_records` of them."""
    spans = draw(_spans(max_records))
    # Evenly spaced sizes make two objects equally far from a third size.
    palette = draw(st.one_of(st.none(), st.lists(_SIZES, min_size=1, max_size=3), st.just([10, 20, 30])))
    sizes = _SIZES if palette is None else st.sampled_from(palette)
    return [(first, last, draw(sizes)) for first, last in spans]


@st.composite
def texel_rows(draw: st.DrawFn, max_records: int = 30) -> list[TexelRecord]:
    """Records as (first_op, last_op, extent): all of two dimensions or all of three, some of them 0 texels."""
    rank = draw(st.sampled_from((2, 3)))
    side = draw(st.sampled_from((st.integers(1, 3), st.integers(0, 40), st.sampled_from((1, 64, 4096)))))
    spans = draw(_spans(max_records))
    return [(first, last, tuple(draw(side) for _ in range(rank))) for first, last in spans]


def seeded_rows(seed: int, n: int, *, horizon: int, sizes: Sequence[int], longest: int | None = None) -> list[Record]:
    """n records whose operators lie in 0..horizon and whose sizes are drawn from `sizes`; unsorted."""
    generator = random.Random(seed)
    records = []
    for _ in range(n):
        first = generator.randint(0, horizon)
        last = min(horizon, first + generator.randint(0, horizon if longest is None else longest))
        records.append((first, last, generator.choice(sizes)))
    return records


def chain(seed: int, n: int, sizes: Sequence[int]) -> list[Record]:
    """n records, each alive at its operator and the next, as in a network without branches."""
    generator = random.Random(seed)
    return [(i, i + 1, generator.choice(sizes)) for i in range(n)]


def all_overlapping(seed: int, n: int, sizes: Sequence[int]) -> list[Record]:
    """n records that all live at operator n."""
    generator = random.Random(seed)
    return [(generator.randint(0, n), generator.randint(n, 2 * n), generator.choice(sizes)) for _ in range(n)]


def problem_of(records: Sequence[Record | TexelRecord], alignment: int = 1) -> Problem:
    """The same records as a Problem made from rows."""
    return Problem(
        [UsageRecord(f"t{i}", first, last, _size(size)) for i, (first, last, size) in enumerate(records)],
        alignment=alignment,
    )


def _size(size: int | tuple[int, ...]) -> int | tuple[int, int] | tuple[int, int, int]:
    if isinstance(size, int):
        return size
    return (size[0], size[1]) if len(size) == 2 else (size[0], size[1], size[2])


def problem_of_columns(records: Sequence[Record | TexelRecord], alignment: int = 1) -> Problem:
    """The same records as a Problem made from arrays."""
    columns = [np.array([record[k] for record in records], dtype=np.int64) for k in range(3)]
    return Problem.from_arrays(*columns, alignment=alignment)
