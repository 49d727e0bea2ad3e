"""TensorFlow Lite Micro runs the offsets in the file as they stand, once they are those of the plan beside them."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from edgemem import api, planfile
from edgemem.commands.run_tflite import run
from edgemem.commands.size import ModelSize, check_size, size_of
from edgemem.errors import BudgetExceededError, InvalidPlanError, ModelError, PlanError, RuntimeBindError
from edgemem.planning.micro_offsets import plan_of_offsets, verify_offsets
from edgemem.proof import verify_planset
from edgemem.runtime.tflm import execution as tflm
from edgemem.runtime.tflm.file_plan import file_plan
from edgemem.targets import BUILT_IN
from edgemem_converters.tflite.model import TfliteConverter
from tests.compilers import needs_compilers
from tests.runtime.test_cli_tflite import edgemem
from tests.runtime.test_interpreter import small
from tests.runtime.test_litert import fetched
from tests.tflite_models import ADD_OPTIONS, M, O, S, T, build

if TYPE_CHECKING:
    from pathlib import Path

    from edgemem.system.child_call import Message

needs_tflm = pytest.mark.skipif(not tflm.is_installed(), reason="tflite-micro is not installed")


def write(folder: Path, data: bytes, name: str = "m") -> Path:
    path = folder / f"{name}.tflite"
    path.write_bytes(data)
    return path


def with_plan(data: bytes, **options: Any) -> TfliteConverter:
    model = TfliteConverter.from_bytes(data)
    planset = api.plan(model, **options)
    return model.with_plan(planfile.encode(planset), planset)


def shifted(model: TfliteConverter, by: int) -> tuple[bytes, str]:
    """The file with one tensor's offset changed, and its name."""
    data = model.offline_metadata()
    assert data is not None
    numbers = np.frombuffer(data, "<i4").copy()
    at = 3 + int(np.flatnonzero(numbers[3:] >= 0)[1])
    numbers[at] += by
    places = {(0, i): t.name for i, t in enumerate(model.graph().tensors)}
    content = model.content()
    assert content.count(data) == 1
    return content.replace(data, numbers.tobytes()), places[0, at - 3]


@pytest.mark.full
@needs_tflm
@pytest.mark.parametrize("target", ["tflm", "litert"])
def test_every_consumer_names_the_plan_that_is_in_the_file(target: str, tmp_path: Path) -> None:
    if target == "litert":
        pytest.importorskip("ai_edge_litert")
    model = with_plan(fetched("mp_hand_recrop"), target=target, strategy="offsets/naive")
    path = write(tmp_path, model.content(), "mp_hand_recrop")
    size = {"tflm": "6.66 MiB", "litert": "8.85 MiB"}[target]
    line = rf"arena {size} (\d.\d+x of the lower bound), naive, plan of the graph under {target}, from the file"
    first, _, rest = line.partition("(")
    for args in (("run", path), ("run", "--runtime", target, "--compare", path)):
        done = edgemem(*args)
        assert done.exit_code == 0, done.output
        assert done.output.startswith(first)
        assert rest.partition("lower bound)")[2] in done.output
    done = edgemem("verify", "--run", path)
    assert done.exit_code == 0, done.output
    assert f"{target}: ran, {first}" in done.output
    assert rest.partition("lower bound)")[2] in done.output
    other = {"tflm": "litert", "litert": "tflm"}[target]
    assert f"{other}: not run: " in done.output
    assert f"edgemem plan --target {other} mp_hand_recrop.tflite" in done.output
    refused = edgemem("run", "--runtime", other, path)
    assert refused.exit_code == 1
    assert f"edgemem plan --target {other} mp_hand_recrop.tflite" in refused.output


def test_offsets_changed_in_one_place_are_refused_with_the_tensor_named(tmp_path: Path) -> None:
    wrong, name = shifted(with_plan(small(64)), 16)
    path = write(tmp_path, wrong)
    for args in (
        ("run", "--runtime", "tflm"),
        ("size",),
        ("verify",),
        ("verify", "--run"),
        ("export", "-f", "c-array"),
    ):
        done = edgemem(*args, path)
        assert done.exit_code == 4, (args, done.output)
        assert f"OfflineMemoryAllocation places {name!r}" in done.output, (args, done.output)
    (violation,) = api.verify(path)
    assert violation.records == (name,)


