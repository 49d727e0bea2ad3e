"""What TensorFlow Lite Micro does with memory beside planned tensors, seen in its own runs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from edgemem import api
from edgemem.errors import InvalidPlanError, RuntimeBindError, UnsupportedError
from edgemem.proof import verify_planset
from edgemem.records.micro_planner import predicted_head
from edgemem.runtime.tflm.execution import execute
from edgemem.targets import BUILT_IN
from edgemem_converters.tflite.model import TfliteConverter
from tests.tflite_models import ADD_OPTIONS, IF, M, O, S, T, build, up16

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from edgemem.plans import PlanSet

pytest.importorskip("tflite_micro")

TFLM = BUILT_IN["tflm"]
COUNT = 1000


def numbers(*values: int) -> bytes:
    return np.array(values, "<i4").tobytes()


def narrow(dtype: str) -> TfliteConverter:
    """x -> RESHAPE -> a -> RESHAPE -> y, where a and y are both given back.

    They are in a branch, because Python can give TensorFlow Lite Micro no values of these types: what a branch takes
    and gives is copied byte by byte, whatever the types.
    """
    shapes = [T("s", "int32", (1,), numbers(COUNT)), T("t", "int32", (2,), numbers(1, COUNT))]
    tensors = [T("i", dtype, (1, COUNT)), T("a", dtype, (COUNT,)), T("o", dtype, (1, COUNT)), *shapes]
    arm = S(tensors, [O("RESHAPE", (0, 3), (1,)), O("RESHAPE", (1, 4), (2,))], (0,), (1, 2), "arm")
    outer = [T("c", "bool", (1,)), T("x", "int8", (1, COUNT)), T("y", "int8", (COUNT,)), T("z", "int8", (1, COUNT))]
    return TfliteConverter.from_bytes(
        build(M([S(outer, [O("IF", (0, 1), (2, 3), (IF, (1, 1)))], (0, 1), (2, 3)), arm]))
    )


def feeds() -> list[NDArray[Any]]:
    return [np.array([True]), np.random.default_rng(0).integers(-8, 8, (1, COUNT)).astype("i1")]


def planned(model: TfliteConverter, **rules: str) -> PlanSet:
    target = replace(TFLM, name="rules", **rules)  # type: ignore[arg-type]
    return api.plan(model, target=target, strategy="offsets/greedy_by_size")


@pytest.mark.full
def test_int4_takes_a_byte_an_element() -> None:
    model = narrow("int4")
    own = execute(model.content(), feeds(), outputs=2)
    assert own.head == predicted_head(model.graph(), {}).total == 6 * up16(COUNT) + 16
    planset = planned(model, sub_byte="unpacked")
    ours = execute(model.with_plan(b"", planset).content(), feeds(), outputs=2)
    assert ours.head == up16(planset.best_offsets.size) <= own.head  # type: ignore[union-attr]
    for one, other in zip(own.outputs, ours.outputs, strict=True):
        assert one.tobytes() == other.tobytes() == feeds()[1].tobytes()


@pytest.mark.full
def test_int4_that_is_packed_in_the_plan_is_overwritten() -> None:
    """Were the plan to count half a byte for each, the two results would lie on each other."""
    model = narrow("int4")
    planset = planned(model, sub_byte="packed")
    with pytest.raises(InvalidPlanError, match=r"of int4 is packed in the plan.*--target tflm"):
        model.with_plan(b"", planset)
    forged = replace(planset, target=replace(TFLM, name="rules"))
    assert verify_planset(forged, model.graph())
    ran = execute(model.with_offsets(forged).content(), feeds(), outputs=2)
    assert any(output.tobytes() != feeds()[1].tobytes() for output in ran.outputs)


@pytest.mark.full
@pytest.mark.parametrize("dtype", ["int2", "uint4"])
def test_other_narrow_types_are_unknown_there(dtype: str) -> None:
    with pytest.raises(RuntimeBindError, match="cannot run the model"):
        execute(narrow(dtype).content(), feeds(), outputs=2)


@pytest.mark.full
def test_litert_packs() -> None:
    pytest.importorskip("ai_edge_litert")
    from edgemem.runtime.litert.probe_child import probe

    for dtype, size in (("int4", 500), ("uint4", 500), ("int2", 250)):
        tensors = [T("x", dtype, (1, COUNT)), T("y", dtype, (COUNT,)), T("s", "int32", (1,), numbers(COUNT))]
        model = TfliteConverter.from_bytes(build(M([S(tensors, [O("RESHAPE", (0, 2), (1,))], (0,), (1,))])))
        assert [t.size for t in probe(model.content(), {}).tensors[:2]] == [size] * 2
        records = api.plan(model, target="litert", strategy="offsets/naive").problem.records
        assert {r.size for r in records if r.kind != "scratch"} == {size}


def held(in_body: bool) -> TfliteConverter:
    """NEG -> IF -> NEG, with a variable that is added in the branches, or in the main subgraph."""

    def arm(name: str) -> S:
        tensors = [T("i"), T("v", variable=in_body, data=None if in_body else bytes(16)), T("o")]
        return S(tensors, [O("ADD", (0, 1), (2,), ADD_OPTIONS)], (0,), (2,), name)

    tensors = [T("c", "bool", (1,)), T("x"), T("a"), T("b"), T("y"), T("w", variable=not in_body)]
    last = O("NEG", (3,), (4,)) if in_body else O("ADD", (3, 5), (4,), ADD_OPTIONS)
    ops = [O("NEG", (1,), (2,)), O("IF", (0, 2), (3,), (IF, (1, 2))), last]
    if in_body:
        del tensors[5]
    return TfliteConverter.from_bytes(build(M([S(tensors, ops, (0, 1), (4,)), arm("then"), arm("else")])))


@pytest.mark.full
def test_variables_are_kept_elsewhere() -> None:
    model = held(in_body=False)
    values = [np.array([True]), np.array([[1, 2, 3, 4]], "f4")]
    planset = api.plan(model)
    own = execute(model.content(), values, outputs=1, runs=2)
    ours = execute(model.with_plan(b"", planset).content(), values, outputs=1, runs=2)
    assert own.outputs[0].tobytes() == ours.outputs[0].tobytes()
    assert ours.head == up16(planset.best_offsets.size)  # type: ignore[union-attr]


def test_a_variable_in_a_body_would_have_no_memory() -> None:
    """Its offset is looked up among those of the main subgraph's tensors."""
    model = held(in_body=True)
    values = [np.array([True]), np.array([[1, 2, 3, 4]], "f4")]
    assert execute(model.content(), values, outputs=1).outputs[0].tolist() == [[1, 2, 3, 4]]
    planset = api.plan(model)
    with pytest.raises(UnsupportedError, match="variable 'v' of subgraph 1 no memory"):
        model.with_plan(b"", planset)


