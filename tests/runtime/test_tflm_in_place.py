"""Results in the place of an input: TensorFlow Lite Micro's reference kernels give the same bits, and are named."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from edgemem import api
from edgemem.formats.offline_allocation import micro_offsets, micro_refusal
from edgemem.model.aliasing import RULES
from edgemem.planning.micro_offsets import plan_of_offsets
from edgemem.proof import verify_planset
from edgemem.targets import BUILT_IN
from edgemem_converters.tflite.model import TfliteConverter
from tests.tflite_models import M, O, S, T, build

pytest.importorskip("tflite_micro")

from edgemem.runtime.tflm.execution import execute

RULE = RULES["elementwise"]
SHAPE = (1, 7, 11, 3)  # no multiple of a vector's width
LOGICAL = ("LOGICAL_AND", "LOGICAL_OR", "LOGICAL_NOT")
# Type of the builtin options of the operators that cannot do without, and their fields.
OPTIONS = {"LEAKY_RELU": (75, ()), "ADD": (11, (0,)), "SUB": (28, (0,)), "MUL": (21, (0,)), "DIV": (29, (0,))}
UNKNOWN = {"BITCAST", "RELU_0_TO_1", "RELU_N1_TO_1"}  # it has no such operators
OPS = sorted(op for op in (*RULE.in_place, *RULE.views) if op.isupper() and op not in UNKNOWN)


def chains(cases: list[tuple[str, int]]) -> bytes:
    """For each operator y = ABS(op(ABS(x), ...)), where the operand at the position dies in it."""
    rng = np.random.default_rng(1)
    count = int(np.prod(SHAPE))
    tensors = [T("x", "float32", SHAPE), T("p", "bool", SHAPE)]
    ops, outputs = [], []

    def constant(name: str, kind: str, shape: tuple[int, ...], data: bytes) -> int:
        tensors.append(T(name, kind, shape, data))
        return len(tensors) - 1

    for k, (op, position) in enumerate(cases):
        kind, around, start = ("bool", "LOGICAL_NOT", 1) if op in LOGICAL else ("float32", "ABS", 0)
        shape = {"RESHAPE": (1, 77, 3), "SQUEEZE": SHAPE[1:], "EXPAND_DIMS": (1, *SHAPE)}.get(op, SHAPE)
        a = len(tensors)
        tensors += [T(f"a{k}", kind, SHAPE), T(f"b{k}", kind, shape), T(f"y{k}", kind, shape)]
        operands: tuple[int, ...] = (a,)
        if op == "PRELU":
            operands = (a, constant(f"w{k}", kind, SHAPE[1:], rng.random(count).astype("f4").tobytes()))
        elif op == "EXPAND_DIMS":
            operands = (a, constant(f"w{k}", "int32", (1,), np.zeros(1, "<i4").tobytes()))
        elif op == "RESHAPE":
            operands = (a, constant(f"w{k}", "int32", (3,), np.array(shape, "<i4").tobytes()))
        elif RULE.in_place.get(op) == (0, 1):
            values = rng.random(count)
            data = (values < 0.5).tobytes() if kind == "bool" else values.astype("f4").tobytes()
            w = constant(f"w{k}", kind, SHAPE, data)
            operands = (a, w) if position == 0 else (w, a)
        ops += [O(around, (start,), (a,)), O(op, operands, (a + 1,), OPTIONS.get(op)), O(around, (a + 1,), (a + 2,))]
        outputs.append(a + 2)
    return build(M([S(tensors, ops, (0, 1), tuple(outputs))]))


@pytest.mark.full
def test_in_place() -> None:
    cases = [(op, p) for op in OPS for p in RULE.in_place.get(op, (0,))]
    assert len(cases) > 40
    model = TfliteConverter.from_bytes(chains(cases))
    graph = model.graph()
    rules = replace(BUILT_IN["tflm"], aliasing="elementwise")
    planset = api.plan(model, target=rules, strategy="offsets/greedy_by_size")
    assert micro_refusal(planset) is not None  # no kernel profile is named
    offsets = micro_offsets(planset)
    for k, case in enumerate(cases):
        assert offsets[f"a{k}"] == offsets[f"b{k}"], case
    assert verify_planset(plan_of_offsets(graph, offsets), graph)
    assert verify_planset(plan_of_offsets(graph, offsets, "tflm-reference"), graph) == ()
    rng = np.random.default_rng(2)
    values = [rng.uniform(0.05, 0.95, SHAPE).astype("f4"), rng.random(SHAPE) < 0.5]
    own = execute(model.content(), values, outputs=len(cases))
    # The offsets alone, as somebody else could have written them.
    bare = model.with_offsets(replace(planset, target=BUILT_IN["tflm"]))
    ours = execute(bare.content(), values, outputs=len(cases))
    different = [
        case
        for case, one, other in zip(cases, ours.outputs, own.outputs, strict=True)
        if one.tobytes() != other.tobytes()
    ]
    assert not different
    assert ours.head <= own.head


@pytest.mark.full
def test_without_a_profile_only_views_are_in_one_place() -> None:
    """Whichever library of kernels a model runs on: a view's bytes stay where they are."""
    cases = [(op, p) for op in OPS for p in RULE.in_place.get(op, (0,))]
    model = TfliteConverter.from_bytes(chains(cases))
    planset = api.plan(model, target="tflm", strategy="offsets/greedy_by_size")
    best = planset.best_offsets
    assert best is not None
    assert planset.kernels == ""
    ends = best.offsets + planset.problem.size
    place = {name: k for k, record in enumerate(planset.problem.records) for name in record.tensors}
    for k, (op, _) in enumerate(cases):
        i, j = place[f"a{k}"], place[f"b{k}"]
        assert (i == j) is (op in RULE.views), op
        assert i == j or best.offsets[i] >= ends[j] or best.offsets[j] >= ends[i], op
    rng = np.random.default_rng(3)
    values = [rng.uniform(0.05, 0.95, SHAPE).astype("f4"), rng.random(SHAPE) < 0.5]
    own = execute(model.content(), values, outputs=len(cases))
    ours = execute(model.with_plan(b"plan", planset).content(), values, outputs=len(cases))
    assert [o.tobytes() for o in ours.outputs] == [o.tobytes() for o in own.outputs]


def test_a_plan_for_a_profile_has_results_in_place() -> None:
    cases = [(op, p) for op in OPS for p in RULE.in_place.get(op, ())]
    model = TfliteConverter.from_bytes(chains(cases))
    planset = api.plan(model, target=replace(BUILT_IN["tflm"], kernels="tflm-reference"), strategy="offsets/search")
    assert planset.problem.overlap is not None
    names = planset.problem.names
    allowed = {(names[i], names[j]) for i, j, distance in planset.problem.overlap.tolist() if distance == 0}
    assert {(f"a{k}", f"b{k}") for k in range(len(cases))} <= allowed