def test_wrong_offsets_without_a_plan_are_refused_too(tmp_path: Path) -> None:
    model = TfliteConverter.from_bytes(small(64))
    only = model.with_offsets(api.plan(model))
    path = write(tmp_path, only.content())
    assert api.verify(path) == ()
    wrong, _ = shifted(only, -16)
    path = write(tmp_path, wrong, "wrong")
    for args in (("run",), ("size",), ("verify",), ("verify", "--run")):
        done = edgemem(*args, path)
        assert done.exit_code == 4, (args, done.output)
    assert api.verify(path)


def test_negative_offsets_are_refused(tmp_path: Path) -> None:
    wrong, name = shifted(with_plan(small(64), strategy="offsets/naive"), -(1 << 20))
    with pytest.raises(Exception, match=f"places {name!r} at -"):
        size_of(write(tmp_path, wrong))


@pytest.mark.full
@needs_tflm
def test_offsets_alone_take_few_bytes_and_run_alike(tmp_path: Path) -> None:
    source = fetched("mp_hand_recrop")
    before = write(tmp_path, source, "source")
    out, only = tmp_path / "planned.tflite", tmp_path / "offsets.tflite"
    assert edgemem("plan", before, "-o", out).exit_code == 0
    done = edgemem("plan", before, "--offsets-only", "-o", only)
    assert done.exit_code == 0, done.output
    added = only.stat().st_size - before.stat().st_size
    # The numbers, and the tables of buffers and metadata that refer to them; a plan takes some kilobytes.
    assert added < 1280
    assert out.stat().st_size - before.stat().st_size > 8192
    assert edgemem("verify", only).exit_code == 0
    one, other = run(out, compare=True), run(only, compare=True)
    assert one.identical
    assert other.identical
    assert one.report.planned == other.report.planned
    assert other.report.origin is not None
    assert other.report.origin.source == "file"
    assert one.report.details == other.report.details
    assert edgemem("plan", before, "--offsets-only", "-t", "litert", "-o", only).exit_code == 4
    assert edgemem("plan", before, "--offsets-only").exit_code == 2


def test_plans_that_it_may_not_obey_leave_no_offsets() -> None:
    assert with_plan(small(), target="tflm").offline_metadata() is not None
    assert with_plan(small(), target=replace(BUILT_IN["tflm"], name="t", aliasing="litert")).offline_metadata() is None
    assert with_plan(small(), target=replace(BUILT_IN["tflm"], name="t", alignment=8)).offline_metadata() is None
    model = with_plan(small(), target="tflm")
    planset = api.plan(model, target=replace(BUILT_IN["tflm"], name="t", aliasing="litert"))
    assert model.with_plan(planfile.encode(planset), planset).offline_metadata() is None
    with pytest.raises(InvalidPlanError, match="alias rules 'litert'"):
        model.with_offsets(planset)


def test_a_plan_for_litert_leaves_no_offsets() -> None:
    pytest.importorskip("ai_edge_litert")
    assert with_plan(small(), target="litert").offline_metadata() is None


def test_offsets_of_no_plan_in_the_file_are_a_violation() -> None:
    model = TfliteConverter.from_bytes(small())
    planset = api.plan(model, target=replace(BUILT_IN["tflm"], name="t", aliasing="litert"))
    (violation,) = verify_offsets({"a": 0}, [planset])
    assert "alias rules 'litert'" in violation.message
    assert verify_offsets({}, [planset]) == ()


@pytest.mark.parametrize("offsets", [b"", None])
def test_offsets_that_place_nothing_leave_all_to_the_runtime(offsets: bytes | None) -> None:
    model = TfliteConverter.from_bytes(small())
    planset = api.plan(model, target=replace(BUILT_IN["tflm"], name="t", aliasing="litert"))
    if offsets is None:
        count = len(model.graph().tensors)
        offsets = np.array([1, 0, count, *[-1] * count], "<i4").tobytes()

    class Open(TfliteConverter):
        def offline_metadata(self) -> bytes | None:
            return offsets

    file = Open.from_bytes(model.with_plan(planfile.encode(planset), planset).content())
    plan = file_plan(file)
    assert plan.planset is None
    assert plan.refusal is not None
    assert "alias rules" in plan.refusal.why


