"""Plans keep what kernels write behind the workspace that they ask for, and behind results nothing is written.

The bytes are those that compiled kernels wrote between guard bytes (`tests/oracle/kernel_guard`): CMSIS-NN 99f736a63036
and 4ab83cc3cc98, ESP-NN d45b843ca5f8.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import edgemem
from edgemem.errors import UnsupportedError
from edgemem.formats import Model
from edgemem.planning.micro_arenas import micro_arenas
from edgemem.targets import BUILT_IN
from tests.tflite_models import M, O, S, T, build

if TYPE_CHECKING:
    from pathlib import Path

    from edgemem.plans import PlanSet

CMSIS = ("cmsis-nn-dsp", "cmsis-nn-mve")
TRANSPOSE_CONV, VALID = 49, 1


def transposed(given: tuple[int, ...], made: tuple[int, ...], kernel: tuple[int, int], stride: tuple[int, int]) -> S:
    """A transposed convolution of a tensor that is an output, too, as is its result."""
    (rows, columns), depth = kernel, given[3]
    weights = bytes(made[3] * rows * columns * depth)
    tensors = [
        T("x", "int8", given, scales=1),
        T("a", "int8", given, scales=1),
        T("shape", "int32", (4,), data=b"".join(size.to_bytes(4, "little") for size in made)),
        T("w", "int8", (made[3], rows, columns, depth), data=weights, scales=1),
        T("y", "int8", made, scales=1),
    ]
    options = (TRANSPOSE_CONV, (VALID, stride[1], stride[0]))
    return S(tensors, [O("ABS", (0,), (1,)), O("TRANSPOSE_CONV", (2, 3, 1), (4,), options)], (0,), (4, 1))


def planned(graph: S, kernels: str, tmp_path: Path) -> PlanSet:
    path = tmp_path / "model.tflite"
    path.write_bytes(build(M([graph])))
    return edgemem.plan(path, target=BUILT_IN["tflm"].changed(kernels=kernels))


def hit(planset: PlanSet, written: int) -> list[str]:
    """The tensors in use where a kernel writes so many bytes from the start of its workspace on, or the arena's end."""
    best, records = planset.best_offsets, planset.problem.records
    assert best is not None
    k = next(k for k, record in enumerate(records) if record.kind == "scratch")
    start, step = int(best.offsets[k]), records[k].first_op
    over = ["end"] if start + written > best.size else []
    return over + [
        record.name
        for record, offset in zip(records, best.offsets.tolist(), strict=True)
        if record.kind != "scratch"
        and record.first_op <= step <= record.last_op
        and offset < start + written
        and isinstance(record.size, int)
        and start < offset + record.size
    ]


@pytest.mark.parametrize("kernels", CMSIS)
@pytest.mark.parametrize(
    ("given", "made", "kernel", "stride", "written"),
    [
        ((2, 1, 9, 4), (2, 1, 17, 4), (1, 1), (1, 2), 288),  # asks for 272
        ((1, 2, 5, 3), (1, 8, 20, 4), (1, 3), (4, 4), 1280),  # asks for as much
        ((1, 2, 5, 3), (1, 2, 20, 4), (1, 3), (1, 4), 320),  # asks for 304
        ((1, 2, 2, 4), (1, 4, 8, 2), (2, 1), (2, 4), 128),  # asks for 96
    ],
)
def test_a_transposed_convolution_of_cmsis_nn(
    given: tuple[int, ...],
    made: tuple[int, ...],
    kernel: tuple[int, int],
    stride: tuple[int, int],
    written: int,
    kernels: str,
    tmp_path: Path,
) -> None:
    planset = planned(transposed(given, made, kernel, stride), kernels, tmp_path)
    assert hit(planset, written) == []


@pytest.mark.parametrize("kernels", CMSIS)
def test_a_result_with_fewer_rows_than_the_kernel_makes_is_refused(kernels: str, tmp_path: Path) -> None:
    """Compiled, it writes 28 bytes behind the 98 of the result."""
    graph = transposed((1, 3, 4, 16), (1, 7, 14, 1), (1, 3), (3, 3))
    with pytest.raises(UnsupportedError, match="writes 28 bytes behind its result"):
        planned(graph, kernels, tmp_path)
    assert planned(graph, "tflm-reference", tmp_path).best_offsets is not None


@pytest.mark.parametrize("kernels", ["esp-nn", "esp-nn-esp32s3", "esp-nn-esp32p4"])
def test_a_softmax_of_esp_nn_writes_a_row_where_it_asks_for_a_column(kernels: str, tmp_path: Path) -> None:
    """It asks for 4 bytes for each element of the second dimension, and writes as many of the last."""
    tensors = [T(name, "int8", (1, 2, 40), scales=1) for name in "xay"]
    graph = S(tensors, [O("ABS", (0,), (1,)), O("SOFTMAX", (1,), (2,))], (0,), (2, 1))
    planset = planned(graph, kernels, tmp_path)
    assert hit(planset, 160) == []


@pytest.mark.parametrize("kernels", CMSIS)
def test_the_tables_say_that_results_are_wrong_without_a_plan(kernels: str, tmp_path: Path) -> None:
    """TensorFlow Lite Micro's own planner puts the result behind the 272 bytes that the kernel asks for."""
    planset = planned(transposed((2, 1, 9, 4), (2, 1, 17, 4), (1, 1), (1, 2)), kernels, tmp_path)
    model = edgemem.load(tmp_path / "model.tflite")
    assert isinstance(model, Model)
    arenas = micro_arenas(model, planset)
    assert arenas is not None
    assert "without a plan results are wrong" in str(arenas)
    assert not arenas.is_larger
