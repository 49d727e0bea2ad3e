"""Attributes of operators of .tflite files, against what the file's options and shapes say."""

from __future__ import annotations

import pytest

from edgemem.formats import open_bytes
from models.fetch import fetch

pytest.importorskip("ai_edge_litert")


def test_attributes_of_a_real_model_give_the_shapes_of_its_results() -> None:
    graph = open_bytes(fetch("mp_face_detection_full").read_bytes(), ".tflite").graph()
    seen: set[str] = set()
    for op in graph.ops:
        given, made = graph.tensors[op.inputs[0]].shape, graph.tensors[op.outputs[0]].shape
        about = {name: value for name, value in op.attributes.items() if isinstance(value, tuple)}
        if "kernel" in about:
            top, left, bottom, right = about["pads"]
            for k, padding in ((0, top + bottom), (1, left + right)):
                reach = (about["kernel"][k] - 1) * about["dilation"][k] + 1
                assert made[1 + k] == (given[1 + k] + padding - reach) // about["stride"][k] + 1
        if "paddings" in about:
            paddings = about["paddings"]
            assert made == tuple(d + a + b for d, a, b in zip(given, paddings[::2], paddings[1::2], strict=True))
        seen |= about.keys()
    assert {"kernel", "paddings"} <= seen
