"""Tensor operations of ONNX's convolutions, pools and resizes against ONNX Runtime."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from edgemem.model.tensor_ops import Convolution, Function, Pool, TransposedConvolution
from tests.extent import run_for_seeds
from tests.onnx_computed import check_alike, one, program_of, session

if TYPE_CHECKING:
    from numpy.typing import NDArray


def _numbers(rng: np.random.Generator, *shape: int) -> NDArray[np.float32]:
    return rng.standard_normal(shape).astype(np.float32)


def _window(rng: np.random.Generator, size: int) -> dict[str, Any]:
    """Attributes of a window over an image of a size, with any paddings."""
    kernel = [int(rng.integers(1, 5)), int(rng.integers(1, 4))]
    dilation = [int(rng.integers(1, 3)), int(rng.integers(1, 3))]
    made: dict[str, Any] = {"kernel_shape": kernel, "strides": rng.integers(1, 4, 2).tolist(), "dilations": dilation}
    pads = [int(rng.integers(0, k)) for k in (*kernel, *kernel)]
    kind = ("", "SAME_UPPER", "SAME_LOWER", "VALID")[int(rng.integers(0, 4))]
    made |= {"auto_pad": kind} if kind else {"pads": pads}
    if made.get("auto_pad", "").startswith("SAME"):  # ONNX Runtime refuses dilations and strides beyond the window then
        made["dilations"] = dilation = [1, 1]
        made["strides"] = [min(pair) for pair in zip(kernel, made["strides"], strict=True)]
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
    return made if max(reach) <= size else _window(rng, size)


@run_for_seeds(range(40), quick=8)
def test_convolutions(seed: int) -> None:
    rng = np.random.default_rng(seed)
    groups, each, out = (int(rng.integers(1, 4)) for _ in range(3))
    x = _numbers(rng, int(rng.integers(1, 3)), groups * each, 9, 8)
    about = _window(rng, 7)
    weights = _numbers(rng, groups * out, each, *about["kernel_shape"])
    bias = _numbers(rng, groups * out) if seed % 2 else None
    model, feeds = one("Conv", [x, weights, bias], fixed=(1, 2), group=groups, opset=(1, 11, 22)[seed % 3], **about)
    (step,) = check_alike(model, feeds)[0]
    assert isinstance(step, Convolution)
    assert step.weights.base is not None  # a view: nothing was copied


@pytest.mark.parametrize(
    ("activation", "parameters", "function"),
    [
        ("Relu", None, Function("relu")),
        ("Sigmoid", None, Function("sigmoid")),
        ("Tanh", None, Function("tanh")),
        ("LeakyRelu", [0.25], Function("leaky_relu", (0.25,))),
        ("Clip", [-0.5, 0.75], Function("clip", (-0.5, 0.75))),
        ("HardSigmoid", [0.25, 0.5], Function("hard_sigmoid", (0.25, 0.5))),
    ],
)
@pytest.mark.parametrize("added", [False, True])
def test_fused_convolutions(activation: str, parameters: list[float] | None, function: Function, added: bool) -> None:
    rng = np.random.default_rng(1)
    x, weights, bias, other = (_numbers(rng, *s) for s in ((1, 3, 6, 5), (4, 3, 3, 3), (4,), (1, 4, 6, 5)))
    more: dict[str, Any] = {"activation_params": parameters} if parameters else {}
    model, feeds = one(
        "FusedConv",
        [x, weights, bias, *([other] if added else [])],
        fixed=(1, 2),
        domain="com.microsoft",
        activation=activation,
        pads=[1, 1, 1, 1],
        **more,
    )
    (step,) = check_alike(model, feeds)[0]
    assert isinstance(step, Convolution)
    assert step.function == function
    assert (step.added >= 0) == added


@run_for_seeds(range(40), quick=8)
def test_transposed_convolutions(seed: int) -> None:
    rng = np.random.default_rng(seed)
    groups, each, out = (int(rng.integers(1, 4)) for _ in range(3))
    x = _numbers(rng, int(rng.integers(1, 3)), groups * each, 5, 4)
    kernel = rng.integers(1, 5, 2).tolist()
    stride = rng.integers(1, 4, 2).tolist()
    about: dict[str, Any] = {"strides": stride, "dilations": rng.integers(1, 3, 2).tolist()}
    about["output_padding"] = [int(rng.integers(0, s)) for s in stride]
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, about["dilations"], strict=True)]
    match seed % 4:
        case 0:
            about["pads"] = [int(rng.integers(0, k)) for k in (*kernel, *kernel)]
        case 1:
            about["auto_pad"] = ["SAME_UPPER", "SAME_LOWER"][int(rng.integers(0, 2))]
            about["output_padding"] = [0, 0]
        case 2:
            full = [(n - 1) * s + r for n, s, r in zip(x.shape[2:], stride, reach, strict=True)]
            least = x.shape[2:]  # ONNX infers no shape below that of the input
            about["output_shape"] = [max(n, f - int(rng.integers(0, 4))) for n, f in zip(least, full, strict=True)]
            about["auto_pad"] = ["SAME_UPPER", "SAME_LOWER", "NOTSET"][int(rng.integers(0, 3))]
    weights = _numbers(rng, groups * each, out, *kernel)
    bias = _numbers(rng, groups * out) if seed % 2 else None
    model, feeds = one("ConvTranspose", [x, weights, bias], fixed=(1, 2), group=groups, kernel_shape=kernel, **about)
    (step,) = check_alike(model, feeds)[0]
    assert isinstance(step, TransposedConvolution)


@run_for_seeds(range(60), quick=12)
def test_pools(seed: int) -> None:
    rng = np.random.default_rng(seed)
    kind = ("MaxPool", "AveragePool")[seed % 2]
    about = _window(rng, 7)
    about["ceil_mode"] = int(rng.integers(0, 2)) if about.get("auto_pad") != "VALID" else 0
    opset = (10, 12, 19, 22)[seed // 2 % 4]
    if kind == "AveragePool":
        about["count_include_pad"] = int(rng.integers(0, 2))
        if opset < 19:
            del about["dilations"]
    model, feeds = one(kind, [_numbers(rng, 2, 3, 9, 8)], opset=opset, **about)
    (step,) = check_alike(model, feeds)[0]
    assert isinstance(step, Pool)


def test_a_window_of_padding_alone_has_a_reason() -> None:
    """ONNX's inference of shapes has an element for it, ONNX Runtime has none."""
    about: dict[str, Any] = {"kernel_shape": [2, 2], "strides": [3, 3], "pads": [0, 0, 1, 1], "ceil_mode": 1}
    model, _ = one("MaxPool", [_numbers(np.random.default_rng(0), 1, 3, 5, 5)], **about)
    assert program_of(model).steps == ("MaxPool with windows of padding alone, which are not counted",)


