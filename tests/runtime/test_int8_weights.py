"""Weights that a file stores as int8 with scales: a quarter of the bytes on the GPU, and the bits of float weights."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import edgemem
from edgemem.errors import ModelError
from edgemem.runtime.webgpu.executor import GpuExecutor
from models.build import build_tflite
from tests.dawn import on_dawn
from tests.tflite_operators import Input, build, random_feeds
from tests.tflite_operators import run as run_litert

if TYPE_CHECKING:
    from numpy.typing import NDArray

pytest.importorskip("wgpu")
ort = pytest.importorskip("onnxruntime")


class _Net:
    """A graph whose weights are int8 behind DequantizeLinear, or those floats."""

    def __init__(self, *, is_int8: bool) -> None:
        self.is_int8 = is_int8
        self.random = np.random.default_rng(5)
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def weights(self, name: str, shape: tuple[int, ...], axis: int | None) -> str:
        counts = self.random.integers(-128, 128, shape).astype(np.int8)
        count = 1 if axis is None else shape[axis]
        of_scales = () if axis is None else (count,)
        scales = self.random.uniform(0.001, 0.004, count).astype(np.float32).reshape(of_scales)
        if not self.is_int8:
            along = [-1 if k == axis else 1 for k in range(len(shape))]
            return self._constant(name, counts.astype(np.float32) * scales.reshape(along if count > 1 else ()))
        parts: list[NDArray[Any]] = [counts, scales, np.zeros(of_scales, np.int8)]
        inputs = [self._constant(f"{name}_{k}", part) for k, part in enumerate(parts)]
        more: dict[str, Any] = {} if axis is None else {"axis": axis}
        self.nodes.append(helper.make_node("DequantizeLinear", inputs, [name], **more))
        return name

    def _constant(self, name: str, values: NDArray[Any]) -> str:
        self.constants.append(numpy_helper.from_array(values, name))
        return name

    def node(self, kind: str, inputs: list[str], output: str, **attributes: Any) -> None:
        self.nodes.append(helper.make_node(kind, inputs, [output], name=output, **attributes))

    def model(self) -> bytes:
        shape = (1, 12, 9, 9)
        self.node("Conv", ["x", self.weights("w1", (20, 12, 3, 3), 0)], "a", pads=[1, 1, 1, 1])
        self.node("Conv", ["a", self.weights("w2", (20, 1, 9, 9), 0)], "b", pads=[4, 4, 4, 4], group=20)
        self.node("Conv", ["b", self.weights("w3", (24, 10, 3, 3), None)], "c", group=2)
        self.node("ConvTranspose", ["c", self.weights("w4", (24, 8, 3, 3), 1)], "d", strides=[2, 2])
        self.node("Flatten", ["d"], "e")
        bias = self._constant("bias", np.linspace(-1, 1, 10, dtype=np.float32))
        self.node("Gemm", ["e", self.weights("w5", (10, 1800), 0), bias], "f", transB=1)
        self.node("MatMul", ["f", self.weights("w6", (10, 130), None)], "y")
        graph = helper.make_graph(
            self.nodes,
            "stored",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, (1, 130))],
            self.constants,
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        return bytes(onnx.shape_inference.infer_shapes(model).SerializeToString())


@pytest.mark.parametrize("storage", ["buffer", "texture2d"])
def test_int8_weights_give_the_bits_of_floats_in_a_quarter_of_the_bytes(
    storage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored, floats = (_Net(is_int8=flag).model() for flag in (True, False))
    x = np.random.default_rng(6).standard_normal((1, 12, 9, 9)).astype(np.float32)
    (exact,) = ort.InferenceSession(floats).run(None, {"x": x})
    packed = 20 * 12 * 9 + 20 * 81 + 24 * 12 * 9 + 8 * 24 * 9 + 12 * 1800 + 12 * 132

    def run(model: bytes, size: int) -> NDArray[np.float32]:
        with GpuExecutor(model, storage=storage, poison=True) as executor:
            weights = executor.memory_report.details["weights"]
            assert size <= weights <= 1.2 * size + 12 * 256  # and what pads channels and arrays
            (found,) = executor.run(None, {"x": x})
            return np.asarray(found)

    as_int8 = run(stored, packed)
    np.testing.assert_array_equal(run(floats, packed), as_int8)  # whoever multiplied them
    monkeypatch.setattr("edgemem.runtime.webgpu.stored_weights._as_int8", lambda _: None)
    np.testing.assert_array_equal(run(stored, 4 * packed), as_int8)
    assert exact.std() > 1e-3
    np.testing.assert_allclose(as_int8, exact, rtol=0, atol=1e-5 * np.abs(exact).max())


def test_dawn_takes_the_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    stored, floats = (_Net(is_int8=flag).model() for flag in (True, False))
    x = np.random.default_rng(6).standard_normal((1, 12, 9, 9)).astype(np.float32)
    (exact,) = ort.InferenceSession(floats).run(None, {"x": x})  # of int8 weights it takes kernels that round more
    on_dawn(monkeypatch, "edgemem.runtime.webgpu.executor")
    with GpuExecutor(stored, poison=True) as executor:
        (found,) = executor.run(None, {"x": x})
    np.testing.assert_allclose(found, exact, rtol=0, atol=1e-5 * np.abs(exact).max())


def _with_int8(content: bytes, *, dequantize: bool) -> bytes:
    """A .tflite file whose weights of convolutions are int8 with a scale a channel.

    They are behind `dequantize`, or read as they are by operators whose other tensors are floats (dynamic range).
    """
    schema = pytest.importorskip("ai_edge_litert.schema_py_generated")
    flatbuffers = pytest.importorskip("flatbuffers")
    model = schema.ModelT.InitFromObj(schema.Model.GetRootAs(content, 0))
    (graph,) = model.subgraphs
    code = schema.OperatorCodeT()
    code.builtinCode = code.deprecatedBuiltinCode = schema.BuiltinOperator.DEQUANTIZE
    code.version = 2
    model.operatorCodes.append(code)
    axes = {schema.BuiltinOperator.CONV_2D: 0, schema.BuiltinOperator.DEPTHWISE_CONV_2D: 3}
    before = []
    for op in graph.operators:
        axis = axes.get(model.operatorCodes[op.opcodeIndex].builtinCode)
        if axis is None:
            continue
        floats = graph.tensors[op.inputs[1]]
        values = np.frombuffer(bytes(model.buffers[floats.buffer].data), np.float32).reshape(floats.shape)
        others = tuple(k for k in range(4) if k != axis)
        scales = np.maximum(np.abs(values).max(axis=others), 1e-6).astype(np.float32) / np.float32(127)
        along = [-1 if k == axis else 1 for k in range(4)]
        stored = schema.TensorT()
        stored.name, stored.shape, stored.type = floats.name + b"_int8", floats.shape, schema.TensorType.INT8
        stored.buffer = len(model.buffers)
        stored.quantization = schema.QuantizationParametersT()
        stored.quantization.scale, stored.quantization.quantizedDimension = scales, axis
        stored.quantization.zeroPoint = np.zeros(scales.size, np.int64)
        data = schema.BufferT()
        data.data = np.rint(values / scales.reshape(along)).astype(np.int8).tobytes()
        model.buffers.append(data)
        floats.buffer = 0
        if not dequantize:
            op.inputs = [op.inputs[0], len(graph.tensors), *op.inputs[2:]]
            graph.tensors.append(stored)
            continue
        made = schema.OperatorT()
        made.opcodeIndex = len(model.operatorCodes) - 1
        made.inputs, made.outputs = [len(graph.tensors)], [op.inputs[1]]
        graph.tensors.append(stored)
        before.append(made)
    graph.operators = [*before, *graph.operators]
    builder = flatbuffers.Builder(len(content))
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def test_int8_weights_of_tflite_stay_int8() -> None:
    """Behind DEQUANTIZE, and of a file of dynamic range, whose float32 sums are those of the first."""
    floats = build_tflite("mobilenet_v2_tflite", size="small")
    behind, dynamic = (_with_int8(floats, dequantize=flag) for flag in (True, False))
    feeds = random_feeds(behind, 8)
    (x,) = feeds.values()
    (exact,) = run_litert(behind, feeds).values()
    found, sizes = [], []
    for content in (behind, dynamic, floats):
        with GpuExecutor(content, poison=True) as executor:
            (port,) = executor.get_inputs()
            found += executor.run(None, {port.name: x})
            sizes.append(executor.memory_report.details["weights"])
    assert exact.std() > 1e-5
    np.testing.assert_allclose(found[0], exact, rtol=0, atol=1e-4 * np.abs(exact).max())
    np.testing.assert_array_equal(found[1], found[0])
    assert sizes[0] == sizes[1] < 0.6 * sizes[2]  # the last layer and the smallest ones are floats
    (rounded,) = run_litert(dynamic, feeds).values()  # LiteRT takes the file, and rounds activations
    assert 1e-4 < np.abs(rounded - exact).max() / np.abs(exact).max() < 0.2


# Input, weights, axis of the output's channels, sum.
DYNAMIC: Final = {
    "FullyConnected": ((1, 192), (8, 192), 0, "bk,ok->bo"),
    "Conv2D": ((1, 5, 5, 8), (8, 5, 5, 8), 0, "bhwc,ohwc->bo"),
    "DepthwiseConv2D": ((1, 12, 12, 8), (1, 12, 12, 8), 3, "bhwc,bhwc->bc"),
}


@pytest.mark.parametrize("channels", [1, 8])
@pytest.mark.parametrize("kind", DYNAMIC)
def test_dynamic_range_is_the_dequantised_sum_in_float64(kind: str, channels: int) -> None:
    """Weights with a scale for all or one for each channel."""
    given, shape, axis, sum_of = DYNAMIC[kind]
    random = np.random.default_rng(9)
    counts = random.integers(-127, 128, shape).astype(np.int8)
    scales = random.uniform(0.01, 0.03, channels).astype(np.float32)
    x, bias = (random.standard_normal(n).astype(np.float32) for n in (given, 8))
    made = ((1, 8), "float32") if len(given) == 2 else ((1, 1, 1, 8), "float32")
    options: dict[str, Any] = {} if len(given) == 2 else {"padding": 1, "strideH": 1, "strideW": 1}
    names = {"FullyConnected": "FULLY_CONNECTED", "Conv2D": "CONV_2D", "DepthwiseConv2D": "DEPTHWISE_CONV_2D"}
    weights = Input(shape, "int8", counts, scales.tolist(), axis)
    inputs = [Input(given), weights, Input.of(bias)]
    data = build(names[kind], inputs, [made], (f"{kind}Options", options))
    along = [-1 if k == axis and channels > 1 else 1 for k in range(len(shape))]
    exact = np.einsum(sum_of, x.astype(np.float64), counts * scales.astype(np.float64).reshape(along)) + bias
    with GpuExecutor(data, poison=True) as executor:
        (found,) = executor.run(None, {executor.get_inputs()[0].name: x})
        assert executor.memory_report.details["weights"] < 2.5 * counts.size  # bytes
    np.testing.assert_allclose(found.reshape(exact.shape), exact, rtol=0, atol=1e-5 * np.abs(exact).max())
    inputs[1] = replace(weights, scales=[0.1] * 3)
    with pytest.raises(ModelError, match="weights have another number of scales than of channels"):
        GpuExecutor(build(names[kind], inputs, [made], (f"{kind}Options", options)))


def test_one_weight_that_is_no_multiple_keeps_floats() -> None:
    model = onnx.load_from_string(_Net(is_int8=False).model())
    x = np.random.default_rng(7).standard_normal((1, 12, 9, 9)).astype(np.float32)
    for constant in model.graph.initializer:
        values = numpy_helper.to_array(constant).copy()
        if values.ndim > 1:  # the last weight of the last channel that padding does not fill
            values.flat[-1] = np.nextafter(values.flat[-1] + np.float32(1e-3), np.float32(9))
            constant.CopyFrom(numpy_helper.from_array(values, constant.name))
    changed = model.SerializeToString()
    (exact,) = ort.InferenceSession(changed).run(None, {"x": x})
    with edgemem.GpuExecutor(changed) as executor:
        (found,) = executor.run(None, {"x": x})
        assert executor.memory_report.details["weights"] > 4 * 30_000
    np.testing.assert_allclose(found, exact, rtol=0, atol=1e-5 * np.abs(exact).max())
