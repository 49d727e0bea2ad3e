"""Programs of whole .tflite networks: every operator's output against LiteRT's kernels, from LiteRT's own inputs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from edgemem.errors import ModelError, UnsupportedError
from edgemem.model.tensor_ops import Concat, TransposedConvolution
from edgemem_converters.tflite.model import TfliteConverter
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


def test_steps_that_have_no_operations_say_why() -> None:
    program = TfliteConverter.from_bytes(fetched("mp_face_landmark_attention")).program()
    reasons = {step for step in program.steps if isinstance(step, str)}
    assert reasons == {"Landmarks2TransformMatrix", "TransformTensorBilinear", "TransformLandmarks"}
    program = TfliteConverter.from_bytes(fetched("mww_alexa")).program()
    reasons = {step for step in program.steps if isinstance(step, str)}
    assert {"CALL_ONCE", "READ_VARIABLE", "CONV_2D is quantised; the GPU runs float models"} <= reasons


def test_mediapipes_transposed_convolution() -> None:
    """LiteRT does not have the operator: what it makes is checked against its sizes, and runs."""
    program = TfliteConverter.from_bytes(fetched("mp_selfie_py")).program()
    (op,) = (op for step in program.steps for op in step if isinstance(op, TransposedConvolution))
    assert (op.stride, op.pads, op.weights.shape) == ((2, 2), (0, 0), (1, 2, 2, 16))
    rng = np.random.default_rng(0)
    graph = program.graph
    values = run_program(program, {i: rng.uniform(0, 1, graph.tensors[i].shape) for i in graph.inputs})
    assert values[graph.outputs[0]].shape == (1, 256, 256, 1)


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
