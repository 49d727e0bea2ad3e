"""CompiledModel with inputs and outputs in our arena: on the CPU, and on a GPU where there is a Vulkan driver."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest

pytest.importorskip("ai_edge_litert")

from edgemem.errors import ModelError, RuntimeBindError
from edgemem.replay.arena import Arena
from edgemem.runtime.litert.compiled import CompiledModel, Storage
from edgemem_converters.tflite.model import TfliteConverter
from tests.runtime.test_litert import fetched, outputs_of
from tests.runtime.test_litert_c import inputs_of


@pytest.mark.parametrize("name", ["mp_hand_recrop", "mp_iris_landmark", "mp_face_detection_short"])
def test_the_cpu_computes_the_same_in_our_arena(name: str) -> None:
    data = fetched(name)
    expected = outputs_of(data, builtin=False)
    model = CompiledModel(data)
    for _ in range(2):
        for one, other in zip(model.run(inputs_of(data)), expected, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-3)
    graph = TfliteConverter.from_bytes(data).graph()
    ends = sum(graph.tensors[i].size for i in (*graph.inputs, *graph.outputs))
    assert ends <= model.planned < ends + 64 * len(graph.outputs) + 64


def test_a_planned_file_is_compiled_too() -> None:
    from edgemem import api

    data = fetched("mp_hand_recrop")
    model = TfliteConverter.from_bytes(data)
    planset = api.plan(model, strategy="offsets/greedy_by_size")
    planned = model.with_plan(b"plan", planset).content()
    for one, other in zip(
        CompiledModel(planned).run(inputs_of(data)), CompiledModel(data).run(inputs_of(data)), strict=True
    ):
        np.testing.assert_array_equal(one, other)


def test_what_is_refused() -> None:
    with pytest.raises(RuntimeBindError, match="as it runs"):
        CompiledModel(fetched("basic_pitch_nmp"))
    data = fetched("mp_hand_recrop")
    with pytest.raises(ModelError, match="for the GPU"):
        CompiledModel(data, storage="buffer")
    with pytest.raises(RuntimeBindError, match="needs an arena"):
        CompiledModel(data, arena=Arena(64))
    with pytest.raises(RuntimeBindError, match="bytes, not 4"):
        CompiledModel(data).run([np.zeros(1, "f4")])


@pytest.fixture(scope="module")
def gpu() -> Any:
    try:
        ctypes.CDLL("libvulkan.so.1")
    except OSError:
        pytest.skip("no libvulkan.so.1: see docs/tflite.md for a software one")
    try:
        return CompiledModel(fetched("mp_hand_recrop"), accelerator="gpu")
    except RuntimeBindError as e:
        pytest.skip(f"no GPU that LiteRT can use: {e}")


@pytest.mark.parametrize("storage", ["default", "buffer", "texture"])
def test_the_gpu_computes_nearly_the_same(gpu: Any, storage: Storage) -> None:
    data = fetched("mp_hand_recrop")
    model = gpu if storage == "default" else CompiledModel(data, accelerator="gpu", storage=storage)
    for one, other in zip(model.run(inputs_of(data)), outputs_of(data, builtin=False), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-2)
    assert model.host_kept is None or model.host_kept > 100_000
