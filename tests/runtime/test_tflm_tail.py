"""The predicted tail of TensorFlow Lite Micro's arena is what builds with 32-bit and 64-bit pointers allocate."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from edgemem.formats import Foldable, MicroPlanned, load
from edgemem.records.micro_builds import INSTALLED, build_of
from edgemem.records.micro_tail import predicted_tail
from edgemem.runtime.tflm.execution import execute, input_values
from edgemem.targets import BUILT_IN
from models.fetch import FetchError, fetch
from models.tflite_networks import mobilenet_v1

if TYPE_CHECKING:
    from pathlib import Path

# Bytes of the tail with 32-bit pointers: tflite-micro 90b983c2b3f1 with reference kernels, built by GCC 12 for
# arm-linux-gnueabihf and run in qemu-arm on 2026-11-26. The models were folded.
DEVICE: Final = {
    "mp_hand_recrop": 15_192,
    "mp_iris_landmark": 73_424,
    "mp_pose_detection": 192_112,
    "mp_face_detection_short": 29_072,
    "mww_alexa": 12_620,
}
PERSON_DEVICE: Final = 26_796


@pytest.mark.full
@pytest.mark.parametrize("name", DEVICE)
def test_the_prediction_is_within_one_per_cent(name: str) -> None:
    pytest.importorskip("tflite_micro")
    try:
        model = load(fetch(name))
    except FetchError as e:
        pytest.skip(str(e))
    assert isinstance(model, Foldable)
    folded = model.folded()
    assert isinstance(folded, MicroPlanned)
    _check(folded, DEVICE[name])


def test_a_network_like_person_detection(tmp_path: Path) -> None:
    pytest.importorskip("tflite_micro")
    file = tmp_path / "person.tflite"
    file.write_bytes(mobilenet_v1(alpha=0.25, size=96, int8=True, classes=2))
    model = load(file)
    assert isinstance(model, MicroPlanned)
    _check(model, PERSON_DEVICE)


def _check(model: MicroPlanned, device: int) -> None:
    graph = model.graph()
    run = execute(model.content(), input_values(graph), outputs=len(graph.outputs))
    assert predicted_tail(graph, INSTALLED) == run.tail
    assert predicted_tail(graph, build_of(BUILT_IN["tflm"])) == pytest.approx(device, rel=0.003)
