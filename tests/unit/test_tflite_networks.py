"""The .tflite networks: the published sizes, activations that carry information, the same bytes every time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import edgemem
from edgemem.records.micro_planner import predicted_head
from edgemem.runtime.feeds import random_values
from edgemem_converters.tflite.model import TfliteConverter
from models import build as command
from models.build import build_tflite
from models.tflite_net import _windows

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

pytest.importorskip("ai_edge_litert")

SMALLEST: dict[str, Any] = {"alpha": 0.3, "size": 80, "classes": 2}
MIB = 1 << 20


def opened(path: Path, **options: Any) -> Any:
    path.write_bytes(build_tflite("mobilenet_v2_tflite", **options))
    return edgemem.load(path)


@pytest.mark.parametrize(
    ("options", "head"),
    [
        pytest.param({}, 6_021_120, marks=pytest.mark.full),
        pytest.param({"int8": True}, 1_505_280, marks=pytest.mark.full),
        ({"int8": True, "size": 144}, 622_080),
        ({"int8": True, **SMALLEST}, 96_000),
        ({"int8": True, "alpha": 0.35, "size": 96}, 138_240),
    ],
)
def test_heads_are_those_of_the_published_networks(options: dict[str, Any], head: int, tmp_path: Path) -> None:
    graph = opened(tmp_path / "m.tflite", **options).graph()
    assert predicted_head(graph, {}).total == head
    assert sum(op.type in ("CONV_2D", "DEPTHWISE_CONV_2D") for op in graph.ops) == 53
    assert [sum(op.type == kind for op in graph.ops) for kind in ("ADD", "AVERAGE_POOL_2D")] == [10, 1]


@pytest.mark.parametrize("int8", [False, True])
def test_activations_neither_saturate_nor_vanish(int8: bool) -> None:
    """Every tensor has many values and few at the end of its range, and outputs depend on the input."""
    values = [activations(build_tflite("mobilenet_v2_tflite", int8=int8, **SMALLEST), seed) for seed in (1, 2)]
    assert len(values[0]) == 64
    for name in values[0]:
        one, other = (v[name] for v in values)
        assert np.isfinite(one).all()
        assert not np.array_equal(one, other)
        if name == "logits":
            continue  # two values
        assert len(np.unique(one)) > 30
        assert (one == one.max()).mean() < 0.05
        spread = one.astype(np.float64).std()
        assert 10 < spread < 100 if int8 else 0.2 < spread < 4


# Outputs of the published networks.
PUBLISHED: dict[str, list[tuple[int, ...]]] = {
    "mobilenet_v1_tflite": [(1, 1, 1, 1000)],
    "deeplab_v3_tflite": [(1, 257, 257, 21)],
    "posenet_tflite": [(1, 17, 17, c) for c in (17, 34, 32, 32)],
}


@pytest.mark.full
@pytest.mark.parametrize("name", PUBLISHED)
def test_other_networks_have_the_published_sizes(name: str) -> None:
    graph = TfliteConverter.from_bytes(build_tflite(name)).graph()
    assert [graph.tensors[i].shape for i in graph.outputs] == PUBLISHED[name]


@pytest.mark.parametrize("name", PUBLISHED)
def test_other_networks_answer_to_their_input(name: str) -> None:
    """Outputs are spread out, and two images have different ones."""
    model = build_tflite(name, size="small")
    ends = []
    for seed in (1, 2):
        interpreter = prepared(model)
        (given,) = interpreter.get_input_details()
        interpreter.set_tensor(
            given["index"], random_values(given["dtype"], given["shape"], np.random.default_rng(seed))
        )
        interpreter.invoke()
        ends.append([interpreter.get_tensor(d["index"]) for d in interpreter.get_output_details()])
    for one, other in zip(*ends, strict=True):
        assert one.std() > 0.5 * np.abs(one).mean()
        assert np.abs(one - other).mean() > 0.3 * one.std()


def test_dilation_takes_the_place_of_strides() -> None:
    """DeepLab's features keep an eighth of the input's size, PoseNet's a sixteenth."""
    for name, rates in (("deeplab_v3_tflite", {1, 2, 4}), ("posenet_tflite", {1, 2})):
        graph = TfliteConverter.from_bytes(build_tflite(name, size="small")).graph()
        ops = [op for op in graph.ops if op.type == "DEPTHWISE_CONV_2D"]
        assert {op.attributes["dilation"] for op in ops} == {(rate, rate) for rate in rates}


