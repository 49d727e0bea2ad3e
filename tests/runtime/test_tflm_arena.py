"""Head, workspace, tail and arena of TensorFlow Lite Micro are what is predicted, to the byte, and plans are obeyed.

The recording allocator of the Python package says what they are. It has 64-bit pointers.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pytest

from edgemem import api, check, shrink
from edgemem.errors import BudgetExceededError, RuntimeBindError
from edgemem.passes.streaming.stages import choose_stages
from edgemem.passes.streaming.stream import stream
from edgemem.planning.micro_arenas import micro_arenas
from edgemem.planning.verification import graph_for
from edgemem.proof import verify_planset
from edgemem.records.micro_arena import predicted_arena
from edgemem.records.micro_builds import INSTALLED
from edgemem.records.micro_planner import predicted_head
from edgemem.runtime.tflm.execution import execute, input_values
from edgemem.targets import BUILT_IN
from edgemem_converters.tflite.model import TfliteConverter
from models.fetch import FetchError
from tests.runtime.micro_models import MICRO_MODELS
from tests.tflite_models import IF, M, O, S, T, build

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from edgemem.plans import PlanSet
    from edgemem.runtime.tflm.execution import TflmRun

pytest.importorskip("tflite_micro")

TFLM = replace(BUILT_IN["tflm"], pointer_bytes=8)
OVERLAPPED = TFLM.changed(kernels="tflm-reference", slots=True)
SETS = 3
POISON = 0xA5


def model_of(name: str) -> TfliteConverter:
    try:
        return TfliteConverter.from_bytes(MICRO_MODELS[name]())
    except FetchError as e:
        pytest.skip(str(e))


def run(model: TfliteConverter, arena: int) -> TflmRun:
    """Three sets of inputs in one interpreter, in an arena that is not zero."""
    graph = model.graph()
    first, *rest = (input_values(graph, seed=seed) for seed in range(SETS))
    return execute(model.content(), first, then=rest, outputs=len(graph.outputs), arena=arena, fill=POISON)


def checked(model: TfliteConverter, expected: TflmRun | None) -> TflmRun:
    """A run in the predicted arena, which has the predicted parts and the expected outputs."""
    predicted = predicted_arena(model.graph(), model.offline(), INSTALLED)
    ran = run(model, predicted.total)
    assert (ran.head, ran.tail) == (predicted.head.total, predicted.tail)
    for one, other in zip(ran.each, expected.each if expected else (), strict=expected is not None):
        assert all(a.tobytes() == b.tobytes() for a, b in zip(one, other, strict=True))
    return ran


def planned(model: TfliteConverter, planset: PlanSet) -> TfliteConverter:
    assert verify_planset(planset, graph_for(planset, model)) == ()
    return model.with_plan(b"", planset)


def streamed(model: TfliteConverter) -> TfliteConverter | None:
    """The model in stripes; None where that saves nothing."""
    graph = model.graph()
    stages = choose_stages(graph, OVERLAPPED, objective="head").stages
    return model.rewritten(stream(graph, stages)) if stages else None


@pytest.mark.full
@pytest.mark.parametrize("name", MICRO_MODELS)
def test_every_part_is_predicted_to_the_byte(name: str) -> None:
    """As it is, planned, overlapped and in stripes; the head never exceeds TensorFlow Lite Micro's own."""
    model = model_of(name)
    own = checked(model, None)
    stripes = streamed(model)
    variants = [(model, TFLM), (model, OVERLAPPED), *([(stripes, OVERLAPPED)] if stripes else [])]
    for changed, target in variants:
        planset = api.plan(changed, target=target, effort="fast")
        best = planset.best_offsets
        assert best is not None
        file = planned(changed, planset)
        ran = checked(file, own)
        left = {tensor for tensor, _ in planset.unplanned}
        # What has no place in the plan is put around it.
        assert ran.head == -(-best.size // 16) * 16 or (left and ran.head > best.size)
        assert ran.head <= predicted_head(changed.graph(), {}, 8).total


def with_variables(reads: str, assigns: str) -> bytes:
    """Variables with names of one letter that are assigned, and then read."""
    tensors, ops, handles = [T("x", shape=(1, 80))], [], {}
    for name in sorted({*reads, *assigns}):
        handles[name] = len(tensors)
        ops.append(O("VAR_HANDLE", (), (len(tensors),), shared_name=name))
        tensors.append(T(name, "resource", (1,)))
    ops += [O("ASSIGN_VARIABLE", (handles[name], 0), ()) for name in assigns]
    ends = range(len(tensors), len(tensors) + len(reads) + 1)
    ops += [O("READ_VARIABLE", (handles[name],), (end,)) for name, end in zip(reads, ends[1:], strict=True)]
    tensors += [T(f"y{end}", shape=(1, 80)) for end in ends]
    return build(M([S(tensors, [*ops, O("ABS", (0,), (ends[0],))], (0,), tuple(ends))]))


def with_another_signature() -> bytes:
    """A second subgraph that no operator runs, and a third that it alone runs."""
    small = S([T("x"), T("y")], [O("ABS", (0,), (1,))], (0,), (1,))
    condition = T("c", "bool", (1,))
    chosen = S([condition, T("p"), T("q")], [O("IF", (0, 1), (2,), (IF, (2, 2)))], (0, 1), (2,), "other")
    large = S([T(name, shape=(1, 64)) for name in "abc"], [O("ABS", (0,), (1,)), O("ABS", (1,), (2,))], (0,), (2,))
    return build(M([small, chosen, large]))


def with_ends(*ends: T) -> bytes:
    """Each input reshaped to an output of the same quantisation."""
    shape = T("shape", "int32", (2,), np.array([8, 1], "<i4").tobytes())
    made = [replace(end, name=f"{end.name}'", shape=(8, 1)) for end in ends]
    count = len(ends)
    ops = [O("RESHAPE", (k, 2 * count), (count + k,)) for k in range(count)]
    return build(M([S([*ends, *made, shape], ops, tuple(range(count)), tuple(range(count, 2 * count)))]))


RARE: dict[str, Callable[[], bytes]] = {
    "read twice": partial(with_variables, "vv", "v"),
    "assigned twice": partial(with_variables, "v", "vv"),
    "one of two is read": partial(with_variables, "a", "ab"),
    "none is read": partial(with_variables, "", "a"),
    "a graph that nothing runs": with_another_signature,
    "int8 without quantisation": partial(with_ends, T("x", "int8", (1, 8)), T("y", "int16", (1, 8))),
    "float32 with quantisation": partial(with_ends, T("x", shape=(1, 8), scales=1), T("y", "int8", (1, 8), scales=1)),
    "several scales": partial(with_ends, T("x", "int8", (1, 8), scales=2), T("y", "int8", (1, 8), scales=3)),
    "scales without zero points": partial(with_ends, T("x", "int8", (1, 8), scales=1, has_zero_points=False)),
}


@pytest.mark.parametrize("name", RARE)
def test_variables_and_graphs_that_nothing_runs_are_counted(name: str) -> None:
    """In a file as it is, and in one with offsets."""
    model = TfliteConverter.from_bytes(RARE[name]())
    own = checked(model, None)
    checked(planned(model, api.plan(model, effort="fast")), own)


@pytest.mark.full
@pytest.mark.parametrize("name", ["person detection", "keyword spotting", "mean", "mww_alexa", "image classification"])
def test_a_budget_met_exactly_is_an_arena_that_is_enough(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One byte less fails as the plan is made, and the next smaller arena at boot. The device is this computer."""
    monkeypatch.setattr("edgemem.planning.micro_arenas.build_of", lambda _: INSTALLED)
    model = model_of(name)
    arenas = micro_arenas(model, api.plan(model, target=TFLM, effort="fast"))
    assert arenas is not None
    arena = arenas.planned.total
    with pytest.raises(BudgetExceededError):
        api.plan(model, target=TFLM, budget=arena - 1)
    file = planned(model, api.plan(model, target=TFLM, effort="fast", budget=arena))
    for one, other in zip(run(file, arena).each, run(model, arenas.own.total).each, strict=True):
        assert all(a.tobytes() == b.tobytes() for a, b in zip(one, other, strict=True))
    with pytest.raises(RuntimeBindError):
        run(file, arena - 16)


def several(size: int) -> TfliteConverter:
    """MEAN between operators, with three pieces of workspace."""
    axes = T("axes", "int32", (2,), np.array([1, 2], "<i4").tobytes())
    tensors = [T("x", shape=(1, 4, 4, size)), T("a", shape=(1, 4, 4, size)), axes, T("y", shape=(1, size)), T("z")]
    tensors[4] = T("z", shape=(1, size))
    ops = [O("ABS", (0,), (1,)), O("MEAN", (1, 2), (3,), (27, (0,))), O("ABS", (3,), (4,))]
    return TfliteConverter.from_bytes(build(M([S(tensors, ops, (0,), (4,))])))


def test_a_budget_is_for_the_whole_arena() -> None:
    """One byte less than the arena is refused."""
    model = several(8)
    arenas = micro_arenas(model, api.plan(model))
    assert arenas is not None
    arena = arenas.planned.total
    assert arena >= arenas.planned.head.total + arenas.planned.tail
    assert api.plan(model, budget=arena).best_offsets is not None
    with pytest.raises(BudgetExceededError, match=rf"{arena:,} bytes required \(head "):
        api.plan(model, budget=arena - 1)


def test_plan_check_and_shrink_ask_for_one_arena(tmp_path: Path) -> None:
    """In a small model that is what it takes to prepare it, which is more than head and tail."""
    small = S([T("x"), T("y")], [O("ABS", (0,), (1,))], (0,), (1,))
    model = TfliteConverter.from_bytes(build(M([small])))
    arenas = micro_arenas(model, api.plan(model))
    assert arenas is not None
    arena = arenas.planned.total
    assert arena > arenas.planned.head.total + arenas.planned.tail + 32
    path, budgets = tmp_path / "m.tflite", tmp_path / "models.toml"
    model.save(path)
    for budget, fits in ((arena, True), (arena - 1, False)):
        budgets.write_text(f'[[model]]\npath = "m.tflite"\nbudget = {budget}\n')
        (checked_model,) = check(budgets).models
        assert (checked_model.status == "over budget") is not fits
    assert shrink(path, target="tflm", budget=arena).chosen.memory == arena
    with pytest.raises(BudgetExceededError):
        shrink(path, target="tflm", budget=arena - 1)


def test_workspace_is_in_the_plan_and_where_the_runtime_puts_it() -> None:
    model = several(8)
    planset = api.plan(model)
    best = planset.best_offsets
    assert best is not None
    kinds = [record.kind for record in planset.problem.records]
    assert kinds.count("scratch") == 2
    ran = execute(planned(model, planset).content(), input_values(model.graph()), outputs=1)
    assert ran.head == best.size


def test_a_plan_that_is_worse_than_none_is_not_written(tmp_path: Path) -> None:
    model = several(8)
    naive = api.plan(model, strategy="offsets/naive")
    arenas = micro_arenas(model, naive)
    assert arenas is not None
    assert arenas.planned.head.total > arenas.own.head.total
    path = tmp_path / "planned.tflite"
    assert api.save(model, naive, path) == ()
    assert TfliteConverter.from_bytes(path.read_bytes()).offline_metadata() is None
    assert path.read_bytes() == model.content()
    assert api.save(model, api.plan(model), path)
    assert TfliteConverter.from_bytes(path.read_bytes()).offline()
