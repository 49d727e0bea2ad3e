"""Runs compared operator by operator: right plans diverge nowhere, wrong ones where they are wrong."""

from __future__ import annotations

from dataclasses import replace

import pytest

pytest.importorskip("ai_edge_litert")

from edgemem import api
from edgemem.errors import InvalidPlanError
from edgemem.runtime.litert.comparison import compare_run
from edgemem_converters.tflite.model import TfliteConverter
from tests.runtime.test_interpreter import small
from tests.runtime.test_litert import fetched


@pytest.mark.parametrize(
    "name", ["mp_hand_recrop", "mp_iris_landmark", "mww_okay_nabu", "mp_face_detection_full_sparse"]
)
def test_a_right_plan_diverges_nowhere(name: str) -> None:
    for inputs in ("keep", "release"):
        report = compare_run(fetched(name), inputs=inputs)
        assert report.equal
        assert report.operators > 40


def test_the_first_operator_that_diverges_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    model = TfliteConverter.from_bytes(small())
    planset = api.plan(model, target="litert", strategy="offsets/naive")
    (plan,) = planset.offsets
    where = {n: i for i, r in enumerate(planset.problem.records) for n in r.tensors}
    assert compare_run(small(), plan=planset).equal
    offsets = plan.offsets.copy()
    offsets[where["c"]] = offsets[where["a"]]  # EXP writes over what SUB still reads
    wrong = replace(planset, offsets=(replace(plan, offsets=offsets),))
    with pytest.raises(InvalidPlanError):
        compare_run(small(), plan=wrong)
    monkeypatch.setattr("edgemem.proof.proved_plan.verify_planset", lambda *_: ())  # as if it were blind
    report = compare_run(small(), plan=wrong)
    assert not report.outputs_equal
    found = report.divergence
    assert found is not None
    assert (found.label, found.lost, found.by, found.by_op) == ("SUB_3", "a", "c", "EXP_2")
    assert str(found) == "SUB_3 computes another 'y': 'c' of EXP_2 lies on 'a'"


@pytest.mark.full
def test_a_workspace_on_an_input_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edgemem.proof.proved_plan.verify_planset", lambda *_: ())  # as if it were blind
    data = fetched("mp_hand_recrop")
    model = TfliteConverter.from_bytes(data)
    planset = api.plan(model, target="litert", strategy="offsets/greedy_by_size")
    (plan,) = planset.offsets
    records = planset.problem.records
    ends = {r.last_op: i for i, r in enumerate(records) if r.kind == "tensor"}
    found = 0
    for k, scratch in enumerate(records):
        if scratch.kind != "scratch" or scratch.first_op not in ends:
            continue
        victim = ends[scratch.first_op]
        offsets = plan.offsets.copy()
        offsets[k] = offsets[victim]
        report = compare_run(data, plan=replace(planset, offsets=(replace(plan, offsets=offsets),)))
        if report.divergence is None:
            continue  # this kernel reserves workspace that it does not use
        found += 1
        assert not report.outputs_equal
        assert report.divergence.op == scratch.first_op
        assert "scratch" in report.divergence.by
        assert report.divergence.lost in records[victim].tensors
    assert found