def test_int8_computes_what_float32_computes() -> None:
    """Up to the error of int8 weights and activations; an independent check of both files."""
    options: dict[str, Any] = {"alpha": 0.35, "size": 96}
    ends = []
    for int8 in (False, True):
        interpreter = prepared(build_tflite("mobilenet_v2_tflite", int8=int8, **options))
        (given,) = interpreter.get_input_details()
        image = np.random.default_rng(3).uniform(-1.7, 1.7, given["shape"])
        step, zero = given["quantization"]
        cast = np.clip(np.round(image / step + zero), -128, 127).astype(np.int8) if int8 else image.astype(np.float32)
        interpreter.set_tensor(given["index"], cast)
        interpreter.invoke()
        (found,) = interpreter.get_output_details()
        step, zero = found["quantization"]
        value = interpreter.get_tensor(found["index"]).astype(np.float64).ravel()
        ends.append((value - zero) * step if int8 else value)
    assert np.corrcoef(*ends)[0, 1] > 0.8


@pytest.mark.parametrize("int8", [False, True])
def test_the_same_arguments_make_the_same_bytes(int8: bool, tmp_path: Path) -> None:
    one, two, other = (build_tflite("mobilenet_v2_tflite", int8=int8, seed=s, **SMALLEST) for s in (3, 3, 4))
    assert one == two != other
    arguments = ["mobilenet_v2_tflite", "--alpha", "0.3", "--size", "80", "--classes", "2", "--seed", "3"]
    assert command.main([*arguments, *["--int8"] * int8, "-o", str(tmp_path / "m.tflite")]) == 0
    assert (tmp_path / "m.tflite").read_bytes() == one


def test_the_small_one_is_for_tests() -> None:
    assert len(build_tflite("mobilenet_v2_tflite", size="small", int8=True, classes=10)) < MIB


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"name": "unet"}, "no .tflite network"),
        ({"size": 16}, "from 32"),
        ({"alpha": 0.0}, "above 0"),
        ({"alpha": float("nan")}, "above 0"),
        ({"classes": 0}, "classes"),
        ({"name": "deeplab_v3_tflite", "int8": True}, "float32 only"),
        ({"name": "posenet_tflite", "classes": 2}, "no classes"),
    ],
)
def test_wrong_arguments_are_refused(options: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        build_tflite(**{"name": "mobilenet_v2_tflite", **options})


@pytest.mark.parametrize(("size", "stride", "rate"), [(7, 1, 1), (8, 2, 1), (7, 2, 1), (7, 1, 3)])
def test_windows_are_those_of_same_padding(size: int, stride: int, rate: int) -> None:
    """Against a loop over pixels that follows the definition."""
    x = np.random.default_rng(0).standard_normal((1, size, size, 2))
    windows = dict(_windows(x, 3, stride, rate))
    out = -(-size // stride)
    before = max((out - 1) * stride + 2 * rate + 1 - size, 0) // 2
    for row, column, dy, dx in np.ndindex(out, out, 3, 3):
        y, z = row * stride + dy * rate - before, column * stride + dx * rate - before
        wanted = x[0, y, z] if 0 <= y < size and 0 <= z < size else np.zeros(2)
        assert np.array_equal(windows[dy, dx][0, row, column], wanted)


def prepared(model: bytes) -> Any:
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    kernels = OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    interpreter = Interpreter(
        model_content=model, experimental_op_resolver_type=kernels, experimental_preserve_all_tensors=True
    )
    interpreter.allocate_tensors()
    return interpreter


def activations(model: bytes, seed: int) -> dict[str, NDArray[Any]]:
    """What every operator writes for a random input."""
    interpreter = prepared(model)
    (given,) = interpreter.get_input_details()
    interpreter.set_tensor(given["index"], random_values(given["dtype"], given["shape"], np.random.default_rng(seed)))
    interpreter.invoke()
    details = interpreter.get_tensor_details()
    constants = ("/weights", "/bias")
    names = {d["name"]: d["index"] for d in details if d["name"] != "image" and not d["name"].endswith(constants)}
    return {name: interpreter.get_tensor(index) for name, index in names.items() if name}
