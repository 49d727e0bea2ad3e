"""Custom operators: their workspace, what their kernels keep, and the methods that add them.

The figures are those of the installed TensorFlow Lite Micro, which runs the models.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from flatbuffers import flexbuffers

import edgemem
from edgemem.records.micro_arena import predicted_arena
from edgemem.records.micro_builds import INSTALLED
from edgemem.runtime.tflm.execution import execute, input_values
from edgemem.runtime.tflm.operators import micro_graph_refusal, resolver_calls
from edgemem_converters.tflite.model import TfliteConverter
from tests.tflite_models import M, O, S, T, build, floats

if TYPE_CHECKING:
    from pathlib import Path

pytest.importorskip("tflite_micro")

INT16 = 7  # TensorType


def options(values: dict[str, Any]) -> bytes:
    return bytes(flexbuffers.Dumps(values))


def spectrum(length: int, given: int) -> bytes:
    """A window, its spectrum, and the energy of each frequency, with the window as another output."""
    tensors = [
        T("x", "int16", (given,)),
        T("w", "int16", (given,), data=bytes(2 * given)),
        T("a", "int16", (given,)),
        T("b", "int16", (given,)),
        T("scale", "int32", ()),
        T("f", "int16", (length + 2,)),
        T("y", "uint32", (length // 2 + 1,)),
    ]
    ops = [
        O("SignalWindow", (0, 1), (2,), custom_options=options({"shift": 12})),
        O("SignalFftAutoScale", (2,), (3, 4)),
        O("SignalRfft", (3,), (5,), custom_options=options({"T": INT16, "fft_length": length})),
        O("SignalEnergy", (5,), (6,), custom_options=options({"end_index": length // 2, "start_index": 1})),
    ]
    return build(M([S(tensors, ops, (0,), (6, 4))]))


@pytest.mark.parametrize(("length", "given"), [(512, 480), (64, 64), (256, 160), (1024, 700)])
def test_the_arena_is_what_is_predicted(length: int, given: int) -> None:
    content = spectrum(length, given)
    graph = TfliteConverter.from_bytes(content).graph()
    run = execute(content, input_values(graph), outputs=2)
    arena = predicted_arena(graph, {}, INSTALLED)
    assert (arena.head.total, arena.tail) == (run.head, run.tail)


@pytest.mark.parametrize(("boxes", "most"), [(30, 5), (20, 40)])
def test_detections(boxes: int, most: int) -> None:
    numbers = {
        **dict.fromkeys(("x_scale", "y_scale", "h_scale", "w_scale"), 5.0),
        "max_detections": most,
        "max_classes_per_detection": 1,
        "detections_per_class": 3,
        "num_classes": 4,
        "nms_score_threshold": 0.1,
        "nms_iou_threshold": 0.5,
        "use_regular_nms": False,
    }
    tensors = [
        T("x", "float32", (1, boxes, 4)),
        T("p", "float32", (1, boxes, 5)),
        T("anchors", "float32", (boxes, 4), data=floats(*(0.5,) * 4 * boxes)),
        T("b", "float32", (1, most, 4)),
        *(T(name, "float32", (1, most)) for name in ("c", "s")),
        T("n", "float32", (1,)),
    ]
    op = O("TFLite_Detection_PostProcess", (0, 1, 2), (3, 4, 5, 6), custom_options=options(numbers))
    content = build(M([S(tensors, [op], (0, 1), (3, 4, 5, 6))]))
    graph = TfliteConverter.from_bytes(content).graph()
    run = execute(content, input_values(graph), outputs=4)
    arena = predicted_arena(graph, {}, INSTALLED)
    assert (arena.head.total, arena.tail) == (run.head, run.tail)


def test_a_plan_keeps_the_workspace_of_a_transform(tmp_path: Path) -> None:
    """The head is what is planned, and no larger than TensorFlow Lite Micro's own."""
    path, planned = tmp_path / "spectrum.tflite", tmp_path / "planned.tflite"
    path.write_bytes(spectrum(512, 480))
    edgemem.save(path, edgemem.plan(path), planned)
    graph = TfliteConverter.from_bytes(planned.read_bytes()).graph()
    heads = [execute(file.read_bytes(), input_values(graph), outputs=2).head for file in (path, planned)]
    assert heads[1] <= heads[0]


def test_methods_of_the_resolver() -> None:
    graph = TfliteConverter.from_bytes(spectrum(64, 64)).graph()
    assert micro_graph_refusal(graph) is None
    assert sorted(resolver_calls(graph).values()) == ["AddEnergy", "AddFftAutoScale", "AddRfft", "AddWindow"]


@pytest.mark.parametrize("count", [1, 3])
def test_decompressed_weights(count: int) -> None:
    """Indices of two bits into tables of four numbers. At most the tail is 16 bytes larger than it is."""
    header = bytes((0, 1, 0, 0, 1, 2, 4)).ljust(16, b"\0")
    tensors = [T("x", "int8", (1, 16), scales=1)]
    ops = []
    for k in range(count):
        at = len(tensors)
        tensors += [
            T(f"indices{k}", "uint8", (4,), data=bytes(4)),
            T(f"tables{k}", "uint8", (20,), data=header + bytes((1, 2, 3, 4))),
            T(f"w{k}", "int8", (1, 16), scales=1),
            T(f"y{k}", "int8", (1, 16), scales=1),
        ]
        ops += [
            O("TFLM_DECODE", (at, at + 1), (at + 2,)),
            O("ADD", (at - 1 if k else 0, at + 2), (at + 3,), (11, (0,))),
        ]
    content = build(M([S(tensors, ops, (0,), (len(tensors) - 1,))]))
    graph = TfliteConverter.from_bytes(content).graph()
    run = execute(content, input_values(graph), outputs=1)
    arena = predicted_arena(graph, {}, INSTALLED)
    assert arena.head.total == run.head
    assert 0 <= arena.tail - run.tail <= 16 * count
