"""Branches and loops in TensorFlow Lite Micro, planned and left alone, on random inputs in dirty memory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

import pytest

from edgemem import api
from edgemem.model.graph import digest
from edgemem.planning.micro_offsets import plan_of_offsets
from edgemem.proof import Cause, verify_planset
from edgemem.records import lifetime
from edgemem.records.micro_buffers import buffers_of
from edgemem.records.micro_planner import place_buffers, predicted_head
from edgemem.targets import BUILT_IN
from edgemem_converters.tflite.model import TfliteConverter
from tests.runtime.control_models import KINDS, control_model
from tests.tflite_models import up16

if TYPE_CHECKING:
    from collections.abc import Mapping

    from edgemem.model.graph import Graph
    from edgemem.model.steps import Step
    from edgemem.plans import PlanSet

pytest.importorskip("tflite_micro")

ROOT = Path(__file__).parents[2]
EACH = 16  # models of each kind
MODELS = [[(kind, seed) for seed in range(EACH)] for kind in KINDS]
SECONDS = 60
STRATEGIES = ("offsets/greedy_by_size", "offsets/greedy_by_breadth")
TFLM = BUILT_IN["tflm"]


class Came(TypedDict):
    """What came of a model: whether all outputs are equal bit by bit, and both heads of the arena in bytes."""

    name: str
    equal: bool
    head: int
    planned: int
    error: str


def run(pairs: Mapping[str, tuple[bytes, bytes]], folder: Path) -> list[Came]:
    """Run each file as it is and planned, in a process of its own, whose malloc gives memory that is not zero."""
    jobs = []
    for name, (plain, planned) in pairs.items():
        (folder / f"{name}.plain.tflite").write_bytes(plain)
        (folder / f"{name}.planned.tflite").write_bytes(planned)
        graph = TfliteConverter.from_bytes(plain).graph()
        jobs.append({"name": name, "inputs": len(graph.inputs), "outputs": len(graph.outputs)})
    (folder / "jobs.json").write_text(json.dumps(jobs))
    done = subprocess.run(
        [sys.executable, "-m", "tests.runtime.control_run", str(folder)],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=True,
        cwd=ROOT,
        env={**os.environ, "MALLOC_PERTURB_": "165"},
    )
    came = [json.loads(line) for line in done.stdout.splitlines()]
    assert [one["name"] for one in came] == list(pairs)
    return came


@pytest.mark.full
@pytest.mark.parametrize("models", MODELS, ids=KINDS)
def test_planned_models_give_the_same_bits_in_no_larger_arena(models: list[tuple[str, int]], tmp_path: Path) -> None:
    pairs, sizes, own, offsets = {}, {}, {}, {}
    for kind, seed in models:
        name = f"{kind}{seed}"
        model = TfliteConverter.from_bytes(control_model(seed, kind))
        planset = api.plan(model, strategy=STRATEGIES)
        assert planset.best_offsets is not None
        planned = model.with_plan(b"", planset)
        pairs[name] = model.content(), planned.content()
        sizes[name] = up16(planset.best_offsets.size)
        own[name] = predicted_head(model.graph(), {}).total
        offsets[name] = predicted_head(model.graph(), planned.offline()).total
    for came in run(pairs, tmp_path):
        name = came["name"]
        assert not came["error"]
        assert came["equal"], name
        assert came["planned"] == sizes[name] == offsets[name], name
        assert came["planned"] <= came["head"] == own[name], name


@pytest.mark.full
@pytest.mark.parametrize("models", MODELS, ids=KINDS)
def test_offsets_without_a_plan_are_proved(models: list[tuple[str, int]]) -> None:
    """Ours are right, and zeros are wrong. The rehearsal finds nothing wrong with TensorFlow Lite Micro's own either.

    The sweep may: it counts operators, and so it cannot say that what a body takes in and does not read is needed
    before its first operator alone.
    """
    for kind, seed in models:
        model = TfliteConverter.from_bytes(control_model(seed, kind))
        graph = model.graph()
        own = by_names(model, {buffer.name: offset for buffer, offset in place_buffers(buffers_of(graph), {})})
        planset = api.plan(model, strategy=STRATEGIES)
        ours = model.with_offsets(planset).offline()
        assert verify_planset(plan_of_offsets(graph, ours), graph) == (), (kind, seed)
        found = {v.cause for v in verify_planset(plan_of_offsets(graph, own), graph)}
        assert found <= {Cause.OVERLAP, Cause.BELOW_BOUND}, (kind, seed)
        zero = dict.fromkeys(ours, 0)
        assert verify_planset(plan_of_offsets(graph, zero), graph), (kind, seed)


def by_names(model: TfliteConverter, offsets: Mapping[str, int]) -> dict[str, int]:
    """Offsets for all names of each tensor, as the file's entry has them once for all of these."""
    graph = model.graph()
    names: dict[tuple[int, int], list[str]] = {}

    def walk(g: Graph) -> None:
        for index, tensor in enumerate(g.tensors):
            names.setdefault((g.number, index), []).append(tensor.name)
        for op in g.ops:
            for body in op.bodies:
                walk(body)

    walk(graph)
    return {name: offsets[one] for group in names.values() for one in group if one in offsets for name in group}


def old_plan(graph: Graph) -> PlanSet:
    """Planned as if an operator's outputs began with its own step, and a body had its inputs from the first body on."""

    def spans(step: Step, number: int) -> tuple[tuple[int, int], ...]:
        return tuple((step.starts[0], number) for _ in step.starts)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lifetime, "body_spans", spans)
        for name in ("begin_loops", "join_bodies", "join_inputs"):
            patch.setattr(lifetime, name, lambda *_: None)
        lives = lifetime.lifetimes(graph, TFLM)
    planset = api.plan(lives.problem, strategy=STRATEGIES)
    return replace(planset, target=TFLM, digest=digest(graph), steps=lives.steps, unplanned=lives.unplanned)


@pytest.mark.full
def test_outputs_that_begin_after_the_bodies_are_wrong(tmp_path: Path) -> None:
    """What the runs above are for: where a loop's outputs lie on what its condition computes, they change."""
    pairs, refused = {}, {}
    for name, kind, seed in (
        (f"{kind}{seed}", kind, seed) for kind in ("while", "if_in_while") for seed in range(EACH)
    ):
        model = TfliteConverter.from_bytes(control_model(seed, kind))
        planset = old_plan(model.graph())
        refused[name] = bool(verify_planset(planset, model.graph()))
        pairs[name] = model.content(), model.with_offsets(planset).content()
    wrong = [came["name"] for came in run(pairs, tmp_path) if not came["equal"]]
    assert len(wrong) >= 10
    assert all(refused[name] for name in wrong)
