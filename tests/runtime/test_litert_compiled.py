"""CompiledModel with inputs and outputs in our arena: on the CPU, and on a GPU where there is a Vulkan driver."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

pytest.importorskip("ai_edge_litert")

from edgemem.errors import ModelError, RuntimeBindError
from edgemem.replay.arena import Arena
from edgemem.runtime.litert.compiled import CompiledModel, Storage
from edgemem_converters.tflite.model import TfliteConverter
from tests.runtime.test_litert import fetched, outputs_of
from tests.runtime.test_litert_c import inputs_of
from tests.tflite_models import M, O, S, T, build

if TYPE_CHECKING:
    from pathlib import Path


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


def signed(data: bytes, inputs: dict[str, int], outputs: dict[str, int]) -> bytes:
    """The file with a signature: names of its own -> tensors, in an order of its own."""
    import flatbuffers
    from ai_edge_litert import schema_py_generated as schema

    model = schema.ModelT.InitFromObj(schema.Model.GetRootAs(data, 0))
    signature = schema.SignatureDefT()
    signature.signatureKey = b"serve"
    signature.inputs, signature.outputs = ([entry(schema, *e) for e in ends.items()] for ends in (inputs, outputs))
    model.signatureDefs = [signature]
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def entry(schema: Any, name: str, tensor: int) -> Any:
    made = schema.TensorMapT()
    made.name, made.tensorIndex = name, tensor
    return made


def test_a_signature_may_rename_tensors_and_list_them_in_another_order() -> None:
    tensors = [T("unused"), T("p"), T("q"), T("d"), T("e")]
    ops = [O("SUB", (1, 2), (3,), (28, (0,))), O("NEG", (3,), (4,))]
    data = build(M([S(tensors, ops, (1, 2), (3, 4))]))
    renamed = signed(data, {"minus": 2, "from": 1}, {"a": 4, "b": 3})
    p, q = np.array([[1, 2, 3, 4]], "f4"), np.array([[10, 30, 50, 70]], "f4")
    for file in (data, renamed):
        difference, negated = CompiledModel(file).run([p, q])
        assert difference.tolist() == [[-9, -28, -47, -66]]
        assert negated.tolist() == [[9, 28, 47, 66]]


def test_a_model_is_given_by_its_path(tmp_path: Path) -> None:
    data = build(M([S([T("x"), T("y")], [O("NEG", (0,), (1,))], (0,), (1,))]))
    (tmp_path / "model.tflite").write_bytes(data)
    for path in (tmp_path / "model.tflite", str(tmp_path / "model.tflite")):
        (result,) = CompiledModel(path).run([np.array([[1, 2, 3, 4]], "f4")])
        assert result.tolist() == [[-1, -2, -3, -4]]
    with pytest.raises(ModelError, match=r"cannot read .*nowhere"):
        CompiledModel(tmp_path / "nowhere.tflite")


@pytest.mark.full
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


@pytest.mark.full
@pytest.mark.parametrize("storage", ["default", "buffer", "texture"])
def test_the_gpu_computes_nearly_the_same(gpu: Any, storage: Storage) -> None:
    data = fetched("mp_hand_recrop")
    model = gpu if storage == "default" else CompiledModel(data, accelerator="gpu", storage=storage)
    for one, other in zip(model.run(inputs_of(data)), outputs_of(data, builtin=False), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-2)
    assert model.host_kept is None or model.host_kept > 100_000
