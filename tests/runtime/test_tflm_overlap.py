"""Plans with overlaps and slots in stock TensorFlow Lite Micro: the same bits, in the arena that was planned."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from edgemem import api, planfile
from edgemem.records.sizes import padded
from edgemem.runtime.tflm import execution as tflm
from edgemem.targets import BUILT_IN
from edgemem_converters.tflite.model import TfliteConverter
from tests.runtime.test_litert import fetched

RELATED = replace(BUILT_IN["tflm"], kernels="tflm-reference", slots=True)


@pytest.mark.full
@pytest.mark.skipif(not tflm.is_installed(), reason="tflite-micro is not installed")
@pytest.mark.parametrize(
    ("name", "most"),
    # Bytes of the head; without overlaps it is 1,572,864, 786,432 and 3,424.
    [("mp_hand_recrop", 1_048_608), ("mp_iris_landmark", 524_416), ("mww_hey_jarvis", 3_248)],
)
def test_a_related_plan_gives_the_same_bits_in_less_memory(name: str, most: int) -> None:
    stock = TfliteConverter.from_bytes(fetched(name))
    planset = api.plan(stock, target=RELATED)
    best = planset.best_offsets
    assert best is not None
    assert padded(best.size, 16) <= most
    planned = stock.with_plan(planfile.encode(planset), planset)
    graph = stock.graph()
    for seed in range(2):
        inputs = tflm.input_values(graph, seed=seed)
        # Twice, because the input is overwritten, and so that variables and the arena hold what a run has left.
        expected, found = (
            tflm.execute(model.content(), inputs, outputs=len(graph.outputs), runs=2) for model in (stock, planned)
        )
        assert found.head == padded(best.size, 16)
        for a, b in zip(expected.outputs, found.outputs, strict=True):
            assert np.array_equal(a.view(np.uint8), b.view(np.uint8))
