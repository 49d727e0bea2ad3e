"""Tensor operations of ONNX's reductions, normalizations, softmaxes, and of operators that move elements."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from onnx import TensorProto

from edgemem.model.tensor_ops import AffineMap, Concat, Gather, Normalization, Reduce, Unary
from tests.extent import run_for_seeds
from tests.onnx_computed import check_alike, one, program_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

INT64 = TensorProto.INT64


def _numbers(*shape: int, seed: int = 0) -> NDArray[Any]:
    return np.asarray(np.random.default_rng(seed).standard_normal(shape), np.float32)


def _ints(*values: int) -> NDArray[Any]:
    return np.array(values, np.int64)


# Along axes.


@pytest.mark.parametrize("kind", ["Mean", "Sum", "Max", "Min", "Prod", "L2", "SumSquare"])
@pytest.mark.parametrize("axes", [None, (1,), (-1, 0), (2, 3), (0, 1, 2, 3)])
@pytest.mark.parametrize("keep", [0, 1])
def test_reductions(kind: str, axes: tuple[int, ...] | None, keep: int) -> None:
    x = _numbers(2, 3, 4, 5) / np.float32(2)
    about: dict[str, Any] = {"keepdims": keep} | ({"axes": list(axes)} if axes else {})
    for opset in (11, 18):
        if opset == 18 or (opset == 13 and kind == "Sum"):
            given = [x, *([_ints(*axes)] if axes else [])]
            model, feeds = one(f"Reduce{kind}", given, fixed=(1,), opset=opset, keepdims=keep)
        else:
            model, feeds = one(f"Reduce{kind}", [x], opset=opset, **about)
        ((step,),) = check_alike(model, feeds)
        assert isinstance(step, Reduce)
        assert step.axes == tuple(sorted(a % 4 for a in axes or range(4)))


def test_reductions_along_no_axis() -> None:
    ((step,),) = check_alike(*one("ReduceSum", [_numbers(2, 3)], noop_with_empty_axes=1))
    assert isinstance(step, Unary)


@pytest.mark.parametrize("kind", ["GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool"])
@pytest.mark.parametrize("shape", [(2, 3, 4, 5), (2, 3, 7), (1, 2, 3, 2, 2)])
def test_pools_over_all(kind: str, shape: tuple[int, ...]) -> None:
    check_alike(*one(kind, [_numbers(*shape)]))


@pytest.mark.parametrize("kind", ["Softmax", "LogSoftmax"])
def test_softmaxes(kind: str) -> None:
    for axis in (-1, 0, 1, 2):
        check_alike(*one(kind, [_numbers(3, 4, 5)], opset=13, axis=axis))
    check_alike(*one(kind, [_numbers(3, 4, 5)], opset=13))
    for shape, axis in (((3, 4), 1), ((3, 4, 5), -1), ((3, 4, 1, 1), 1), ((1, 1, 6), 0), ((2, 1), 1)):
        check_alike(*one(kind, [_numbers(*shape)], opset=11, axis=axis))
    check_alike(*one(kind, [_numbers(3, 4, 1)], opset=11))
    (reason,) = program_of(one(kind, [_numbers(3, 4, 5)], opset=11)[0]).steps
    assert reason == f"{kind} along axes (1, 2) as one"


@pytest.mark.parametrize("kind", ["ArgMax", "ArgMin"])
@pytest.mark.parametrize("last", [0, 1])
@pytest.mark.parametrize("keep", [0, 1])
def test_places_of_the_largest(kind: str, last: int, keep: int) -> None:
    x = np.round(_numbers(3, 4, 5))
    for axis in (0, 1, -1):
        check_alike(*one(kind, [x], elems=(INT64,), axis=axis, select_last_index=last, keepdims=keep))


@pytest.mark.parametrize("opset", [7, 9, 14, 15])
@pytest.mark.parametrize("shape", [(2, 3, 4, 5), (2, 3, 4), (2, 3)])
def test_batch_normalization(opset: int, shape: tuple[int, ...]) -> None:
    x, scale, shift, mean = _numbers(*shape), _numbers(3, seed=1), _numbers(3, seed=2), _numbers(3, seed=3)
    variance = np.abs(_numbers(3, seed=4))
    model, feeds = one(
        "BatchNormalization", [x, scale, shift, mean, variance], fixed=(1, 2, 3, 4), opset=opset, epsilon=1e-3
    )
    ((step,),) = check_alike(model, feeds)
    assert isinstance(step, Normalization)
    assert step.axes == ()


def test_normalizations_that_train_have_reasons() -> None:
    given: list[NDArray[Any] | None] = [_numbers(2, 3, 4), *(_numbers(3, seed=k) for k in range(4))]
    model, _ = one("BatchNormalization", given, 3, fixed=(1, 2, 3, 4), opset=15, training_mode=1)
    assert program_of(model).steps == ("BatchNormalization while it trains",)
    computed, _ = one("BatchNormalization", given, fixed=(1, 3, 4), opset=15)
    assert program_of(computed).steps == ("BatchNormalization with addends that are computed",)


@pytest.mark.parametrize("shape", [(2, 3, 4, 5), (2, 3, 8)])
def test_instance_and_group_normalization(shape: tuple[int, ...]) -> None:
    x, scale, shift = _numbers(*shape), _numbers(3, seed=1), _numbers(3, seed=2)
    check_alike(*one("InstanceNormalization", [x, scale, shift], fixed=(1, 2), epsilon=0.01))
    for groups in (1, 3):
        check_alike(*one("GroupNormalization", [x, scale, shift], fixed=(1, 2), opset=21, num_groups=groups))


@pytest.mark.parametrize("axis", [-1, 1, 2, 0])
def test_layer_normalization(axis: int) -> None:
    x = _numbers(2, 3, 4)
    scale, shift = _numbers(*x.shape[axis:], seed=1), _numbers(*x.shape[axis:], seed=2)
    for given in ([x, scale, shift], [x, scale]):
        ((step,),) = check_alike(*one("LayerNormalization", given, fixed=(1, 2), axis=axis))
        assert isinstance(step, Normalization)
        assert step.axes == tuple(range(axis % 3, 3))


def test_a_layer_normalization_of_a_sum_that_is_an_output() -> None:
    given = [_numbers(2, 3, 8), _numbers(2, 3, 8, seed=1), _numbers(8, seed=2), _numbers(8, seed=3)]
    model, feeds = one("SkipLayerNormalization", given, ["o0", "", "", "o3"], fixed=(2, 3), domain="com.microsoft")
    ((_total, _normal),) = check_alike(model, feeds)
    alone, _ = one("SkipLayerNormalization", given, fixed=(2, 3), domain="com.microsoft")
    assert program_of(alone).steps == ("com.microsoft::SkipLayerNormalization whose sum is no output",)


def test_lengths_and_variances() -> None:
    x = _numbers(2, 3, 4, 5)
    x[0, :, 0, 0] = 0
    check_alike(*one("LpNormalization", [x], axis=1))
    check_alike(*one("MeanVarianceNormalization", [x], opset=13))
    check_alike(*one("MeanVarianceNormalization", [x], opset=13, axes=[0, 2]))


# Moves.


def test_reshapes() -> None:
    x = _numbers(2, 3, 4, 5)
    for shape in ((6, 20), (0, -1), (2, 3, 4, 5), (5, 4, 3, 2), (120,)):
        check_alike(*one("Reshape", [x, _ints(*shape)], fixed=(1,)))
    for axis in (0, 1, 2, 4, -1):
        check_alike(*one("Flatten", [x], axis=axis))
    check_alike(*one("Unsqueeze", [x], opset=11, axes=[0, 3]))
    check_alike(*one("Unsqueeze", [x, _ints(-1)], fixed=(1,)))
    check_alike(*one("Squeeze", [_numbers(1, 3, 1, 5)], opset=11))
    check_alike(*one("Squeeze", [_numbers(1, 3, 1, 5), _ints(2)], fixed=(1,)))


@run_for_seeds(range(12), quick=3)
def test_transposes(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rank = int(rng.integers(1, 7))
    x = _numbers(*rng.integers(1, 4, rank).tolist())
    check_alike(*one("Transpose", [x], perm=rng.permutation(rank).tolist()))
    check_alike(*one("Transpose", [x]))


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
def test_concatenations(axis: int) -> None:
    shapes = [[2, 3, 4] for _ in range(3)]
    for k, shape in enumerate(shapes):
        shape[axis] = k + 1
    parts = [_numbers(*shape, seed=k) for k, shape in enumerate(shapes)]
    ((step,),) = check_alike(*one("Concat", parts, fixed=(1,), axis=axis))
    assert isinstance(step, Concat)
    shapes[1][axis] = 0
    parts[1] = _numbers(*shapes[1])
    ((step,),) = check_alike(*one("Concat", parts, fixed=(1,), axis=axis))
    assert isinstance(step, Concat)
    assert len(step.inputs) == 2


def test_splits() -> None:
    x = _numbers(2, 7, 4)
    check_alike(*one("Split", [x, _ints(2, 1, 4)], 3, fixed=(1,), axis=1))
    check_alike(*one("Split", [x], 3, opset=11, axis=1, split=[3, 3, 1]))
    check_alike(*one("Split", [x], 2, opset=11, axis=-1))
    check_alike(*one("Split", [x], 2, opset=18, axis=1, num_outputs=2))


@run_for_seeds(range(40), quick=8)
def test_slices(seed: int) -> None:
    rng = np.random.default_rng(seed)
    shape = rng.integers(1, 8, int(rng.integers(1, 5))).tolist()
    axes = rng.permutation(len(shape))[: int(rng.integers(1, len(shape) + 1))].tolist()
    starts: list[int] = []
    ends: list[int] = []
    steps: list[int] = []
    for axis in axes:
        low, high = sorted(rng.choice(np.arange(shape[axis] + 1), 2, replace=False).tolist())
        step = int(rng.integers(1, 4))
        if rng.integers(0, 2):
            starts, ends, steps = [*starts, low], [*ends, high if rng.integers(0, 2) else 2**62], [*steps, step]
        else:  # backwards
            starts, ends, steps = [*starts, high - 1], [*ends, low - 1 - shape[axis]], [*steps, -step]
    given: list[NDArray[Any] | None] = [_numbers(*shape), _ints(*starts), _ints(*ends), _ints(*axes), _ints(*steps)]
    ((step_made,),) = check_alike(*one("Slice", given, fixed=(1, 2, 3, 4), opset=13))
    assert isinstance(step_made, AffineMap)


def test_old_slices() -> None:
    x = _numbers(4, 5, 6)
    check_alike(*one("Slice", [x], opset=9, starts=[1, -4], ends=[3, 100], axes=[0, 2]))
    check_alike(*one("Slice", [x], opset=9, starts=[1, 0], ends=[3, -1]))


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_elements_in_equal_steps(axis: int) -> None:
    x = _numbers(4, 5, 6)
    for indices in (
        _ints(1, 2, 3),
        np.array(2, np.int64),
        _ints(-1),
        _ints(3, 1),
        _ints(2, 2),
        _ints(0, 1, 2, 3).reshape(2, 2),
    ):
        ((step,),) = check_alike(*one("Gather", [x, indices], fixed=(1,), axis=axis))
        assert isinstance(step, AffineMap)
    for indices, fixed in ((_ints(0, 1, 3), (1,)), (_ints(0, -1, 3, 2).reshape(2, 2), ()), (np.array(1, np.int64), ())):
        ((step,),) = check_alike(*one("Gather", [x, indices], fixed=fixed, axis=axis))
        assert isinstance(step, Gather)


def test_elements_at_several_indices_and_at_indices_of_their_own() -> None:
    x, places = _numbers(4, 5, 6), np.random.default_rng(0).integers(-4, 4, (2, 3, 3))
    for axes in (1, 2, 3):
        check_alike(*one("GatherND", [x, places[..., :axes]]))
    for axis, shape in ((0, (7, 5, 6)), (-1, (4, 5, 2))):
        check_alike(*one("GatherElements", [x, np.random.default_rng(1).integers(-4, 4, shape)], axis=axis))
    model, _ = one("GatherND", [x, places[:, :1, :1].repeat(2, 0)], batch_dims=1)
    assert program_of(model).steps == ("GatherND with indices within a batch, or of another rank than its input",)


@pytest.mark.parametrize("attributes", [{}, {"exclusive": 1}, {"reverse": 1}, {"exclusive": 1, "reverse": 1}])
def test_cumulative_sums_of_integers(attributes: dict[str, Any]) -> None:
    x = np.random.default_rng(0).integers(-9, 9, (2, 3, 7))
    check_alike(*one("CumSum", [x, np.array(-1, np.int64)], fixed=(1,), elems=(INT64,), **attributes))
    (reason,) = program_of(one("CumSum", [x, np.array(1, np.int64)], fixed=(1,), elems=(INT64,), **attributes)[0]).steps
    assert reason == "CumSum along another axis than the last one"


@pytest.mark.parametrize("mode", ["constant", "edge", "reflect"])
@pytest.mark.parametrize("seed", range(6))
def test_paddings(mode: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = _numbers(2, 3, 4, 5)
    most = [2 * size - 1 if mode != "reflect" else size for size in x.shape]
    pads = [int(rng.integers(-1 if mode == "constant" else 0, n)) for n in (*most, *most)]
    value = np.array(1.5, np.float32)
    check_alike(*one("Pad", [x, _ints(*pads), value if mode == "constant" else None], fixed=(1, 2), mode=mode))
    if min(pads) >= 0:
        check_alike(*one("Pad", [x], opset=10, mode=mode, pads=pads, value=2.5))


def test_paddings_of_axes() -> None:
    given: list[NDArray[Any] | None] = [_numbers(2, 3, 4), _ints(1, 2, 0, 1), None, _ints(-1, 0)]
    check_alike(*one("Pad", given, fixed=(1, 3), opset=18))
    (reason,) = program_of(one("Pad", given, fixed=(1, 3), opset=19, mode="wrap")[0]).steps
    assert reason == "Pad with mode 'wrap'"


def test_repetitions() -> None:
    x = _numbers(2, 1, 3)
    check_alike(*one("Tile", [x, _ints(2, 3, 1)], fixed=(1,)))
    check_alike(*one("Expand", [x, _ints(4, 1, 5, 1)], fixed=(1,)))
    check_alike(*one("Expand", [_numbers(3, 1), _ints(3, 4)], fixed=(1,)))


@pytest.mark.parametrize("block", [2, 3])
def test_pixel_shuffles(block: int) -> None:
    x = _numbers(2, 2 * block * block, 3, 4)
    for mode in ("DCR", "CRD"):
        check_alike(*one("DepthToSpace", [x], blocksize=block, mode=mode))
    check_alike(*one("DepthToSpace", [x], opset=9, blocksize=block))
    check_alike(*one("SpaceToDepth", [_numbers(2, 3, 2 * block, block)], blocksize=block))
