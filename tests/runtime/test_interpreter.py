"""`edgemem.Interpreter`: LiteRT's own class, with a report of the arena that it has and of the predicted one."""

from __future__ import annotations

import gc
import inspect
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from edgemem import api, planfile
from edgemem.errors import InvalidPlanError, RuntimeBindError, StalePlanError
from edgemem_converters.tflite.model import TfliteConverter
from tests.litert_inputs import random_inputs
from tests.random_tflite import random_model
from tests.runtime.test_litert import LOADABLE, branches, fetched
from tests.tflite_models import ADD_OPTIONS, M, O, S, T, build, floats

pytest.importorskip("ai_edge_litert")

from ai_edge_litert.interpreter import Interpreter as LiteRT
from ai_edge_litert.interpreter import OpResolverType

from edgemem.runtime.litert.interpreter import Interpreter

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

BUILTIN: dict[str, Any] = {"experimental_op_resolver_type": OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES}
XNNPACK: dict[str, Any] = {"experimental_op_resolver_type": OpResolverType.BUILTIN}


def small(size: int = 4) -> bytes:
    """y = |x| + (|x| + w), with an operator on the way that needs no more than its input."""
    tensors = [T(n, shape=(1, size)) for n in "xabcy"] + [T("w", shape=(1, size), data=floats(*range(size)))]
    ops = [O("ABS", (0,), (1,)), O("ADD", (1, 5), (2,), ADD_OPTIONS), O("EXP", (2,), (3,))]
    ops.append(O("SUB", (3, 1), (4,), (28, (0,))))
    return build(M([S(tensors, ops, (0,), (4,))]))


def run(interpreter: Any, seed: int = 3) -> list[Any]:
    details = interpreter.get_input_details()
    for entry, value in zip(details, random_inputs(details, seed), strict=True):
        interpreter.set_tensor(entry["index"], value)
    interpreter.invoke()
    return [interpreter.get_tensor(d["index"]).copy() for d in interpreter.get_output_details()]


def allocated(make: Callable[..., Any], data: bytes, **options: Any) -> Any:
    interpreter = make(model_content=data, **options)
    interpreter.allocate_tensors()
    return interpreter


def same(one: list[Any], other: list[Any]) -> bool:
    pairs = list(zip(one, other, strict=True))
    return all(np.array_equal(a, b, equal_nan=a.dtype.kind in "fc") for a, b in pairs)


def planned(data: bytes, **options: Any) -> bytes:
    model = TfliteConverter.from_bytes(data)
    planset = api.plan(model, **options)
    return model.with_plan(planfile.encode(planset), planset).content()


@pytest.mark.full
@pytest.mark.parametrize("name", LOADABLE)
def test_the_arena_is_measured_before_and_after_runs_and_was_predicted(name: str) -> None:
    bound = allocated(Interpreter, fetched(name), **BUILTIN)
    before = bound.memory
    assert before.mode == "predicted"
    assert (before.origin.source, before.origin.strategy) == ("runtime's own", "litert_arena")
    if name != "basic_pitch_nmp":  # what its arena takes is known once it has run
        assert before.reserved == before.planned > 0
    run(bound)
    assert bound.memory.reserved == before.planned


def test_the_arena_that_is_measured_really_holds_the_tensors() -> None:
    bound = allocated(Interpreter, small(4096), **BUILTIN)
    # While EXP runs there are its input and result, |x|, and x, which LiteRT keeps for the whole run.
    memory = bound.memory
    assert memory.reserved == memory.planned == memory.lower_bound == 4 * 4 * 4096
    assert str(memory) == (
        "LiteRT's arena 64.00 KiB, as predicted = lower bound, litert_arena, plan of the graph under litert, its own"
    )


@pytest.mark.parametrize("name", ["mp_hand_recrop", "mww_alexa", "mp_hand_landmark_lite"])
def test_delegates_keep_their_own_memory_and_it_is_said(name: str) -> None:
    data = fetched(name)
    bound = allocated(Interpreter, data)
    assert same(run(bound), run(allocated(LiteRT, data)))
    memory = bound.memory
    assert (memory.mode, memory.planned, memory.origin) == ("plain", 0, None)
    assert "delegate" in memory.reason