def test_offsets_of_any_planner_are_proved() -> None:
    model = TfliteConverter.from_bytes(small(64))
    graph = model.graph()
    # x a b c y; w is a constant. b = a + w may lie on neither, for a is read again; c may lie on b.
    apart = {"x": 0, "a": 256, "b": 512, "c": 768, "y": 1024}
    for offsets in (apart, {"a": 0, "b": 256}):
        assert verify_planset(plan_of_offsets(graph, offsets), graph) == (), offsets
    for offsets in ({**apart, "c": 512}, {**apart, "y": 256}, {**apart, "c": 512, "y": 256}):
        assert verify_planset(plan_of_offsets(graph, offsets, "tflm-reference"), graph) == (), offsets
        assert verify_planset(plan_of_offsets(graph, offsets), graph), offsets
    for offsets in ({**apart, "b": 256}, {**apart, "c": 256}, {**apart, "b": 300}, {**apart, "c": 528}):
        for kernels in ("none", "tflm-reference"):
            assert verify_planset(plan_of_offsets(graph, offsets, kernels), graph), offsets


def test_a_variable_with_an_offset_is_in_the_arena_for_good() -> None:
    tensors = [T("x"), T("state", variable=True), T("a"), T("b"), T("y")]
    ops = [O("TANH", (0,), (2,)), O("ADD", (2, 1), (3,), ADD_OPTIONS), O("TANH", (3,), (4,))]
    graph = TfliteConverter.from_bytes(build(M([S(tensors, ops, (0,), (4,))]))).graph()
    apart = {"x": 0, "a": 16, "b": 32, "y": 48}
    assert verify_planset(plan_of_offsets(graph, apart), graph) == ()
    assert verify_planset(plan_of_offsets(graph, {**apart, "state": 64}), graph) == ()
    for at in apart.values():  # TensorFlow Lite Micro keeps it there from run to run
        assert verify_planset(plan_of_offsets(graph, {**apart, "state": at}), graph), at


def test_an_offset_of_what_has_no_known_size_is_refused() -> None:
    tensors = [T("x"), T("handle", "resource", ()), T("y")]
    ops = [O("VAR_HANDLE", (), (1,), (111, ()), "v"), O("TANH", (0,), (2,))]
    graph = TfliteConverter.from_bytes(build(M([S(tensors, ops, (0,), (2,))]))).graph()
    assert verify_planset(plan_of_offsets(graph, {"x": 0, "y": 16}), graph) == ()
    with pytest.raises(ModelError, match="places 'handle'"):
        plan_of_offsets(graph, {"x": 0, "y": 16, "handle": 0})


def test_two_entries_of_offsets_are_refused(tmp_path: Path) -> None:
    """TensorFlow Lite Micro reads the last one, and another reader the first."""
    tensors = [T(name) for name in "xay"]
    ops = [O("TANH", (k,), (k + 1,)) for k in range(2)]
    data = np.array([1, 0, 3, 0, 16, 0], "<i4").tobytes()
    metadata = {"OfflineMemoryAllocation": data, "OfflineMemoryAllocatioM": bytes(len(data))}
    forged = build(M([S(tensors, ops, (0,), (2,))], metadata)).replace(
        b"OfflineMemoryAllocatioM", b"OfflineMemoryAllocation"
    )
    path = write(tmp_path, forged)
    for command in (("verify",), ("show",), ("run", "--runtime", "tflm"), ("size",)):
        done = edgemem(*command, path)
        assert done.exit_code == 1, done.output
        assert "2 entries OfflineMemoryAllocation" in done.output


# --- size ------------------------------------------------------------------------------------------------------------


@pytest.mark.full
@needs_tflm
def test_size_tells_flash_and_ram(tmp_path: Path) -> None:
    path = write(tmp_path, with_plan(small(64)).content())
    done = edgemem("size", path)
    assert done.exit_code == 0, done.output
    assert done.output.startswith("arena ")
    made = size_of(path)
    assert made.file == path.stat().st_size
    assert made.weights == 64 * 4
    assert made.arena is not None
    assert made.activations is not None
    assert made.tail is not None
    assert made.arena >= made.activations + made.tail
    assert "from the file" in made.plan
    assert edgemem("size", "--budget", made.arena, path).exit_code == 0
    over = edgemem("size", "--budget", made.arena - 1, path)
    assert over.exit_code == 3
    assert f"{made.arena:,} bytes of RAM required" in over.output
    data = json.loads(edgemem("size", "--json", path).output)
    assert (data["ram"], data["tensors"]) == (made.arena, made.activations)


