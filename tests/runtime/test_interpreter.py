"""LiteRT inside our arena: the same outputs, less memory, and a clear error for whatever cannot be."""

from __future__ import annotations

import ctypes
import gc
import inspect
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from edgemem import api, planfile
from edgemem.errors import InvalidPlanError, RuntimeBindError
from edgemem_converters.tflite.model import TfliteConverter
from tests.runtime.test_litert import LOADABLE, branches, fetched
from tests.tflite_models import ADD_OPTIONS, M, O, S, T, build, floats

pytest.importorskip("ai_edge_litert")

from ai_edge_litert.interpreter import Interpreter as LiteRT
from ai_edge_litert.interpreter import OpResolverType

from edgemem.runtime.litert import delegate
from edgemem.runtime.litert import probe as litert
from edgemem.runtime.litert.comparison import random_inputs
from edgemem.runtime.litert.interpreter import Interpreter

if TYPE_CHECKING:
    from collections.abc import Callable

BUILTIN: dict[str, Any] = {"experimental_op_resolver_type": OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES}
XNNPACK: dict[str, Any] = {"experimental_op_resolver_type": OpResolverType.BUILTIN}
# Its outputs are dynamic; see below.
BOUND = tuple(name for name in LOADABLE if name != "basic_pitch_nmp")


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


@pytest.mark.full
@pytest.mark.parametrize("name", BOUND)
def test_every_model_computes_the_same_in_less_memory(name: str) -> None:
    data = fetched(name)
    own = litert.probe(data).main.arena
    plain = allocated(LiteRT, data, **BUILTIN)
    expected = [run(plain, seed) for seed in (3, 4)]
    for options in ({}, {"inputs": "release"}):
        bound = allocated(Interpreter, data, poison=True, **options, **BUILTIN)
        assert bound.memory.planned <= own
        assert bound.memory.own == 0
        assert bound.memory.details["native_arenas"] == own
        for seed, outputs in zip((3, 4), expected, strict=True):
            assert same(run(bound, seed), outputs)


@pytest.mark.full
def test_more_than_ten_models_take_less() -> None:
    smaller = 0
    for name in BOUND:
        data = fetched(name)
        bound = allocated(Interpreter, data, inputs="release", **BUILTIN)
        smaller += bound.memory.planned < bound.memory.details["native_arenas"]
    assert smaller >= 10


@pytest.mark.full
@pytest.mark.parametrize("name", [n for n in LOADABLE if n != "basic_pitch_nmp"])
def test_litert_own_arena_stays_untouched(name: str) -> None:
    data = fetched(name)
    plain = allocated(LiteRT, data, **BUILTIN)
    expected = [run(plain), run(plain)]  # variables make the second run another one
    bound = Interpreter(model_content=data, inputs="release", **BUILTIN)
    # Where LiteRT puts everything, before it is moved.
    seen = []
    delegate = bound.delegate
    assert delegate is not None
    read = delegate.read

    def noted(**options: Any) -> Any:
        seen.append(read(**options))
        return seen[-1]

    delegate.read = noted  # type: ignore[method-assign]
    bound.allocate_tensors()
    placed = [t for t in seen[0].main.tensors if t.allocation == "arena" and t.address and t.size]
    low, high = min(t.address for t in placed), max(t.address + t.size for t in placed)
    ctypes.memset(low, 0xAB, high - low)
    for wanted in expected:
        assert same(run(bound), wanted)
    assert ctypes.string_at(low, high - low) == b"\xab" * (high - low)
    assert high - low == bound.memory.details["native_arenas"] - sum(s.arena for s in seen[0].subgraphs[1:])


@pytest.mark.parametrize("name", ["mp_hand_recrop", "mww_alexa", "mp_hand_landmark_lite"])
def test_delegates_keep_their_own_memory_and_it_is_said(name: str) -> None:
    data = fetched(name)
    expected = run(allocated(LiteRT, data))
    bound = allocated(Interpreter, data)
    assert same(run(bound), expected)
    memory = bound.memory
    assert memory.mode == "plain"
    assert "delegate" in memory.reason


