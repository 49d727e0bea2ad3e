"""The rules of STWeaver's paper as the kernel follows them are those of the literal transcription."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from edgemem.records.problem import Problem
from tests import strategies as ours
from tests.oracle import spatio_temporal as oracle
from tests.strategies import find, solved

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.oracle.bounds import Record

STRATEGY = find("offsets", "spatio_temporal")

Phases = list[tuple[int, int]]


@st.composite
def phased_rows(draw: st.DrawFn) -> tuple[list[Record], Phases]:
    """Records with the phases in which they begin and end: phases of so many operators, or any."""
    records = draw(ours.rows(max_records=40))
    length = draw(st.sampled_from((0, 1, 2, 3, 5)))
    if length:
        pairs = [(first // length, last // length) for first, last, _ in records]
    else:
        phase = st.integers(0, 3)
        pairs = [(draw(phase), draw(phase)) for _ in records]
    unknown = draw(st.sets(st.integers(0, max(0, len(records) - 1)), max_size=3))
    return records, [(-1, -1) if i in unknown else pair for i, pair in enumerate(pairs)]


def problem_with(records: Sequence[Record], phases: Phases, alignment: int) -> Problem:
    columns = [np.array([record[k] for record in records], dtype=np.int64) for k in range(3)]
    return Problem.from_arrays(*columns, alignment=alignment, phases=np.array(phases, np.int64).reshape(-1, 2))


@pytest.mark.full
@given(phased_rows(), ours.alignments())
@example(([(0, 3, 6), (1, 2, 6), (3, 5, 4), (4, 4, 2)], [(0, 1), (0, 1), (1, 1), (1, 1)]), 1)
@example(([(0, 4, 8), (0, 1, 8), (2, 3, 8)], [(0, 1), (0, 0), (1, 1)]), 1)
def test_equal_to_the_literal_transcription(given_rows: tuple[list[Record], Phases], alignment: int) -> None:
    records, phases = given_rows
    found = solved(STRATEGY, problem_with(records, phases, alignment), rules="paper")
    known = phases if any(pair != (-1, -1) for pair in phases) else None
    if known is not None:  # without any, the kernel makes phases of its own
        assert found.tolist() == oracle.spatio_temporal(records, known, alignment)


@pytest.mark.full
@given(phased_rows(), ours.alignments(), st.sampled_from(("improved", "paper")))
def test_sound_with_any_phases(given_rows: tuple[list[Record], Phases], alignment: int, rules: str) -> None:
    """Phases that say nothing of the intervals make a plan larger at worst."""
    records, phases = given_rows
    problem = problem_with(records, phases, alignment)
    offsets = solved(STRATEGY, problem, rules=rules).tolist()
    assert all(offset % alignment == 0 for offset in offsets)
    for i, (first, last, size) in enumerate(records):
        for j, (other_first, other_last, other_size) in enumerate(records[:i]):
            if size and other_size and first <= other_last and other_first <= last:
                assert offsets[i] + size <= offsets[j] or offsets[j] + other_size <= offsets[i]


@given(st.lists(st.tuples(st.integers(0, 12), st.integers(0, 5)), max_size=10))
def test_algorithm_1_makes_as_few_layers_as_requests_are_in_use_together(spans: list[tuple[int, int]]) -> None:
    requests = [(first, first + length) for first, length in spans]
    layers = oracle.memory_layers(requests)
    most = max((sum(a <= op <= b for a, b in requests) for op in range(20)), default=0)
    assert len(set(layers)) == most
    # Groups of one record each, which are not fused: all are of one size.
    problem = problem_with([(first, last, 1) for first, last in requests], [(i, i) for i in range(len(requests))], 1)
    assert max((solved(STRATEGY, problem, rules="paper") + problem.size).tolist(), default=0) == most