@pytest.mark.full
def test_what_the_offsets_leave_out_is_placed_around_them() -> None:
    """Also what nothing uses."""
    tensors = [T("x"), T("a"), T("y"), T("unused", shape=(1, 40)), T("other", shape=(1, 30))]
    ops = [O("NEG", (0,), (1,)), O("ABS", (1,), (2,))]
    model = TfliteConverter.from_bytes(build(M([S(tensors, ops, (0,), (2,))])))
    values = [np.array([[1, -2, 3, -4]], "f4")]
    planset = api.plan(model)
    planned_model = model.with_plan(b"", planset)
    own, ours = (execute(m.content(), values, outputs=1) for m in (model, planned_model))
    assert own.outputs[0].tobytes() == ours.outputs[0].tobytes()
    assert own.head == predicted_head(model.graph(), {}).total == up16(160) + up16(120)
    assert ours.head == predicted_head(model.graph(), planned_model.offline()).total == own.head


@pytest.mark.full
def test_weights_that_a_kernel_decompresses_in_every_run_are_placed_around_the_plan() -> None:
    """They count as constants, because LiteRT decompresses them once."""
    tensors = [T("x"), T("q", "int8", data=bytes([1, 2, 3, 4])), *(T(name) for name in "waby")]
    ops = [O("DEQUANTIZE", (1,), (2,)), O("NEG", (0,), (3,)), O("ABS", (3,), (4,)), O("ADD", (4, 2), (5,), ADD_OPTIONS)]
    model = TfliteConverter.from_bytes(build(M([S(tensors, ops, (0,), (5,))])))
    values = [np.array([[1, -2, 3, -4]], "f4")]
    planset = api.plan(model)
    planned_model = model.with_plan(b"", planset)
    own, ours = (execute(m.content(), values, outputs=1, runs=2) for m in (model, planned_model))
    assert own.outputs[0].tobytes() == ours.outputs[0].tobytes()
    assert own.head == predicted_head(model.graph(), {}).total == 48
    assert ours.head == predicted_head(model.graph(), planned_model.offline()).total == 48
    assert planset.best_offsets.size == 32  # type: ignore[union-attr]
