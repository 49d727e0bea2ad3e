"""The generated traces of training: that they are periodic, of the published sizes, and fragment as published."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np
import pytest

from edgemem.trace.caching import simulate
from edgemem.trace.cycle import Cycle
from tests.training_traces.schedule import Pass, schedule
from tests.training_traces.traces import SETUPS, TrainingSetup, training_trace

SMALL = {name: setup for name, setup in SETUPS.items() if name != "large"}


@pytest.mark.parametrize("name", SMALL)
def test_a_trace_repeats_one_iteration(name: str) -> None:
    setup = SMALL[name]
    trace = training_trace(setup)
    cycle = Cycle.of(trace)
    assert cycle.length == np.count_nonzero(trace.iteration == setup.iterations - 1)
    assert np.all(cycle.end > cycle.start)  # nothing is left behind
    assert bool(cycle.is_dynamic.any()) == (setup.experts > 0)
    phases = {s.phase for s in trace.sections}
    assert phases == set(range(2 * setup.microbatches * setup.chunks + 1))


@pytest.mark.parametrize("name", ["1f1b", "moe"])
def test_equal_setups_give_equal_traces(name: str) -> None:
    first, second = training_trace(SMALL[name]), training_trace(SMALL[name])
    assert np.array_equal(first.events, second.events)
    assert first.sections == second.sections
    other = training_trace(replace(SMALL[name], seed=1))
    assert np.array_equal(first.events, other.events) == (name == "1f1b")


def test_routers_decide_anew_in_each_iteration() -> None:
    trace = training_trace(SMALL["moe"])
    dynamic = np.array([s.is_dynamic for s in trace.sections])[trace.section]
    sizes = [trace.size[(trace.iteration == k) & dynamic & (trace.size > 0)] for k in (1, 2)]
    assert len(sizes[0]) == len(sizes[1])
    assert not np.array_equal(*sizes)


@pytest.mark.parametrize("attention", ["flash", "scores"])
def test_a_layer_keeps_what_korthikanti_et_al_have_counted(attention: Literal["flash", "scores"]) -> None:
    """34 s b h bytes, and 5 a s^2 b with scores; statistics of norms and flash attention are small."""
    sizes = []
    for layers in (4, 8):
        setup = TrainingSetup(
            layers=layers, pipeline=4, rank=3, microbatches=1, micro_batch=2, vocabulary=8, attention=attention
        )
        trace = training_trace(setup)
        in_iteration = np.cumsum(np.where(trace.size > 0, trace.size, -trace.size[trace.requests][trace.request]))
        inside = np.flatnonzero(trace.iteration == setup.iterations - 1)
        names = [s.name for s in trace.sections]
        begin_of_loss = inside[trace.section[inside] == names.index("loss forward")][0]
        sizes.append(int(in_iteration[begin_of_loss - 1] - in_iteration[inside[0] - 1]))
    tokens, hidden, heads, length = 2048, 1024, 16, 1024
    expected = 34 * tokens * hidden + (5 * tokens * length * heads if attention == "scores" else 0)
    statistics = 4 * 4 * tokens + (4 * tokens * heads + 16 if attention == "flash" else 0)
    assert sizes[1] - sizes[0] == expected + statistics


@pytest.mark.parametrize("setup", [SETUPS["1f1b"], SETUPS["virtual_pipeline"], replace(SETUPS["moe"], rank=1)])
def test_every_pass_runs_once_and_comes_back_after_it_went(setup: TrainingSetup) -> None:
    order = schedule(setup)
    wanted = {(m, c) for m in range(setup.microbatches) for c in range(setup.chunks)}
    gone: set[tuple[int, int]] = set()
    for step in order:
        key = step.microbatch, step.chunk
        if step.is_forward:
            assert key not in gone
            gone.add(key)
        else:
            assert key in gone
    assert gone == wanted
    assert len(order) == 2 * len(wanted)


def test_1f1b_has_no_more_microbatches_under_way_than_stages_behind() -> None:
    setup = SETUPS["1f1b"]
    for rank in range(setup.pipeline):
        under_way = np.cumsum([1 if s.is_forward else -1 for s in schedule(replace(setup, rank=rank))])
        assert under_way.max() == setup.pipeline - rank


def test_the_interleaved_schedule_is_the_published_one() -> None:
    """Narayanan et al. 2021, §2.2: as many microbatches as stages go through one chunk after the other."""
    setup = TrainingSetup(layers=4, pipeline=2, chunks=2, microbatches=4)
    order = schedule(setup)
    forwards = [(s.microbatch, s.chunk) for s in order if s.is_forward]
    backwards = [(s.microbatch, s.chunk) for s in order if not s.is_forward]
    assert forwards == [(0, 0), (1, 0), (0, 1), (1, 1), (2, 0), (3, 0), (2, 1), (3, 1)]
    assert backwards == [(0, 1), (1, 1), (0, 0), (1, 0), (2, 1), (3, 1), (2, 0), (3, 0)]
    assert order[:6] == [*(Pass(is_forward=True, microbatch=m, chunk=c) for m, c in forwards[:5]), order[5]]
    assert not order[5].is_forward


@pytest.mark.parametrize(
    ("name", "most"),
    [
        # STWeaver, Figure 2: 60 % with recomputation.
        ("recompute", 0.92),
        ("virtual_pipeline_recompute", 0.92),
        ("moe", 0.92),
        ("moe_recompute", 0.92),
        ("moe_virtual_pipeline", 0.92),
        ("zero", 0.92),
        ("offload", 0.92),
    ],
)
def test_the_caching_allocator_wastes_memory_as_measurements_report(name: str, most: float) -> None:
    simulation = simulate(training_trace(SMALL[name]))
    assert simulation.efficiency <= most
    assert simulation.out_of_memory is None


def test_the_largest_iteration_has_more_than_200_000_events() -> None:
    trace = training_trace(replace(SETUPS["large"], iterations=1))
    assert np.count_nonzero(trace.iteration == 0) > 200_000


def test_impossible_setups_are_refused() -> None:
    with pytest.raises(ValueError, match="layers are a multiple"):
        TrainingSetup(layers=5)
    with pytest.raises(ValueError, match="microbatches are a multiple"):
        TrainingSetup(chunks=3, microbatches=7)
    with pytest.raises(ValueError, match="experts are not split"):
        TrainingSetup(experts=4, tensor=2)
    with pytest.raises(ValueError, match="rank is a stage"):
        TrainingSetup(rank=4)
