"""Programs of whole .tflite networks: every operator's output against LiteRT's kernels, from LiteRT's own inputs."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from edgemem.errors import ModelError, UnsupportedError
from edgemem.model.tensor_ops import Concat, TransposedConvolution
from edgemem_converters.tflite.model import TfliteConverter
from edgemem_converters.tflite.names import OPERATOR_CODES
from edgemem_converters.tflite.objects import packed, unpacked
from edgemem_converters.tflite.reader import read
from models.build import TFLITE, build_tflite
from models.fetch import FetchError, fetch
from tests.oracle.tensor_ops import evaluate, reads, run_program
from tests.tflite_operators import random_feeds, run

if TYPE_CHECKING:
    from numpy.typing import NDArray

pytest.importorskip("ai_edge_litert")

NETS = (
    "mp_face_detection_short",
    "mp_face_detection_full_sparse",
    "mp_hand_recrop",
    "mp_iris_landmark",
    "mp_pose_detection",
    "mp_hand_landmark_lite",
    "tflm_sine_float",
)


def fetched(name: str) -> bytes:
    try:
        return fetch(name).read_bytes()
    except FetchError as e:
        pytest.skip(str(e))


def apart(one: NDArray[Any], other: NDArray[Any]) -> float:
    """The largest difference, relative to the spread of the other (or its size where it has none)."""
    scale = float(other.astype(np.float64).std()) or float(np.abs(other).max()) or 1.0
    return float(np.abs(one.astype(np.float64) - other).max()) / scale


@pytest.mark.full
@pytest.mark.parametrize("name", [*NETS, *TFLITE])
def test_every_operator_is_what_litert_computes(name: str) -> None:
    data = build_tflite(name, size="small") if name in TFLITE else fetched(name)
    program = TfliteConverter.from_bytes(data).program()
    assert not [step for step in program.steps if isinstance(step, str)]
    feeds = random_feeds(data, 3)
    values = run(data, feeds, every=True)
    computed = 0
    for step in program.steps:
        for op in step:
            assert not isinstance(op, str)
            given = {i: program.constants.get(i, values[i]) for i in reads(op)}
            expected = values[op.output]
            assert apart(evaluate(op, given, expected.shape, program.graph.layout), expected) < 2e-5
            computed += 1
    assert computed >= 3
    outputs = run_program(program, feeds)
    for index in program.graph.outputs:
        assert apart(outputs[index], values[index]) < 5e-4


@pytest.mark.full
def test_operators_run_alone() -> None:
    """One of each type of a network with float16 weights: the same bits as within the network."""
    model = TfliteConverter.from_bytes(fetched("mp_face_detection_short"))
    graph = model.graph()
    values = run(model.content(), random_feeds(model.content(), 5), every=True)
    seen = set()
    for number, op in enumerate(graph.ops):
        if op.type in seen or op.type == "DEQUANTIZE":
            continue
        seen.add(op.type)
        alone = model.operator_model(number)
        known = TfliteConverter.from_bytes(alone).graph()
        inputs = [i for i in dict.fromkeys(op.inputs) if i >= 0 and graph.tensors[i].kind == "activation"]
        assert [known.tensors[i].name for i in known.inputs] == [graph.tensors[i].name for i in inputs]
        found = run(alone, {i: values[old] for i, old in zip(known.inputs, inputs, strict=True)})
        for index, old in zip(known.outputs, op.outputs, strict=True):
            np.testing.assert_array_equal(found[index], values[old])
    assert len(seen) == 8


def test_operators_that_cannot_run_alone_are_refused() -> None:
    model = TfliteConverter.from_bytes(fetched("mww_alexa"))
    names = [op.type for op in model.graph().ops]
    for kind in ("CALL_ONCE", "READ_VARIABLE"):
        with pytest.raises(UnsupportedError, match="cannot run alone"):
            model.operator_model(names.index(kind))
    with pytest.raises(ModelError, match="none of number"):
        model.operator_model(len(names))


@pytest.mark.full
def test_steps_that_have_no_operations_say_why() -> None:
    program = TfliteConverter.from_bytes(fetched("mp_face_landmark_attention")).program()
    reasons = {step for step in program.steps if isinstance(step, str)}
    assert reasons == {"Landmarks2TransformMatrix", "TransformTensorBilinear", "TransformLandmarks"}
    program = TfliteConverter.from_bytes(fetched("mww_alexa")).program()
    reasons = {step for step in program.steps if isinstance(step, str)}
    assert {"CALL_ONCE", "READ_VARIABLE", "CONV_2D is quantised; the GPU runs float models"} <= reasons


@pytest.mark.full
@pytest.mark.parametrize("name", ["mp_selfie_py", "mp_selfie_landscape_npm"])
def test_mediapipes_transposed_convolution(name: str) -> None:
    """LiteRT does not have the operator: its own TRANSPOSE_CONV takes its place in a second file."""
    data = fetched(name)
    program = TfliteConverter.from_bytes(data).program()
    graph = program.graph
    assert not [step for step in program.steps if isinstance(step, str)]
    (op,) = (op for step in program.steps for op in step if isinstance(op, TransposedConvolution))
    feeds = {i: _picture(graph.tensors[i].shape) for i in graph.inputs}
    expected = run(_with_transpose_conv(data), feeds, every=True)
    found = run_program(program, feeds)
    for index in (op.input, op.output, *graph.outputs):
        assert expected[index].std() > 1e-3
        assert apart(found[index], expected[index]) < 5e-4


def _picture(shape: tuple[int, ...]) -> NDArray[np.float32]:
    """A bright disc in front of a dark, noisy wall."""
    y, x = np.mgrid[0 : shape[1], 0 : shape[2]]
    is_disc = np.hypot(y - 0.6 * shape[1], x - 0.5 * shape[2]) < 0.3 * shape[1]
    noise = np.random.default_rng(0).uniform(0, 0.3, shape)
    picture: NDArray[np.float32] = (noise + 0.6 * is_disc[None, :, :, None]).astype(np.float32)
    return picture


def _with_transpose_conv(data: bytes) -> bytes:
    """The file with LiteRT's operator of the same weights, strides and padding; all tensors keep their numbers."""
    schema, model = unpacked(data, read(data), "changing", "changed")
    main = model.subgraphs[0]
    for number, code in enumerate(model.operatorCodes):
        if code.customCode == b"Convolution2DTransposeBias":
            code.builtinCode = code.deprecatedBuiltinCode = OPERATOR_CODES["TRANSPOSE_CONV"]
            code.customCode, code.version = None, 3
            (op,) = (op for op in main.operators if op.opcodeIndex == number)
    made, buffer = schema.TensorT(), schema.BufferT()
    sizes = np.array(main.tensors[op.outputs[0]].shape, "<i4")
    buffer.data = np.frombuffer(sizes.tobytes(), np.uint8)
    made.name, made.shape, made.type, made.buffer = "size", np.array([4], "<i4"), 2, len(model.buffers)
    model.buffers.append(buffer)
    main.tensors.append(made)
    op.builtinOptionsType, op.builtinOptions = (
        schema.BuiltinOptions.TransposeConvOptions,
        schema.TransposeConvOptionsT(),
    )
    padding, op.builtinOptions.strideW, op.builtinOptions.strideH = struct.unpack_from("<3i", bytes(op.customOptions))
    op.builtinOptions.padding = padding - 1
    op.customOptions = None
    x, weights, bias = op.inputs
    op.inputs = np.array([len(main.tensors) - 1, weights, x, bias], "<i4")
    return packed(schema, model)


def test_shapes_are_known_without_running_anything() -> None:
    """Only one operator of the network cannot be computed; those that ask for shapes have nothing to compute."""
    program = TfliteConverter.from_bytes(fetched("basic_pitch_nmp")).program()
    graph = program.graph
    assert {step for step in program.steps if isinstance(step, str)} == {"SELECT_V2"}
    asked = [i for op in graph.ops if op.type == "SHAPE" for i in op.outputs]
    assert asked
    for index in asked:
        (source,) = (op.inputs[0] for op in graph.ops if index in op.outputs)
        assert tuple(program.constants[index]) == graph.tensors[source].shape
    assert any(isinstance(op, Concat) for step in program.steps if not isinstance(step, str) for op in step)
