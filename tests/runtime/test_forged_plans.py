"""Plans that only a forger makes, with claims that fit their records: every consumer refuses each, in one line."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import pytest
from click.testing import CliRunner, Result
from onnx import TensorProto
from onnx import helper as make

import edgemem
from edgemem import planfile
from edgemem.cli.main import main
from edgemem.errors import InvalidPlanError
from edgemem.formats.workspace import graph_under
from edgemem.plans import OffsetPlan, PlanSet, SharedObjectsPlan
from edgemem.records.problem import Problem, UsageRecord
from edgemem.runtime.onnxruntime.file import plans_in, with_plans
from edgemem.runtime.onnxruntime.split_model import split_model
from edgemem.strategy.bounds import lower_bounds, naive_size
from edgemem.targets import BUILT_IN, Target
from edgemem_converters.tflite.model import TfliteConverter
from tests.tflite_models import ADD_OPTIONS, M, O, S, T, build

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytest.importorskip("onnxruntime")

Row = tuple[UsageRecord, int]
INSIDE = replace(BUILT_IN["generic"], name="inside", inputs="until_last_use", outputs="to_end")


def edgemem_(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(a) for a in arguments])


def forged(planset: PlanSet, change: Callable[[list[Row]], list[Row]], *, alignment: int = 0) -> PlanSet:
    """The smallest offset plan with other records, and with bounds, sizes and flags that are right for those."""
    best = planset.best_offsets
    assert best is not None
    rows = change(list(zip(planset.problem.records, best.offsets.tolist(), strict=True)))
    problem = Problem([record for record, _ in rows], alignment=alignment or planset.problem.alignment)
    offsets = np.array([offset for _, offset in rows], np.int64)
    bounds, size = lower_bounds(problem), int((offsets + problem.size).max())
    plan = OffsetPlan(best.strategy, best.options, offsets, size, optimal=size == bounds.offsets)
    return replace(
        planset, problem=problem, offsets=(plan,), shared_objects=(), bounds=bounds, naive=naive_size(problem)
    )


def extra_record(rows: list[Row]) -> list[Row]:
    """D2: a record without tensors that has the name of one, at the end of the arena."""
    name = next(r.name for r, _ in rows if r.size)
    end = max(offset + r.size for r, offset in rows if isinstance(r.size, int))
    return [*rows, (UsageRecord(name, 0, 0, 0), -(-end // 64) * 64)]


def extra_overlapping_record(rows: list[Row]) -> list[Row]:
    name = next(r.name for r, _ in rows if r.size)
    return [*rows, (UsageRecord(name, 0, 0, 0), 0)]


def joined(one: str, other: str) -> Callable[[list[Row]], list[Row]]:
    """Both tensors in one record, as if the operator between them worked in place."""

    def change(rows: list[Row]) -> list[Row]:
        named = {r.name: r for r, _ in rows}
        a, b = named[one], named[other]
        size = max(int(str(a.size)), int(str(b.size)))
        both = replace(a, last_op=b.last_op, size=size, tensors=(*a.tensors, *b.tensors))
        kept = [row for row in rows if row[0].name not in (one, other)]
        end = max((offset + int(str(r.size)) for r, offset in kept), default=0)
        return [*kept, (both, -(-end // 64) * 64)]

    return change


def one_byte_less(name: str) -> Callable[[list[Row]], list[Row]]:
    return lambda rows: [(replace(r, size=int(str(r.size)) - 1) if r.name == name else r, at) for r, at in rows]


def unread_input_on_another(rows: list[Row]) -> list[Row]:
    """The input that nothing reads is said to be needed later, so that the sweep does not see the two together."""
    at = next(offset for r, offset in rows if r.name == "x")
    return [(replace(r, first_op=2, last_op=2), at) if r.name == "unread" else (r, offset) for r, offset in rows]


def network(path: Path) -> Path:
    """x -> Softmax -> s -> Cast -> wide -> Cast -> narrow -> Softmax -> y; nothing reads the input `unread`."""
    nodes = [
        make.make_node("Softmax", ["x"], ["s"]),
        make.make_node("Cast", ["s"], ["wide"], to=TensorProto.DOUBLE),
        make.make_node("Cast", ["wide"], ["narrow"], to=TensorProto.FLOAT),
        make.make_node("Softmax", ["narrow"], ["y"]),
    ]
    form = [2, 24]
    inputs = [make.make_tensor_value_info(name, TensorProto.FLOAT, form) for name in ("x", "unread")]
    outputs = [make.make_tensor_value_info("y", TensorProto.FLOAT, form)]
    model = make.make_model(
        make.make_graph(nodes, "g", inputs, outputs), opset_imports=[make.make_opsetid("", 17)], ir_version=9
    )
    onnx.save(model, path)
    return path


def _onnx_file(path: Path, target: Target, change: Callable[[PlanSet], PlanSet]) -> Path:
    network(path)
    planset = edgemem.plan(path, target=target)
    path.write_bytes(with_plans(path.read_bytes(), (planset,)))
    split_model(path)  # the honest plan runs
    path.write_bytes(with_plans(path.read_bytes(), (change(planset),)))
    return path


@pytest.mark.parametrize(
    ("target", "change"),
    [
        (BUILT_IN["generic"], lambda p: forged(p, extra_record)),
        (BUILT_IN["generic"], lambda p: forged(p, extra_overlapping_record)),
        (BUILT_IN["generic"], lambda p: forged(p, joined("s", "wide"))),
        (BUILT_IN["generic"], lambda p: forged(p, joined("wide", "narrow"))),
        (BUILT_IN["generic"], lambda p: forged(p, one_byte_less("wide"))),
        (BUILT_IN["generic"], lambda p: forged(p, lambda rows: rows, alignment=1)),
        (INSIDE, lambda p: forged(p, unread_input_on_another)),
    ],
)
def test_a_forged_plan_of_an_onnx_graph(target: Target, change: Callable[[PlanSet], PlanSet], tmp_path: Path) -> None:
    path = _onnx_file(tmp_path / "m.onnx", target, change)
    assert edgemem.verify(path)
    (bad,) = plans_in(path.read_bytes())
    with pytest.raises(InvalidPlanError):
        edgemem.save(path, bad, tmp_path / "out.onnx")
    with pytest.raises(InvalidPlanError):
        split_model(path)
    with pytest.raises(InvalidPlanError):
        split_model(path, bad)
    refused_by_the_command_line(path, tmp_path, ("run", "--executor", "io-binding"))


def refused_by_the_command_line(path: Path, folder: Path, *runs: tuple[str, ...]) -> None:
    result = edgemem_("verify", path)
    assert result.exit_code == 4, result.output
    assert ": right" not in result.output
    assert edgemem_("verify", "--run", path).exit_code == 4
    out = folder / "out"
    commands: tuple[tuple[str, ...], ...] = (("show",), ("export", "-o", str(out), "-f", "c-header"), *runs)
    for command in commands:
        result = edgemem_(*command, path)
        assert result.exit_code == 4, (command, result.output)
        assert result.output.count("\n") == 1, result.output
        assert "refused" in result.output
    assert not out.exists()


# --- TFLite -------------------------------------------------------------------------------------------------------


def tflite_network(dtype: str = "float32") -> bytes:
    """t0 -> TANH -> t1 -> TANH -> t2; t1 + t2 -> t3."""
    tensors = [T(f"t{k}", dtype, (1, 4, 4, 8)) for k in range(4)]
    ops = [O("TANH", (k,), (k + 1,)) for k in range(2)] + [O("ADD", (1, 2), (3,), ADD_OPTIONS)]
    return build(M([S(tensors, ops, (0,), (3,))]))


def _tflite_file(path: Path, data: bytes, planset: PlanSet) -> Path:
    model = TfliteConverter.from_bytes(data)
    path.write_bytes(model.with_plan(planfile.encode(planset), planset).content())
    return path


@pytest.mark.parametrize(
    "change",
    [
        lambda p: forged(p, extra_record),
        lambda p: forged(p, one_byte_less("t1")),
        lambda p: forged(p, lambda rows: [(r, 0) for r, _ in rows if r.name != "t1"]),
    ],
)
def test_a_forged_plan_for_tflite_micro(change: Callable[[PlanSet], PlanSet], tmp_path: Path) -> None:
    pytest.importorskip("tflite_micro")
    data = tflite_network()
    path = _tflite_file(tmp_path / "m.tflite", data, change(edgemem.plan(TfliteConverter.from_bytes(data))))
    refused_by_the_command_line(path, tmp_path, ("run", "--runtime", "tflm"), ("size", "--runtime", "tflm"))


def test_four_bits_are_a_byte_in_tflite_micro(tmp_path: Path) -> None:
    data = tflite_network("int4")
    honest = edgemem.plan(TfliteConverter.from_bytes(data))
    assert {r.size for r in honest.problem.records} == {128}
    halved = forged(honest, lambda rows: [(replace(r, size=64), at) for r, at in rows])
    refused_by_the_command_line(_tflite_file(tmp_path / "m.tflite", data, halved), tmp_path)


def _without(rows: list[Row], at: int) -> list[Row]:
    scratch = [k for k, (r, _) in enumerate(rows) if r.kind == "scratch"]
    return [row for k, row in enumerate(rows) if k != scratch[at]]


def _workspace(**changes: Any) -> Callable[[list[Row]], list[Row]]:
    def change(rows: list[Row]) -> list[Row]:
        k = next(k for k, (r, _) in enumerate(rows) if r.kind == "scratch")
        moved = {name: value(rows[k][0]) for name, value in changes.items()}
        return [*rows[:k], (replace(rows[k][0], **moved), rows[k][1]), *rows[k + 1 :]]

    return change


@pytest.mark.full
@pytest.mark.parametrize(
    "change",
    [
        lambda rows: _without(rows, 0),
        _workspace(size=lambda r: r.size - 64),
        _workspace(first_op=lambda r: r.first_op + 1, last_op=lambda r: r.last_op + 1),
    ],
)
def test_forged_workspace_of_litert(change: Callable[[list[Row]], list[Row]], tmp_path: Path) -> None:
    litert = pytest.importorskip("ai_edge_litert.interpreter")
    # A convolution whose builtin kernel unfolds its input.
    weights = np.ones((4, 3, 3, 4), np.float32).tobytes()
    tensors = [
        T("x", "float32", (1, 6, 6, 4)),
        T("w", "float32", (4, 3, 3, 4), weights),
        T("b", "float32", (4,), np.zeros(4, np.float32).tobytes()),
        T("c", "float32", (1, 6, 6, 4)),
        T("y", "float32", (1, 6, 6, 4)),
    ]
    ops = [O("CONV_2D", (0, 1, 2), (3,), (1, (0, 1, 1))), O("TANH", (3,), (4,))]
    data = build(M([S(tensors, ops, (0,), (4,))]))
    model = TfliteConverter.from_bytes(data)
    if not any(op.scratch for op in graph_under(model, BUILT_IN["litert"]).ops):
        pytest.fail("the model is to have workspace")
    honest = edgemem.plan(model, target="litert")
    assert edgemem.verify(honest, model) == ()
    path = _tflite_file(tmp_path / "m.tflite", data, forged(honest, change))
    refused_by_the_command_line(path, tmp_path, ("run", "--runtime", "litert"), ("size", "--runtime", "litert"))
    kernels = litert.OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    interpreter = edgemem.Interpreter(str(path), experimental_op_resolver_type=kernels)
    interpreter.allocate_tensors()
    with pytest.raises(InvalidPlanError):
        _ = interpreter.memory


def test_a_texture_in_the_wrong_form(tmp_path: Path) -> None:
    path = tmp_path / "m.tflite"
    path.write_bytes(tflite_network())
    honest = edgemem.plan(path, target="gpu-texture")
    assert {r.size for r in honest.problem.records} == {(4, 8)}
    problem = Problem([replace(r, size=(8, 4)) for r in honest.problem.records])
    best = honest.best_shared_objects
    assert best is not None
    plan = SharedObjectsPlan("hand", {}, best.assignment, ((8, 4),) * len(best.objects), best.size, best.optimal)
    _tflite_file(path, path.read_bytes(), replace(honest, problem=problem, shared_objects=(plan,)))
    refused_by_the_command_line(path, tmp_path)
