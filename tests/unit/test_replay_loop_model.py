"""A loop does what a literal model of its rules does, request by request, with any plan and any program."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgemem.replay.arena import ArenaMemory
from edgemem.replay.library import library
from edgemem.replay.loop import HOST_MEMORY, Loop
from edgemem.trace.slots import Slots
from tests.oracle.loop import LoopModel

SIZE = 1024
SIZES = st.sampled_from((1, 64, 65, 100, 128, 200, 320))
SECTIONS = st.integers(-1, 2)


@st.composite
def plans(draw: Any) -> Slots:
    """Any slots of one lane; places may overlap."""
    cuts = st.lists(st.integers(0, SIZE), max_size=6, unique=True).map(sorted)
    spaces = draw(st.lists(cuts.map(lambda found: found[: len(found) & ~1]), max_size=2))
    rows = []
    section = -1
    for _ in range(draw(st.integers(0, 12))):
        section = draw(st.one_of(st.just(section), SECTIONS))
        size = draw(SIZES)
        places = st.integers(0, (SIZE - size) // 64).map(lambda k: 64 * k)
        kind = draw(st.sampled_from(("planned", "planned", "fallback", "dynamic")))
        if kind == "dynamic" and spaces:
            rows.append((size, -1, -1, 0, section, draw(st.integers(0, len(spaces) - 1))))
        elif kind == "fallback":
            rows.append((size, -1, -1, 0, section, -1))
        else:
            rows.append((size, draw(places), draw(st.one_of(st.just(-1), places)), 0, section, -1))
    table = np.array(rows, np.int64).reshape(-1, 6)
    asked, offset, other, lane, within, space = table.T
    parts = tuple(np.array(part, np.int64) for part in spaces)
    return Slots(SIZE, 64, asked, offset, other, lane, within, space, parts)


STEPS = st.lists(
    st.one_of(
        SIZES.map(lambda size: ("take", size)),
        SIZES.map(lambda size: ("take", size)),
        st.integers(0, 20).map(lambda k: ("give", k)),
        SECTIONS.map(lambda section: ("enter", section)),
        st.just(("begin", 0)),
    ),
    max_size=40,
)


@pytest.mark.full
@settings(max_examples=300)
@given(plans(), STEPS)
def test_a_loop_does_what_its_model_does(plan: Slots, steps: list[tuple[str, int]]) -> None:
    c = library().c
    loop, arena, model = Loop(), ArenaMemory(SIZE), LoopModel(plan)
    base = arena.as_bytes().ctypes.data
    alive: list[tuple[int, int, int | None]] = []
    loop.start()
    loop.replay(plan, arena, poison=True)
    loop.begin()
    for what, number in steps:
        if what == "take":
            block, place = c.em_torch_malloc(number, HOST_MEMORY, None), model.request(number)
            found = block - base if base <= block < base + SIZE else None
            assert found == place
            alive.append((block, number, place))
        elif what == "give" and alive:
            block, size, place = alive.pop(number % len(alive))
            c.em_torch_free(block, size, HOST_MEMORY, None)
            if place is not None:
                model.free(place, size)
        elif what == "enter":
            loop.enter(number)
            model.enter(number)
        elif what == "begin":
            loop.end()
            loop.begin()
            model.begin()
    loop.end()
    total = loop.stats().total
    assert {name: getattr(total, name) for name in model.counts} == model.counts
    for block, size, _ in alive:
        c.em_torch_free(block, size, HOST_MEMORY, None)
    assert arena.left == 0
    loop.close()