@pytest.mark.full
def test_one_planned_file_runs_everywhere() -> None:
    from ai_edge_litert.compiled_model import CompiledModel

    data = fetched("mp_hand_recrop")
    content = planned(data, target="litert")
    for options in (BUILTIN, {}, XNNPACK):
        expected = run(allocated(LiteRT, data, **options))
        assert same(run(allocated(LiteRT, content, **options)), expected)
        assert same(run(allocated(Interpreter, content, **options)), expected)
    compiled = [CompiledModel.from_buffer(m).get_signature_list() for m in (data, content)]
    assert compiled[0] == compiled[1]


def test_the_whole_call_surface_is_litert_s() -> None:
    ours, theirs = (inspect.signature(c).parameters.values() for c in (Interpreter, LiteRT))
    taken = [(p.name, p.default) for p in ours if p.kind is p.POSITIONAL_OR_KEYWORD]
    given = [(p.name, p.default) for p in theirs]
    assert taken == given[: len(taken)]
    bound = allocated(Interpreter, small(), num_threads=2, **dict(given[len(taken) :]), **BUILTIN)
    plain = allocated(LiteRT, small(), num_threads=2, **BUILTIN)
    assert isinstance(bound, LiteRT)
    assert [d["name"] for d in bound.get_tensor_details()] == [d["name"] for d in plain.get_tensor_details()]
    assert bound.get_signature_list() == plain.get_signature_list()
    assert bound.num_subgraphs() == 1
    bound.reset_all_variables()
    with pytest.raises(ValueError, match="Cannot set tensor"):
        bound.set_tensor(0, np.zeros((9, 9), "f4"))


def test_signatures_run_as_in_litert() -> None:
    schema = pytest.importorskip("ai_edge_litert.schema_py_generated")
    import flatbuffers

    model = schema.ModelT.InitFromObj(schema.Model.GetRootAs(small(), 0))

    def entry(name: str, index: int) -> Any:
        made = schema.TensorMapT()
        made.name, made.tensorIndex = name, index
        return made

    signature = schema.SignatureDefT()
    signature.signatureKey, signature.inputs, signature.outputs = "serve", [entry("in", 0)], [entry("out", 4)]
    model.signatureDefs = [signature]
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), b"TFL3")
    data = bytes(builder.Output())
    value = np.array([[1, -2, 3, -4]], "f4")
    expected = LiteRT(model_content=data, **BUILTIN).get_signature_runner("serve")(**{"in": value})["out"]
    bound = Interpreter(model_content=data, **BUILTIN)
    runner = bound.get_signature_runner("serve")
    for _ in range(2):
        np.testing.assert_array_equal(runner(**{"in": value})["out"], expected)
    assert bound.memory.reserved == bound.memory.planned


# --- sizes that change -----------------------------------------------------------------------------------------------


def resizable() -> bytes:
    tensors = [T("x"), T("w", data=floats(1, 2, 3, 4)), T("a"), T("y")]
    return build(M([S(tensors, [O("ADD", (0, 1), (2,), ADD_OPTIONS), O("NEG", (2,), (3,))], (0,), (3,))]))


def test_other_sizes_are_measured_and_predicted_anew() -> None:
    bound = Interpreter(model_content=resizable(), **BUILTIN)
    plain = LiteRT(model_content=resizable(), **BUILTIN)
    for rows in (500, 3):
        for interpreter in (bound, plain):
            interpreter.resize_tensor_input(0, [rows, 4])
            interpreter.allocate_tensors()
        assert same(run(bound), run(plain))
        assert 0 <= bound.memory.planned - 3 * rows * 16 < 3 * 64
        assert bound.memory.reserved == bound.memory.planned


def test_a_plan_for_other_sizes_is_not_held_against_litert() -> None:
    bound = Interpreter(model_content=planned(resizable(), target="litert"), **BUILTIN)
    bound.allocate_tensors()
    assert bound.memory.mode == "planned"
    bound.resize_tensor_input(0, [500, 4])
    bound.allocate_tensors()
    memory = bound.memory
    assert (memory.mode, memory.reserved) == ("predicted", memory.planned)
    assert memory.reason == "not as the plan in the file has it: it is for inputs of other sizes"


# --- plans in files --------------------------------------------------------------------------------------------------


def test_litert_keeps_to_a_plan_that_has_as_much_as_it_needs() -> None:
    data = fetched("mp_hand_recrop")
    for strategy, most in (("offsets/litert_arena", 3_080_192), ("offsets/naive", 9_000_000)):
        memory = allocated(Interpreter, planned(data, target="litert", strategy=strategy), **BUILTIN).memory
        assert (memory.mode, memory.origin.source) == ("planned", "file")
        assert memory.planned >= most
        assert memory.reserved == 3_080_192
        assert memory.is_kept


