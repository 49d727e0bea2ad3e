"""`Op.attributes` of ONNX operators, against numbers from ONNX's operator descriptions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from edgemem.formats import open_bytes

Shape = tuple[int, ...]


def attributes(
    kind: str, given: Shape, made: Shape, *constants: Any, domain: str = "", opset: int = 17, **options: Any
) -> dict[str, Any]:
    """The attributes of one node; a constant that is None is an absent input."""
    arrays = {f"c{k}": np.asarray(c) for k, c in enumerate(constants) if c is not None}
    names = ["x", *(f"c{k}" if c is not None else "" for k, c in enumerate(constants))]
    node = helper.make_node(kind, names, ["y"], domain=domain, **options)
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in (("x", given), ("y", made))]
    graph = helper.make_graph(
        [node], "g", ends[:1], ends[1:], [numpy_helper.from_array(a, n) for n, a in arrays.items()]
    )
    sets = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=sets, ir_version=8)
    return dict(open_bytes(model.SerializeToString(), ".onnx").graph().ops[0].attributes)


def weights(*shape: int) -> np.ndarray[Any, Any]:
    return np.zeros(shape, np.float32)


def test_a_convolution() -> None:
    found = attributes(
        "Conv", (1, 4, 9, 9), (1, 6, 5, 3), weights(6, 2, 3, 3), group=2, strides=[2, 3], pads=[1, 0, 1, 0]
    )
    assert found == {"kernel": (3, 3), "stride": (2, 3), "dilation": (1, 1), "pads": (1, 0, 1, 0), "group": 2}


@pytest.mark.parametrize(
    ("padding", "pads"), [("SAME_UPPER", (0, 0, 1, 1)), ("SAME_LOWER", (1, 1, 0, 0)), ("VALID", (0, 0, 0, 0))]
)
def test_automatic_padding_is_resolved(padding: str, pads: tuple[int, ...]) -> None:
    made = (1, 3, 3, 3) if padding == "VALID" else (1, 3, 4, 4)
    found = attributes("Conv", (1, 3, 8, 8), made, weights(3, 3, 3, 3), auto_pad=padding, strides=[2, 2])
    assert found["pads"] == pads


def test_a_fused_convolution() -> None:
    found = attributes(
        "FusedConv", (1, 4, 8, 8), (1, 4, 8, 8), weights(4, 4, 1, 1), domain="com.microsoft", activation="Relu"
    )
    assert (found["kernel"], found["pads"]) == ((1, 1), (0, 0, 0, 0))


def test_a_pool_that_rounds_up_has_none() -> None:
    assert attributes("MaxPool", (1, 2, 7, 7), (1, 2, 3, 3), kernel_shape=[2, 2], strides=[2, 2])
    assert not attributes("MaxPool", (1, 2, 7, 7), (1, 2, 4, 4), kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1)
    assert attributes("MaxPool", (1, 2, 8, 8), (1, 2, 4, 4), kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1)


def test_volumes_and_lines_have_none() -> None:
    assert not attributes("Conv", (1, 4, 9), (1, 6, 7), weights(6, 4, 3))
    assert not attributes("Conv", (1, 4, 9, 9, 9), (1, 6, 7, 7, 7), weights(6, 4, 3, 3, 3))


def test_slices() -> None:
    numbers = ([np.array(v, np.int64) for v in values] for values in (([-3], [2**63 - 1], [-2]), ([1, 0], [3, 2])))
    first, second = numbers
    assert attributes("Slice", (1, 2, 8, 8), (1, 2, 3, 8), *first) == {"begin": (0, 0, 5, 0), "size": (1, 2, 3, 8)}
    assert attributes("Slice", (4, 8), (2, 2), *second) == {"begin": (1, 0), "size": (2, 2)}
    stepped = [np.array([v], np.int64) for v in (0, 8, 2, 2)]
    assert not attributes("Slice", (1, 2, 8, 8), (1, 2, 4, 8), *stepped)


def test_paddings_come_by_dimension() -> None:
    pads = np.array([0, 0, 1, 2, 0, 0, 3, 4], np.int64)
    assert attributes("Pad", (1, 2, 8, 8), (1, 2, 12, 14), pads) == {"paddings": (0, 0, 0, 0, 1, 3, 2, 4)}
    assert not attributes("Pad", (1, 2, 8, 8), (1, 2, 12, 14), pads, mode="reflect")


@pytest.mark.parametrize(
    ("mode", "where", "rounding", "known"),
    [
        ("nearest", "asymmetric", "floor", True),
        ("nearest", "half_pixel", "round_prefer_floor", True),
        ("nearest", "asymmetric", "round_prefer_floor", False),
        ("nearest", "half_pixel", "floor", False),
        ("linear", "half_pixel", "round_prefer_floor", True),
        ("linear", "align_corners", "round_prefer_floor", False),
        ("cubic", "half_pixel", "round_prefer_floor", False),
    ],
)
def test_resizes(mode: str, where: str, rounding: str, *, known: bool) -> None:
    scales = np.array([1, 1, 2, 2], np.float32)
    found = attributes(
        "Resize",
        (1, 2, 4, 4),
        (1, 2, 8, 8),
        None,
        scales,
        mode=mode,
        coordinate_transformation_mode=where,
        nearest_mode=rounding,
    )
    assert bool(found) is known
    if known:
        centers = int(mode == "linear" and where == "half_pixel")
        assert found == {"mode": mode, "align_corners": 0, "half_pixel_centers": centers}


def test_axes_are_not_negative() -> None:
    assert attributes("Softmax", (2, 4), (2, 4), axis=-1) == {"axis": 1}
    assert attributes("Softmax", (2, 4), (2, 4)) == {}  # the default is not the same in all operator sets
    assert attributes("Concat", (2, 4), (2, 8), weights(2, 4), axis=-1) == {"axis": 1}


def test_a_resize_that_keeps_the_ratio_of_sides_has_none() -> None:
    """It has one scale for both sides, whatever the rounded sizes are."""
    sizes = np.array([1, 1, 2, 6], np.int64)
    for policy, known in (("stretch", True), ("not_smaller", False)):
        found = attributes(
            *("Resize", (1, 1, 2, 3), (1, 1, 2, 6), None, None, sizes),
            opset=18,
            mode="linear",
            keep_aspect_ratio_policy=policy,
        )
        assert bool(found) == known