@pytest.mark.full
def test_one_planned_file_runs_everywhere() -> None:
    from ai_edge_litert.compiled_model import CompiledModel

    data = fetched("mp_hand_recrop")
    model = TfliteConverter.from_bytes(data)
    planset = api.plan(model, target="litert", strategy=("offsets/greedy_by_size", "offsets/litert_arena"))
    content = model.with_plan(planfile.encode(planset), planset).content()
    for options in (BUILTIN, {}):
        expected = run(allocated(LiteRT, data, **options))
        assert same(run(allocated(LiteRT, content, **options)), expected)
    # The plan in the file chooses the builtin kernels; whoever names XNNPACK has it.
    for theirs, ours in ((BUILTIN, {}), (BUILTIN, BUILTIN), ({}, XNNPACK)):
        assert same(run(allocated(Interpreter, content, **ours)), run(allocated(LiteRT, data, **theirs)))
    bound = allocated(Interpreter, content, **BUILTIN)
    assert bound.memory.origin.source == "file"
    assert planset.best_offsets is not None
    assert bound.memory.planned == planset.best_offsets.size
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


def test_signatures_run_in_the_arena() -> None:
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
    bound = Interpreter(model_content=data, poison=True, **BUILTIN)
    runner = bound.get_signature_runner("serve")
    for _ in range(2):
        np.testing.assert_array_equal(runner(**{"in": value})["out"], expected)
    assert bound.memory.mode == "planned"
    assert bound.memory.own == 0


# --- sizes that change -----------------------------------------------------------------------------------------------


def resizable() -> bytes:
    tensors = [T("x"), T("w", data=floats(1, 2, 3, 4)), T("a"), T("y")]
    return build(M([S(tensors, [O("ADD", (0, 1), (2,), ADD_OPTIONS), O("NEG", (2,), (3,))], (0,), (3,))]))


def test_other_sizes_are_planned_anew() -> None:
    bound = Interpreter(model_content=resizable(), poison=True, **BUILTIN)
    plain = LiteRT(model_content=resizable(), **BUILTIN)
    sizes = []
    for rows in (1, 500, 3, 900):
        for interpreter in (bound, plain):
            interpreter.resize_tensor_input(0, [rows, 4])
            interpreter.allocate_tensors()
        assert same(run(bound), run(plain))
        sizes.append(bound.memory.planned)
    assert sizes[3] > sizes[1] > sizes[2] > sizes[0]


def test_nothing_runs_between_a_resize_and_the_allocation() -> None:
    bound = allocated(Interpreter, resizable(), **BUILTIN)
    run(bound)
    before = bound.arena.memory.copy()
    bound.resize_tensor_input(0, [4000, 4])
    with pytest.raises((RuntimeError, ValueError, RuntimeBindError)):
        run(bound)
    # Not a byte of the larger input went to where the smaller one was.
    np.testing.assert_array_equal(bound.arena.memory, before)
    bound.allocate_tensors()
    assert run(bound)[0].shape == (4000, 4)


def test_memory_that_litert_moved_is_noticed() -> None:
    bound = allocated(Interpreter, small(), **BUILTIN)
    run(bound)
    delegate = bound.delegate
    assert delegate is not None
    kept = delegate.tensors[1].data
    delegate.tensors[1].data = kept + 64
    with pytest.raises(RuntimeBindError, match="moved tensor 1"):
        run(bound)
    delegate.tensors[1].data = kept
    delegate.tensors[1].bytes += 4
    with pytest.raises(RuntimeBindError, match="planned with 16 bytes and has 20"):
        run(bound)
    delegate.tensors[1].bytes -= 4
    assert same(run(bound), run(allocated(LiteRT, small(), **BUILTIN)))


# --- what cannot be bound --------------------------------------------------------------------------------------------


@pytest.mark.full
def test_dynamic_sizes_are_refused_or_left_to_litert() -> None:
    data = fetched("basic_pitch_nmp")
    with pytest.raises(RuntimeBindError, match="as it runs"):
        allocated(Interpreter, data, mode="planned", **BUILTIN)
    for options in ({"mode": "planned", "refuse": "plain", **BUILTIN}, BUILTIN, {}):
        bound = allocated(Interpreter, data, **options)
        assert bound.memory.mode == "plain"
        assert ("as it runs" if options else "delegates") in bound.memory.reason
        assert 'refuse="plain"' not in bound.memory.reason  # it is plain already
        theirs = {k: v for k, v in options.items() if k in BUILTIN}
        plain = allocated(LiteRT, data, **theirs)
        for seed in (3, 4, 5):
            assert same(run(bound, seed), run(plain, seed))