@pytest.mark.parametrize(
    "attributes",
    [{}, {"strides": [3], "pads": [1, 4]}, {"dilations": [2], "pads": [1, 3]}, {"group": 2, "pads": [0, 2]}],
)
def test_convolutions_along_one_axis(attributes: dict[str, Any]) -> None:
    rng = np.random.default_rng(0)
    weights = _numbers(rng, 6, 4 // attributes.get("group", 1), 3)
    check_alike(*one("Conv", [_numbers(rng, 2, 4, 11), weights, _numbers(rng, 6)], fixed=(1, 2), **attributes))


@pytest.mark.parametrize(
    ("shape", "weights", "fixed", "attributes", "reason"),
    [
        ((1, 2, 5, 5), (3, 2, 3, 3), (), {}, "Conv with weights that are computed"),
        ((1, 2, 5, 5, 5), (3, 2, 3, 3, 3), (1,), {}, "Conv over 3 axes, not height and width"),
    ],
)
def test_what_is_no_image_has_a_reason(
    shape: tuple[int, ...], weights: tuple[int, ...], fixed: tuple[int, ...], attributes: dict[str, Any], reason: str
) -> None:
    rng = np.random.default_rng(0)
    model, _ = one("Conv", [_numbers(rng, *shape), _numbers(rng, *weights)], fixed=fixed, **attributes)
    assert program_of(model).steps == (reason,)


@pytest.mark.parametrize("size", [1, 3, 5])  # ONNX Runtime takes no even ones
def test_local_response(size: int) -> None:
    x = _numbers(np.random.default_rng(0), 2, 7, 3, 2)
    check_alike(*one("LRN", [x], size=size, alpha=0.5, beta=0.6, bias=1.5))


@run_for_seeds(range(80), quick=16)
def test_resizes(seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = _numbers(rng, 2, 3, int(rng.integers(1, 7)), int(rng.integers(1, 7)))
    mode = ["nearest", "linear"][seed % 2]
    where = ["half_pixel", "pytorch_half_pixel", "asymmetric", "align_corners", "tf_half_pixel_for_nn"]
    place = where[int(rng.integers(0, 4 if mode == "linear" else 5))]
    rounding = ["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"][int(rng.integers(0, 4))]
    opset = (11, 13, 18, 19)[seed // 2 % 4]
    empty = np.zeros(0, np.float32)
    if rng.integers(0, 2):
        factors = np.array([1, 1, *rng.choice([0.5, 0.75, 1.5, 2, 3], 2)], np.float32)
        inputs: list[NDArray[Any] | None] = [x, empty, factors]
        if min(int(n * f) for n, f in zip(x.shape, factors, strict=True)) < 1:
            inputs[2] = np.array([1, 1, 2, 2], np.float32)
    else:
        inputs = [x, empty, empty if opset == 11 else None, np.array([2, 3, *rng.integers(1, 12, 2)], np.int64)]
    model, feeds = one(
        "Resize",
        inputs,
        fixed=range(1, len(inputs)),
        opset=opset,
        mode=mode,
        coordinate_transformation_mode=place,
        nearest_mode=rounding,
    )
    check_alike(model, feeds)


@pytest.mark.parametrize(
    ("kind", "opset", "factors"),
    [
        *(("Upsample", 9, factors) for factors in ((2, 2), (1.5, 2.5), (1, 3))),
        *(("Resize", 10, factors) for factors in ((2, 2), (1.5, 2.5), (1, 3), (0.5, 0.5), (0.5, 1))),
    ],
)
@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_old_resizes(kind: str, opset: int, factors: tuple[float, float], mode: str) -> None:
    x = _numbers(np.random.default_rng(0), 1, 2, 4, 6)
    scales = np.array([1, 1, *factors], np.float32)
    check_alike(*one(kind, [x, scales], fixed=(1,), opset=opset, mode=mode))


def test_resizes_without_an_operation_have_reasons() -> None:
    x, scales = np.zeros((1, 2, 4, 4), np.float32), np.array([1, 1, 2, 2], np.float32)
    for mode, shape in (("cubic", scales), ("nearest", np.array([1, 2, 2, 2], np.float32))):
        model, _ = one("Resize", [x, None, shape], fixed=(2,), mode=mode)
        session(model.SerializeToString())  # it is a model that runs
        (step,) = program_of(model).steps
        assert step in ("Resize with mode 'cubic'", "Resize of other axes than height and width")
