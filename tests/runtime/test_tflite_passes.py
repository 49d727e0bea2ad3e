"""Fold, order and plan together: equal outputs in every runtime, and what it saves in TensorFlow Lite Micro."""

from __future__ import annotations

import re
import subprocess
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from edgemem import api, planfile
from edgemem.errors import ModelError, RuntimeBindError
from edgemem.proof import prove
from edgemem.report.export import export
from edgemem.runtime.tflm import size as tflm
from edgemem.runtime.tflm.execution import execute, input_values
from edgemem.schedule.order import find_order
from edgemem.schedule.peak import peak_of
from edgemem.targets import BUILT_IN
from edgemem_converters.tflite.model import TfliteConverter
from tests.compilers import needs_compilers
from tests.runtime.test_litert import LOADABLE, branches, fetched, outputs_of
from tests.tflite_models import WHILE, M, O, S, T, build, up16

if TYPE_CHECKING:
    from pathlib import Path

    from edgemem.plans import PlanSet

pytest.importorskip("ai_edge_litert")
micro = pytest.importorskip("tflite_micro")

# What each shows: float16 weights, sparse ones, an order that helps, int8 with two subgraphs.
SHOWN = ("mp_face_detection_short", "mp_face_detection_full_sparse", "mp_hand_recrop", "mww_okay_nabu")


def passed(name: str) -> tuple[TfliteConverter, PlanSet]:
    """A model folded, ordered and planned for TensorFlow Lite Micro."""
    model = TfliteConverter.from_bytes(fetched(name)).folded()
    rules = BUILT_IN["tflm"]
    model = model.with_order(find_order(model.graph(), rules).order)
    planset = api.plan(model)
    return model.with_plan(planfile.encode(planset), planset), planset


def equal(one: list[Any], other: list[Any]) -> bool:
    return len(one) == len(other) > 0 and all(
        np.array_equal(a, b, equal_nan=True) for a, b in zip(one, other, strict=True)
    )


@pytest.mark.full
@pytest.mark.parametrize("name", [n for n in LOADABLE if n != "basic_pitch_nmp"])
def test_folding_and_ordering_change_no_bit(name: str) -> None:
    data = fetched(name)
    model, _ = passed(name)
    assert not any(op.type == "DENSIFY" for op in model.graph().ops)
    for builtin in (True, False):
        if not builtin and name not in SHOWN:
            continue
        assert equal(outputs_of(data, builtin=builtin), outputs_of(model.content(), builtin=builtin))


def test_folding_leaves_no_memory_for_weights() -> None:
    from edgemem.runtime.litert.probe_child import probe

    data = fetched("mp_face_detection_full_sparse")
    folded = TfliteConverter.from_bytes(data).folded().content()
    assert probe(data, {}).kept > 1_000_000
    assert probe(folded, {}).kept == 0