def test_branches_are_refused_or_left_to_litert() -> None:
    with pytest.raises(RuntimeBindError, match="branches"):
        allocated(Interpreter, branches(), refuse="raise", **BUILTIN)
    for options in ({}, {"refuse": "plain"}):
        bound = allocated(Interpreter, branches(), **options, **BUILTIN)
        assert bound.memory.mode == "plain"
        assert same(run(bound), run(allocated(LiteRT, branches(), **BUILTIN)))


def test_plain_goes_on_with_other_sizes() -> None:
    bound = Interpreter(model_content=branches(), refuse="plain", **BUILTIN)
    bound.resize_tensor_input(1, [2, 4])
    bound.allocate_tensors()
    assert [o.shape for o in run(bound)] == [(2, 4)]


def test_another_layout_of_structures_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    tensors_shown = delegate._tensors_shown

    def changed(interpreter: Any, number: int) -> Any:
        for index, entry in tensors_shown(interpreter, number):
            yield index, replace(entry, size=32) if index == 1 else entry

    monkeypatch.setattr(delegate, "_tensors_shown", changed)
    with pytest.raises(RuntimeBindError, match=r"laid out in another way than edgemem knows \(sizes\)"):
        Interpreter(model_content=small(), refuse="raise", **BUILTIN)
    bound = allocated(Interpreter, small(), **BUILTIN)
    assert "another way" in bound.memory.reason
    assert same(run(bound), run(allocated(LiteRT, small(), **BUILTIN)))


def test_modes_and_options_that_exclude_each_other() -> None:
    with pytest.raises(RuntimeBindError, match="builtin kernels"):
        Interpreter(model_content=small(), mode="planned")
    bound = allocated(Interpreter, small(), mode="plain")
    assert bound.memory.reason == "asked for"
    bound = allocated(Interpreter, small(), experimental_preserve_all_tensors=True, **BUILTIN)
    assert "preserved" in bound.memory.reason
    with pytest.raises(RuntimeBindError, match="allocate_tensors"):
        _ = Interpreter(model_content=small(), **BUILTIN).memory


@pytest.mark.full
def test_a_wrong_plan_is_refused() -> None:
    model = TfliteConverter.from_bytes(small())
    planset = api.plan(model, target="litert", strategy="offsets/litert_arena")
    (plan,) = planset.offsets
    assert allocated(Interpreter, small(), plan=planset, **BUILTIN).memory.origin.source == "given"
    wrong = replace(planset, offsets=(replace(plan, offsets=np.zeros_like(plan.offsets)),))
    with pytest.raises(InvalidPlanError, match="refused"):
        allocated(Interpreter, small(), plan=wrong, **BUILTIN)
    stale = api.plan(TfliteConverter.from_bytes(small(8)), target="litert", strategy="offsets/litert_arena")
    with pytest.raises(InvalidPlanError, match="refused"):
        allocated(Interpreter, small(), plan=stale, **BUILTIN)


# --- inputs that die -------------------------------------------------------------------------------------------------


@pytest.mark.full
def test_inputs_are_kept_unless_they_are_to_be_released() -> None:
    data = fetched("mp_iris_landmark")
    kept = allocated(Interpreter, data, poison=True, **BUILTIN)
    first = run(kept)
    kept.invoke()
    assert same([kept.get_tensor(d["index"]) for d in kept.get_output_details()], first)
    released = allocated(Interpreter, data, inputs="release", poison=True, **BUILTIN)
    assert released.memory.planned < kept.memory.planned
    assert same(run(released), first)
    with pytest.raises(RuntimeBindError, match="was not set since its memory was used"):
        released.invoke()
    assert same(run(released), first)


@pytest.mark.full
def test_inputs_that_are_written_through_views() -> None:
    data = fetched("mp_iris_landmark")
    (details,) = LiteRT(model_content=data).get_input_details()
    (value,) = random_inputs([details], 3)
    expected = run(allocated(LiteRT, data, **BUILTIN))
    released = allocated(Interpreter, data, inputs="release", **BUILTIN)
    view = released.tensor(details["index"])
    for _ in range(2):
        view()[...] = value
        released.invoke()
        assert same([released.get_tensor(d["index"]) for d in released.get_output_details()], expected)
    with pytest.raises(RuntimeBindError, match="was not set since its memory was used"):
        released.invoke()


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


def test_views_outlive_the_interpreter() -> None:
    bound = allocated(Interpreter, small(), **BUILTIN)
    expected = run(bound)
    view = bound.tensor(4)()
    del bound
    gc.collect()
    np.testing.assert_array_equal(view, expected[0])