def test_a_plan_that_is_smaller_than_what_litert_needs_is_none_for_it() -> None:
    content = planned(random_model(1), target="litert", strategy="offsets/search")
    memory = allocated(Interpreter, content, **BUILTIN).memory
    assert (memory.mode, memory.planned, memory.reserved) == ("predicted", 9532, 9532)
    assert "LiteRT places tensors by itself, in 9,532 bytes, and the plan has 9,488" in memory.reason


@pytest.mark.parametrize(
    ("target", "why"), [("tflm", "leaves out the workspace of its kernels"), ("generic", "leaves out the workspace")]
)
def test_a_plan_for_another_runtime_is_not_held_against_litert(target: str, why: str) -> None:
    memory = allocated(Interpreter, planned(small(), target=target), **BUILTIN).memory
    assert (memory.mode, memory.origin.source) == ("predicted", "runtime's own")
    assert memory.reason.startswith("not as the plan in the file has it: ")
    assert why in memory.reason


def test_a_plan_of_another_graph_is_refused() -> None:
    stale = api.plan(TfliteConverter.from_bytes(small(8)), target="litert")
    content = TfliteConverter.from_bytes(small()).with_plan(planfile.encode(stale), stale).content()
    with pytest.raises((StalePlanError, InvalidPlanError)):
        _ = allocated(Interpreter, content, **BUILTIN).memory


# --- what cannot be predicted ----------------------------------------------------------------------------------------


def test_branches_run_and_their_memory_is_not_counted() -> None:
    bound = allocated(Interpreter, branches(), **BUILTIN)
    assert same(run(bound), run(allocated(LiteRT, branches(), **BUILTIN)))
    assert bound.memory.reserved == bound.memory.planned


def test_what_is_not_known_is_said() -> None:
    bound = allocated(Interpreter, small(), experimental_preserve_all_tensors=True, **BUILTIN)
    assert "preserved" in bound.memory.reason
    with pytest.raises(RuntimeBindError, match="allocate_tensors"):
        _ = Interpreter(model_content=small(), **BUILTIN).memory


def test_no_view_is_left_behind() -> None:
    bound = allocated(Interpreter, small(), **BUILTIN)
    _ = bound.memory
    bound.allocate_tensors()  # an error while there is a view of a tensor
    run(bound)


@pytest.mark.full
def test_a_thousand_interpreters_leave_nothing_behind() -> None:
    import resource

    data = small(4096)
    expected = run(allocated(LiteRT, data, **BUILTIN))

    def cycles(count: int) -> None:
        for k in range(count):
            bound = allocated(Interpreter, data, **BUILTIN)
            if k % 100 == 0:
                assert same(run(bound), expected)
            del bound

    cycles(200)
    gc.collect()
    before, objects = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, len(gc.get_objects())
    cycles(1000)
    gc.collect()
    # Each one has an arena of more than 48 KiB: a leak of them all would be 48 MiB.
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 8 * 1024
    assert len(gc.get_objects()) - objects < 1000


def test_the_report_is_of_the_sizes_that_tensors_have() -> None:
    """Also where something else than `resize_tensor_input` resized them, as runners of signatures do."""
    tensors = [T(n, shape=(1, 64), signature=(-1, 64)) for n in "xay"]
    data = build(M([S(tensors, [O("ABS", (0,), (1,)), O("EXP", (1,), (2,))], (0,), (2,))]))
    interpreter = allocated(Interpreter, data, **BUILTIN)
    small_one = interpreter.memory
    interpreter.resize_tensor_input(0, [5, 64])
    with pytest.raises(RuntimeBindError, match="call allocate_tensors"):
        _ = interpreter.memory
    interpreter.allocate_tensors()
    assert interpreter.memory.reserved == interpreter.memory.planned > small_one.planned
    other = allocated(Interpreter, data, **BUILTIN)
    LiteRT.resize_tensor_input(other, 0, [5, 64])
    LiteRT.allocate_tensors(other)
    assert other.memory == interpreter.memory


def test_a_file_is_found_from_another_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "m.tflite").write_bytes(small())
    monkeypatch.chdir(tmp_path)
    interpreter = Interpreter("m.tflite", **BUILTIN)
    interpreter.allocate_tensors()
    monkeypatch.chdir("/")
    assert interpreter.memory.reserved == interpreter.memory.planned