@pytest.mark.full
@needs_tflm
def test_size_fails_where_the_runtime_does_and_says_what_helps(tmp_path: Path) -> None:
    path = write(tmp_path, fetched("mp_face_detection_short"))
    done = edgemem("size", path)
    assert done.exit_code == 1
    assert "DEQUANTIZE" in done.output
    assert "shrink --steps fold" in done.output
    over = edgemem("size", "--budget", "1MiB", path)
    assert over.exit_code == 3  # its tensors alone are more
    assert edgemem("size", "--budget", "100MiB", path).exit_code == 1


@pytest.mark.full
@needs_tflm
def test_what_was_measured_is_kept_when_the_smallest_arena_is_not_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask = tflm._ask

    def failing(question: Message, timeout_s: float | None) -> Message:
        if question.data["smallest"]:
            raise RuntimeBindError("TensorFlow Lite Micro cannot run the model: it was ended by SIGSEGV")
        return ask(question, timeout_s)

    monkeypatch.setattr(tflm, "_ask", failing)
    path = write(tmp_path, with_plan(small(64)).content())
    made = size_of(path)
    assert made.arena is None
    assert made.tail is not None
    assert made.ram == (made.activations or 0) + made.tail
    assert "SIGSEGV" in made.reason
    done = edgemem("size", path)
    assert done.exit_code == 1
    assert "tail" in done.output


def test_a_budget_for_what_is_not_known() -> None:
    size = ModelSize("tflm", 100, 10, activations=1000, reason="tflite-micro is not installed")
    with pytest.raises(BudgetExceededError, match="at least 1,000 bytes"):
        check_size(size, 999)
    with pytest.raises(PlanError, match="not installed"):
        check_size(size, 2000)
    check_size(size, None)


@needs_tflm
def test_a_model_that_never_ends_is_ended() -> None:
    model = TfliteConverter.from_bytes(small())
    with pytest.raises(RuntimeBindError, match="did not end within"):
        tflm.execute(model.content(), tflm.input_values(model.graph()), outputs=1, timeout_s=0.01)


@pytest.mark.full
@needs_tflm
def test_inputs_are_not_zero_and_a_wrong_file_differs(tmp_path: Path) -> None:
    model = with_plan(small(64))
    assert all(value.any() for value in tflm.input_values(model.graph()))
    tensors = [T("x", "int32", (1, 4)), T("a", "int32", (1, 4)), T("y", "int32", (1, 4))]
    ops = [O("ADD", (0, 0), (1,), ADD_OPTIONS), O("ADD", (1, 1), (2,), ADD_OPTIONS)]
    path = write(tmp_path, build(M([S(tensors, ops, (0,), (2,))])))
    outcome = run(path, runtime="tflm", compare=True)
    assert outcome.identical
    assert outcome.outputs["y"].any()
    assert outcome.report.origin is None
    assert "placed" in outcome.report.reason


# --- firmware --------------------------------------------------------------------------------------------------------


@pytest.mark.full
@needs_tflm
@needs_compilers
def test_the_model_as_a_c_array_with_its_arena(tmp_path: Path) -> None:
    path = write(tmp_path, with_plan(small(64)).content(), "3odd-name")
    source = tmp_path / "model.c"
    assert edgemem("export", "-f", "c-array", path, "-o", source).exit_code == 0
    main = """
    #include <stdio.h>
    int main(void) {
      fwrite(_3odd_name, 1, _3odd_name_len, stdout);
      return sizeof(_3odd_name_tensor_arena) == _3ODD_NAME_TENSOR_ARENA_SIZE ? 0 : 1;
    }
    """
    program = tmp_path / "main.c"
    program.write_text(source.read_text() + main)
    arena = size_of(path).arena
    assert f"TENSOR_ARENA_SIZE {arena}" in source.read_text()
    for compiler in (["gcc", "-std=c11"], ["g++", "-std=c++17", "-x", "c++"]):
        done = subprocess.run(
            [*compiler, "-Wall", "-Wextra", "-Werror", str(program), "-o", str(tmp_path / "m")], check=False
        )
        assert done.returncode == 0
        ran = subprocess.run([tmp_path / "m"], capture_output=True, check=True)
        inside = TfliteConverter.from_bytes(ran.stdout)
        assert inside.plan() is None  # nothing on the device reads it
        assert inside.offline() == TfliteConverter.from_bytes(path.read_bytes()).offline()
