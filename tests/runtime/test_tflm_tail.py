"""The predicted tail of TensorFlow Lite Micro's arena is what the installed one allocates."""

from __future__ import annotations

import pytest

from edgemem.formats import Foldable, load
from edgemem.records.micro_tail import predicted_tail
from edgemem.runtime.tflm.execution import execute, input_values
from models.fetch import FetchError, fetch

pytest.importorskip("tflite_micro")


@pytest.mark.full
@pytest.mark.parametrize(
    "name", ["mp_hand_recrop", "mp_iris_landmark", "mp_pose_detection", "mp_face_detection_short", "mww_alexa"]
)
def test_the_prediction_is_within_one_per_cent(name: str) -> None:
    try:
        model = load(fetch(name))
    except FetchError as e:
        pytest.skip(str(e))
    assert isinstance(model, Foldable)
    model = model.folded()
    graph = model.graph()
    run = execute(model.content(), input_values(graph), outputs=len(graph.outputs))
    assert run.tail == pytest.approx(predicted_tail(graph), rel=0.01)
