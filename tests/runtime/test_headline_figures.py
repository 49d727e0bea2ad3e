"""The figures that README.md begins its comparisons with, measured again: memory inside ONNX Runtime and TFLite."""

from __future__ import annotations

import pytest

import edgemem
from edgemem_converters.tflite.model import TfliteConverter
from models.build import build
from models.fetch import FetchError, fetch
from tests.onnx_sessions import feeds, options, plain, same

MIB = 2**20

# MiB of the arena in which ONNX Runtime runs a network.
IN_ONNX_RUNTIME = {"mobilenet_v2": 5.74, "resnet18": 3.83, "deeplab_v3": 5.39, "unet": 32.00, "transformer": 1.13}

# Bytes: LiteRT's arena, that of the ordered file, TFLite Micro's own head, ours, lower bound, ours with overlaps.
IN_TFLITE = {
    "mp_pose_landmark_lite": (22_691_840, 22_545_732, 9_060_352, 6_817_024, 6_817_012, 4_719_904),
    "mp_face_detection_full": (3_096_576, 3_096_576, 3_538_944, 3_538_944, 3_538_944, 2_359_328),
    "mp_hand_landmark_full": (4_917_248, 4_917_248, 4_315_136, 4_014_080, 4_014_080, 3_211_328),
    "mp_iris_landmark": (704_512, 704_512, 786_432, 786_432, 786_432, 524_416),
    "mww_alexa": (3_776, 3_776, 3_648, 3_200, 3_200, 3_136),
    "mp_hand_recrop": (3_080_192, 3_080_192, 1_572_864, 1_310_720, 1_310_720, 787_520),
}


@pytest.mark.full
@pytest.mark.parametrize("name", IN_ONNX_RUNTIME)
def test_onnx_runtime(name: str) -> None:
    pytest.importorskip("onnxruntime")
    model = bytes(build(name).SerializeToString())
    reference = plain(model)
    given = feeds(reference)
    with edgemem.InferenceSession(model, options(), ["CPUExecutionProvider"], cache=False, background=False) as session:
        for _ in range(2):
            assert same(session.run(None, given), reference.run(None, given))
        memory = session.memory
    assert memory.replayed == 1
    assert round(memory.planned / MIB, 2) <= IN_ONNX_RUNTIME[name]


@pytest.mark.full
@pytest.mark.parametrize("name", IN_TFLITE)
def test_tflite(name: str) -> None:
    pytest.importorskip("ai_edge_litert")
    pytest.importorskip("tflite_micro")
    from tests.bench.tflite_runtimes import litert_arenas, tflm_arenas

    try:
        model = TfliteConverter.from_bytes(fetch(name).read_bytes())
    except FetchError as e:
        pytest.skip(f"{name} cannot be fetched: {e}")
    own, ordered, micro, planned, bound, over = IN_TFLITE[name]
    # Both compare outputs with those of the file as it came.
    in_litert, in_micro = litert_arenas(model), tflm_arenas(model)
    assert (in_litert[0], in_micro[2]) == (own, micro)
    assert in_micro[1] == bound
    assert in_litert[1] is not None
    assert in_litert[1] <= ordered
    assert in_micro[3] is not None
    assert in_micro[3] <= planned
    assert in_micro[4] is not None
    assert in_micro[4] <= over
