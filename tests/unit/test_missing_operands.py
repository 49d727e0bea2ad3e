"""Operators without results, such as ASSIGN_VARIABLE, and those that lack inputs are planned or refused."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

import edgemem
from edgemem.cli.main import main
from edgemem.errors import EdgememError
from edgemem.targets import BUILT_IN
from tests.tflite_models import M, O, S, T, build

if TYPE_CHECKING:
    from pathlib import Path

PROFILES = ("none", "cmsis-nn-dsp", "cmsis-nn-mve", "esp-nn-esp32s3")
CONV_OPTIONS = (1, (0, 1, 1, 0, 1, 1))


def with_variable() -> bytes:
    """A convolution that an operator keeps the result of, with one that reads it beside."""
    weights = bytes(16 * 3 * 3 * 8)
    tensors = [
        T("x", "int8", (1, 8, 8, 8), scales=1),
        T("handle", "resource", ()),
        T("w", "int8", (16, 3, 3, 8), data=weights, scales=16),
        T("a", "int8", (1, 8, 8, 16), scales=1),
        T("y", "int8", (1, 8, 8, 16), scales=1),
    ]
    ops = [
        O("VAR_HANDLE", (), (1,), shared_name="kept"),
        O("ASSIGN_VARIABLE", (1, 0), ()),
        O("CONV_2D", (0, 2), (3,), CONV_OPTIONS),
        O("RELU", (3,), (4,)),
    ]
    return build(M([S(tensors, ops, (0,), (4,))]))


@pytest.mark.parametrize("kernels", PROFILES)
def test_a_model_with_variables_is_planned_for_every_profile(kernels: str, tmp_path: Path) -> None:
    path = tmp_path / "variables.tflite"
    path.write_bytes(with_variable())
    best = edgemem.plan(path, target=BUILT_IN["tflm"].changed(kernels=kernels)).best_offsets
    assert best is not None
    assert best.size >= 1024  # of the largest tensor


def test_a_model_with_variables_runs_in_parts(tmp_path: Path) -> None:
    path = tmp_path / "variables.tflite"
    path.write_bytes(with_variable())
    chosen = edgemem.shrink(path, target="tflm", steps="split=2:3:2/3").chosen
    assert chosen.operators == 7  # two convolutions, two RELUs and what joins them beside the two of the variable
    assert chosen.text == "split=2:3:2/3"


@pytest.mark.parametrize("count", [0, 1, 2, 3])
@pytest.mark.parametrize("results", [0, 1])
@pytest.mark.parametrize(
    "kind",
    [
        *("BATCH_MATMUL", "CONV_2D", "DEPTHWISE_CONV_2D", "FILL", "FULLY_CONNECTED", "MEAN", "MIRROR_PAD", "SOFTMAX"),
        *("SVDF", "TRANSPOSE_CONV", "UNIDIRECTIONAL_SEQUENCE_LSTM"),
    ],
)
def test_operators_that_lack_operands(kind: str, results: int, count: int, tmp_path: Path) -> None:
    tensors = [
        T("x", "int8", (1, 4, 4, 4), scales=1),
        *(T(f"i{k}", "int8", (4, 2, 2, 4), data=bytes(64), scales=1) for k in (1, 2)),
        *(T(name, "int8", (1, 4, 4, 4), scales=1) for name in "yz"),
    ]
    ops = [O(kind, tuple(range(count)), (3,) * results), O("RELU", (3 if results else 0,), (4,))]
    path = tmp_path / "model.tflite"
    path.write_bytes(build(M([S(tensors, ops, (0,), (4,))])))
    for kernels in PROFILES:
        with suppress(EdgememError):
            edgemem.plan(path, strategy="offsets/greedy_by_size", target=BUILT_IN["tflm"].changed(kernels=kernels))


@pytest.mark.parametrize(
    ("kind", "given", "made"),
    [
        ("SPACE_TO_BATCH_ND", (1, 8, 4), (1, 4, 4)),
        ("BATCH_TO_SPACE_ND", (1, 4, 4), (1, 8, 4)),
        ("MAX_POOL_2D", (2, 4, 4, 4), (1, 4, 4, 4)),
        ("RELU", (1, 8, 4), (1, 4, 4)),
    ],
)
def test_shapes_that_no_operator_makes_are_told(
    kind: str, given: tuple[int, ...], made: tuple[int, ...], tmp_path: Path
) -> None:
    """TensorFlow Lite Micro takes them from the file, and writes outside the result or leaves a part of it out."""
    more = [T("b", "int32", (1,), data=bytes((2, 0, 0, 0))), T("p", "int32", (1, 2), data=bytes(8))]
    tensors = [T("x", "int8", given, scales=1), T("y", "int8", made, scales=1), *more]
    inputs = (0, 2, 3) if "BATCH" in kind else (0,)
    path, planned = tmp_path / "model.tflite", tmp_path / "planned.tflite"
    path.write_bytes(build(M([S(tensors, [O(kind, inputs, (1,))], (0,), (1,))])))
    done = CliRunner().invoke(main, ["plan", str(path), "-o", str(planned)])
    assert f"which {kind} does not make of" in " ".join(done.output.split())
    assert "runs as planned in TensorFlow Lite Micro" not in done.output