@pytest.mark.full
@pytest.mark.parametrize("name", LOADABLE)
def test_tflite_micro_runs_what_it_could_not_in_the_planned_arena(name: str) -> None:
    model, planset = passed(name)
    graph = model.graph()
    rng = np.random.default_rng(5)
    inputs = []
    for i in graph.inputs:
        tensor = graph.tensors[i]
        dtype = np.dtype(tensor.dtype)
        values = rng.random(tensor.shape) if dtype.kind == "f" else rng.integers(-50, 50, tensor.shape)
        inputs.append(values.astype(dtype))
    plain = TfliteConverter.from_bytes(fetched(name)).folded()
    own = execute(plain.content(), inputs, outputs=len(graph.outputs))
    ours = execute(model.content(), inputs, outputs=len(graph.outputs))
    assert planset.best_offsets is not None
    assert ours.head == up16(planset.best_offsets.size) <= own.head
    for a, b in zip(own.outputs, ours.outputs, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.full
def test_one_file_runs_unchanged_in_every_runtime() -> None:
    from edgemem.runtime.litert.interpreter import Interpreter

    data = fetched("mp_face_detection_short")
    model, planset = passed("mp_face_detection_short")
    content, graph = model.content(), model.graph()
    rng = np.random.default_rng(3)
    inputs = [rng.random(graph.tensors[i].shape).astype("f4") for i in graph.inputs]
    for builtin in (True, False):
        assert equal(outputs_of(data, builtin=builtin), outputs_of(content, builtin=builtin))
    bound = Interpreter(model_content=content)
    bound.allocate_tensors()
    bound.set_tensor(bound.get_input_details()[0]["index"], inputs[0])
    bound.invoke()
    default = outputs_of(content, builtin=False)
    assert equal([bound.get_tensor(d["index"]) for d in bound.get_output_details()], default)
    micro_run = execute(content, inputs, outputs=len(graph.outputs))
    assert planset.best_offsets is not None
    assert micro_run.head == up16(planset.best_offsets.size)
    for one, other in zip(micro_run.outputs, default, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-3)


@pytest.mark.full
@pytest.mark.parametrize("name", LOADABLE)
def test_the_head_is_predicted_to_the_byte(name: str) -> None:
    # What it really is stands in docs/tflite.md; here the quick ones are run.
    model = TfliteConverter.from_bytes(fetched(name)).folded()
    size = tflm.size_of(model, measure=name in SHOWN)
    assert size.planned == 0
    if name in SHOWN:
        assert size.reason == ""
        assert size.workspace == 0
        assert size.arena is not None
        assert size.tail is not None
        assert size.arena >= size.head + size.tail
    else:
        # Never below what must be alive at once.
        assert size.head >= peak_of(model.graph(), replace(BUILT_IN["tflm"], aliasing="none"))


@pytest.mark.full
def test_the_smallest_arena_falls_by_a_fifth() -> None:
    model, _ = passed("mp_pose_landmark_lite")
    before = tflm.size_of(TfliteConverter.from_bytes(fetched("mp_pose_landmark_lite")).folded())
    after = tflm.size_of(model)
    assert before.tensors == 9_060_352
    assert after.tensors == 6_817_024
    assert before.arena is not None
    assert after.arena is not None
    assert after.arena <= 0.8 * before.arena
    # It really is the smallest: with 16 bytes less it does not run.
    graph = model.graph()
    for arena, runs in ((after.arena, True), (after.arena - 16, False)):
        try:
            execute(model.content(), input_values(graph), outputs=len(graph.outputs), arena=arena)
        except RuntimeBindError:
            assert not runs
        else:
            assert runs


@pytest.mark.full
def test_workspace_is_shown_apart() -> None:
    axes = T("axes", "int32", (2,), np.array([1, 2], "<i4").tobytes())
    tensors = [T("x", shape=(1, 4, 4, 8)), axes, T("y", shape=(1, 8)), T("z", shape=(1, 8))]
    data = build(M([S(tensors, [O("MEAN", (0, 1), (2,), (27, (0,))), O("ABS", (2,), (3,))], (0,), (3,))]))
    size = tflm.size_of(TfliteConverter.from_bytes(data))
    assert (size.tensors, size.workspace, size.head) == (544, 32, 576)


@pytest.mark.full
def test_why_nothing_was_measured_is_said() -> None:
    size = tflm.size_of(TfliteConverter.from_bytes(fetched("mp_face_detection_short")))
    assert size.arena is None
    assert "cannot run the model" in size.reason
    assert size.head == size.tensors > 1_000_000
    assert tflm.size_of(TfliteConverter.from_bytes(branches()), measure=False).reason == "not asked for"
    with pytest.raises(ModelError, match=r"\.tflite"):
        tflm.size_of(object())


@pytest.mark.full
def test_offsets_of_others_are_read() -> None:
    def offline(numbers: list[int]) -> TfliteConverter:
        data = np.array(numbers, "<i4").tobytes()
        tensors = [T(n) for n in "xay"]
        ops = [O("ABS", (0,), (1,)), O("NEG", (1,), (2,))]
        return TfliteConverter.from_bytes(
            build(M([S(tensors, ops, (0,), (2,))], metadata={"OfflineMemoryAllocation": data}))
        )

    model = offline([0, 1, 3, 64, -1, 0])  # as Vela begins it
    assert model.offline() == {"x": 64, "y": 0}
    size = tflm.size_of(model)
    assert (size.tensors, size.planned, size.workspace) == (80, 2, 0)
    for wrong in ([1, 0, 2, 0, 0], [1, 0, 3, 0, 0], [1, 0]):
        with pytest.raises(ModelError, match="one offset for each of the 3 tensors"):
            offline(wrong).offline()
    assert TfliteConverter.from_bytes(branches()).offline() == {}


@needs_compilers
def test_exports_compile(tmp_path: Path) -> None:
    model, planset = passed("mww_okay_nabu")
    header, source = tmp_path / "plan.h", tmp_path / "plan.cc"
    header.write_text(export(prove(planset), "c-header", name="okay nabu"))
    source.write_text(export(prove(planset), "tflm-bufferplan", name="okay nabu", graph=model.graph()))
    main = tmp_path / "main.c"
    main.write_text(
        '#include "plan.h"\n#include "plan.h"\nchar arena[OKAY_NABU_ARENA_SIZE];\nint main(void) { return 0; }\n'
    )
    flags = ["-Wall", "-Wextra", "-Wno-unused-variable", "-Werror", "-fsyntax-only"]
    for command in (["gcc", "-std=c99", *flags, str(main)], ["g++", "-std=c++17", *flags, str(source)]):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


def test_a_buffer_plan_lists_tensors_as_the_file_does() -> None:
    """TensorFlow Lite Micro asks for subgraph after subgraph, whichever runs first and however often."""

    def loop(name: str, condition: int, body: int) -> S:
        run = O("WHILE", (0,), (1,), (WHILE, (condition, body)))
        return S([T(f"{name}0"), T(f"{name}1"), T(f"{name}2")], [run, O("NEG", (1,), (2,))], (0,), (2,), name)

    def less(name: str) -> S:
        limit = T(f"{name}1", data=bytes(16))
        return S([T(f"{name}0"), limit, T(f"{name}2", "bool")], [O("LESS", (0, 1), (2,))], (0,), (2,), name)

    nest = S([T("e0"), T("e1"), T("e2")], [O("NEG", (0,), (1,)), O("ABS", (1,), (2,))], (0,), (2,), "e")
    main = loop("a", 3, 4)
    main.ops.insert(0, O("WHILE", (0,), (3,), (WHILE, (1, 2))))
    main.tensors += [T("a3"), T("a4", shape=(3, 4))]  # nothing uses the last one, but it has a place
    data = build(M([main, less("b"), nest, less("c"), loop("d", 1, 2)]))
    model = TfliteConverter.from_bytes(data)
    planset = api.plan(model)
    text = export(prove(planset), "tflm-bufferplan", name="m", graph=model.graph())
    entries = [(int(offset), name) for offset, name in re.findall(r"\{(\d+)\},  // (\S+)", text)]
    assert [name.rpartition("/")[2] for _, name in entries] == [
        *("a0", "a1", "a2", "a3", "a4", "b0", "b2", "e0", "e1", "e2", "c0", "c2", "d0", "d1", "d2"),
    ]
    offsets = model.with_plan(b"", planset).offline()
    assert [offset for offset, name in entries if name != "a4"] == [offsets[n] for _, n in entries if n != "a4"]
    assert planset.best_offsets is not None
    assert {name: offset for offset, name in entries}["a4"] == up16(planset.best_offsets.size)


def test_the_metadata_can_be_taken_out() -> None:
    model, _ = passed("mww_okay_nabu")
    data = model.offline_metadata()
    assert data is not None
    numbers = np.frombuffer(data, "<i4")
    assert numbers[2] == len(numbers) - 3
    assert TfliteConverter.from_bytes(fetched("mww_okay_nabu")).offline_metadata() is None
