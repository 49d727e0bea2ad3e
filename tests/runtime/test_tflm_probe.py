"""The prober, against the TensorFlow Lite Micro that is installed."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from edgemem.errors import MissingDependencyError, ModelError, RuntimeBindError, UnsupportedError
from edgemem.formats import OneOperator, OperandValue, open_bytes, write_operator
from edgemem.model.overlap import distance
from edgemem.runtime.tflm import execution as tflm
from edgemem.runtime.tflm import probe as probing
from edgemem.runtime.tflm.probe import ProbeResult, probe
from edgemem.runtime.tflm.probe_cases import ProbeCase, probe_cases
from tests.runtime.test_cli_tflite import edgemem

if TYPE_CHECKING:
    from collections.abc import Sequence

needs_tflm = pytest.mark.skipif(not tflm.is_installed(), reason="tflite-micro is not installed")
pytest.importorskip("ai_edge_litert")

# Where the table is exact: one element below the distance, the output differs.
EXACT = (
    *("convolution 3x3", "convolution 3x3, stride 2", "convolution 1x1, more channels", "convolution 3x3, two groups"),
    *("depthwise 3x3", "depthwise 3x3, multiplier 2", "max_pool_2d 3x3", "average_pool_2d 3x3", "relu", "prelu"),
    *("add of a constant a channel", "padding of rows and columns", "padding of channels", "slice of rows"),
    *("slice of columns", "slice of channels", "resize_bilinear", "fully connected"),
)


def chosen(dtype: str, names: Sequence[str]) -> list[ProbeCase]:
    found = [case for case in probe_cases(dtype) if case.name in names]
    assert len(found) == len(names)
    return found


@pytest.mark.full
@needs_tflm
@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_the_table_is_exact_for_the_installed_kernels(dtype: str) -> None:
    found = {row.name: row for row in probe("tflm-reference", cases=chosen(dtype, EXACT))}
    assert {name: row.verdict for name, row in found.items()} == dict.fromkeys(EXACT, "exact")


@pytest.mark.full
@needs_tflm
def test_the_table_of_another_library_is_not_below_the_reference() -> None:
    names = ["convolution 1x1, fewer channels", "padding of channels", "max_pool_2d 3x3"]
    verdicts = {row.name: row.verdict for row in probe("cmsis-nn-mve", cases=chosen("int8", names))}
    assert verdicts == dict.fromkeys(names, "slack")
    assert {row.verdict for row in probe("none", cases=chosen("int8", names))} == {"disjoint"}


@needs_tflm
def test_a_wrong_claim_is_contradicted(monkeypatch: pytest.MonkeyPatch) -> None:
    right = distance
    monkeypatch.setattr(probing, "distance", lambda *a: (right(*a) or 0) - 1)
    (row,) = probe("tflm-reference", cases=chosen("int8", ["convolution 3x3"]))
    assert row.verdict == "contradicted"
    assert row.observed == (row.claimed or 0) + 1


@pytest.mark.full
@needs_tflm
def test_the_command_says_what_was_contradicted(monkeypatch: pytest.MonkeyPatch) -> None:
    cases = chosen("int8", ["relu", "softmax"])
    monkeypatch.setattr(probing, "probe_cases", lambda dtype: cases if dtype == "int8" else ())
    done = edgemem("probe")
    assert done.exit_code == 0, done.output
    assert "does not contradict tflm-reference: 2 cases, 1 exact, 1 disjoint" in done.output.splitlines()[0]
    monkeypatch.setattr(probing, "distance", lambda *_: -100)
    done = edgemem("probe", "--json")
    assert done.exit_code == 1
    answer = json.loads(done.output)
    assert answer["counts"] == {"contradicted": 2}
    assert [(row["claimed"], row["observed"]) for row in answer["cases"]] == [(-100, 0), (-100, 0)]
    assert "contradicts tflm-reference: 2 cases, 2 contradicted" in edgemem("probe").output.splitlines()[0]


@pytest.mark.full
@needs_tflm
def test_a_case_that_does_not_run_does_not_end_the_others() -> None:
    value = OperandValue((1, 4))
    unknown = ProbeCase("unknown", "float32", OneOperator("MATRIX_DIAG", (value,), value))
    relu = ProbeCase("relu", "float32", OneOperator("RELU", (value,), value))
    rows = probe("tflm-reference", cases=[unknown, relu])
    assert [row.verdict for row in rows] == ["not run", "exact"]
    assert "TensorFlow Lite Micro" in rows[0].reason
    with pytest.raises(RuntimeBindError, match="ran none of the 1 cases"):
        probe("tflm-reference", cases=[unknown])


def test_verdicts() -> None:
    row = ProbeResult("c", "float32", "RELU", 4, 4, 16, 4)
    claims = {8: "slack", 5: "slack", 4: "exact", 1: "exact", 0: "contradicted", None: "disjoint"}
    assert {claim: replace(row, claimed=claim).verdict for claim in claims} == claims
    assert replace(row, observed=None).verdict == "not run"


def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    from edgemem.commands.probe import probe_kernels

    with pytest.raises(ModelError, match=r"'none' claims nothing; there are tflm-reference, "):
        probe_kernels("none")
    monkeypatch.setattr(probing, "is_installed", lambda: False)
    with pytest.raises(MissingDependencyError, match="tflite-micro"):
        probe("tflm-reference")


@pytest.mark.full
def test_files_of_one_operator_are_read_back() -> None:
    for dtype in probing.DTYPES:
        for case in probe_cases(dtype):
            graph = open_bytes(write_operator(case.operator, (16, 32), ".tflite"), ".tflite").graph()
            (op,) = graph.ops
            assert op.type == case.operator.type
            assert graph.tensors[op.outputs[0]].shape == case.operator.output.shape
            assert [graph.tensors[i].shape for i in op.inputs] == [value.shape for value in case.operator.inputs]
            assert [graph.tensors[i].dtype for i in graph.inputs] == [dtype]


def test_an_operator_without_options_takes_none() -> None:
    value = OperandValue((1, 4))
    with pytest.raises(UnsupportedError, match="RELU is written without options"):
        write_operator(OneOperator("RELU", (value,), value, {"alpha": 1}), (0, 16), ".tflite")
    with pytest.raises(ModelError, match=r"not written as \.onnx"):
        write_operator(OneOperator("RELU", (value,), value), (0, 16), ".onnx")
