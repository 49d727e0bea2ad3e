"""Maps of indices against what NumPy does to the same shapes, element by element."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgemem.errors import ModelError, UnsupportedError
from edgemem.model import affine

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from edgemem.model.tensor_ops import AffineMap

SHAPES = st.lists(st.integers(1, 4), min_size=1, max_size=5).map(tuple)


def evaluated(op: AffineMap, x: NDArray[Any], shape: Sequence[int]) -> NDArray[Any]:
    """What a map says, literally: one loop over the output's elements."""
    assert max(len(op.out_dims), len(op.in_dims)) <= affine.MOST_DIMS
    assert prod(op.out_dims) == prod(shape)
    assert prod(op.in_dims) == x.size
    result = np.empty(prod(shape), x.dtype)
    for number, index in enumerate(np.ndindex(*op.out_dims)):
        parts = [divmod(i + a, b) for i, a, b in zip(index, op.shift, op.split, strict=True)]
        place: int | None = 0
        for k, size in enumerate(op.in_dims):
            i = op.offset[k]
            for d, (q, r) in enumerate(parts):
                i += op.quotients[k][d] * q + op.remainders[k][d] * r
            if not 0 <= i < size:
                if op.border == "value":
                    place = None
                    break
                if op.border == "edge":
                    i = min(max(i, 0), size - 1)
                elif i < 0:
                    i = -i - (op.border == "symmetric")
                else:
                    i = 2 * (size - 1) - i + (op.border == "symmetric")
            assert place is not None
            place = place * size + i
        result[number] = op.value if place is None else x.reshape(-1)[place]
    return result.reshape(tuple(shape))


def numbered(shape: Sequence[int]) -> NDArray[np.float32]:
    return np.arange(1, prod(shape) + 1, dtype=np.float32).reshape(tuple(shape))


def check(op: AffineMap, x: NDArray[Any], expected: NDArray[Any]) -> None:
    np.testing.assert_array_equal(evaluated(op, x, expected.shape), expected)


@settings(max_examples=60, deadline=None)
@given(SHAPES, st.randoms())
def test_reshapes_and_transposes(shape: tuple[int, ...], random: Any) -> None:
    x = numbered(shape)
    assert affine.reshape(0, 1, shape, (x.size,)).out_dims == (x.size,)
    check(affine.reshape(0, 1, shape, (1, x.size)), x, x.reshape(1, -1))
    perm = random.sample(range(len(shape)), len(shape))
    check(affine.transpose(0, 1, shape, perm), x, x.transpose(perm))


@settings(max_examples=60, deadline=None)
@given(SHAPES, st.data())
def test_slices_in_both_directions(shape: tuple[int, ...], data: st.DataObject) -> None:
    x = numbered(shape)
    begin, step, cuts = [], [], []
    for size in shape:
        start = data.draw(st.integers(0, size - 1))
        stride = data.draw(st.sampled_from((1, 2, 3, -1, -2)))
        begin.append(start)
        step.append(stride)
        cuts.append(slice(start, None, stride))
    expected = x[tuple(cuts)]
    check(affine.slice_(0, 1, shape, begin, step, expected.shape), x, expected)


@pytest.mark.full
@settings(max_examples=80, deadline=None)
@given(SHAPES, st.data())
def test_paddings(shape: tuple[int, ...], data: st.DataObject) -> None:
    x = numbered(shape)
    border: affine.Border = data.draw(st.sampled_from(("value", "edge", "reflect", "symmetric")))
    most = [{"reflect": size - 1, "symmetric": size}.get(border, 3) for size in shape]
    pads = [(data.draw(st.integers(0, m)), data.draw(st.integers(0, m))) for m in most]
    before = [p[0] for p in pads]
    if border == "value":
        expected = np.pad(x, pads, constant_values=7.5)
    else:
        expected = np.pad(x, pads, border)
    check(affine.pad(0, 1, shape, before, expected.shape, border, 7.5), x, expected)


def test_a_negative_padding_cuts() -> None:
    x = numbered((4, 5))
    check(affine.pad(0, 1, (4, 5), (-1, 2), (3, 4)), x, np.pad(x[1:, :2], ((0, 0), (2, 0))))


@settings(max_examples=60, deadline=None)
@given(SHAPES, st.data())
def test_tiles_and_broadcasts(shape: tuple[int, ...], data: st.DataObject) -> None:
    x = numbered(shape)
    repeats = [data.draw(st.integers(1, 3)) for _ in shape]
    check(affine.tile(0, 1, shape, repeats), x, np.tile(x, repeats))
    thin = [data.draw(st.sampled_from((1, d))) for d in shape]
    full = (*data.draw(st.sampled_from(((), (2,)))), *shape)
    check(affine.expand(0, 1, thin, full), numbered(thin), np.broadcast_to(numbered(thin), full))


@pytest.mark.parametrize("channels_first", [False, True])
@pytest.mark.parametrize("block", [1, 2, 3])
@pytest.mark.parametrize("mode", ["DCR", "CRD"])
def test_pixel_shuffles(mode: Any, block: int, *, channels_first: bool) -> None:
    """The reshape and transpose that ONNX's DepthToSpace is defined by."""
    n, c, h, w = 2, 2, 3, 4
    deep = numbered((n, c * block * block, h, w))
    if mode == "DCR":
        wide = deep.reshape(n, block, block, c, h, w).transpose(0, 3, 4, 1, 5, 2).reshape(n, c, h * block, w * block)
    else:
        wide = deep.reshape(n, c, block, block, h, w).transpose(0, 1, 4, 2, 5, 3).reshape(n, c, h * block, w * block)
    if not channels_first:
        deep, wide = (np.ascontiguousarray(v.transpose(0, 2, 3, 1)) for v in (deep, wide))
    check(affine.depth_to_space(0, 1, deep.shape, block, mode=mode, channels_first=channels_first), deep, wide)
    if mode == "DCR":
        check(affine.space_to_depth(0, 1, wide.shape, block, channels_first=channels_first), wide, deep)


@pytest.mark.parametrize(("block", "pads"), [((2, 3), ((1, 0), (2, 3))), ((2, 2), ((0, 1), (0, 0))), ((3,), ((0, 3),))])
def test_blocks_of_the_batch(block: tuple[int, ...], pads: tuple[tuple[int, int], ...]) -> None:
    """What TensorFlow's documentation of SpaceToBatchND says in reshapes and transposes."""
    x = numbered((2, 3, 4, 2))
    rank = len(block)
    padded = np.pad(x, ((0, 0), *pads, *((0, 0),) * (3 - rank)))
    small = [d // b for d, b in zip(padded.shape[1:], block, strict=False)]
    parts = [v for d, b in zip(small, block, strict=True) for v in (d, b)]
    split = padded.reshape(2, *parts, *padded.shape[1 + rank :])
    order = [*range(2, 2 * rank + 1, 2), 0, *range(1, 2 * rank, 2), *range(2 * rank + 1, split.ndim)]
    blocks = split.transpose(order).reshape(2 * prod(block), *small, *padded.shape[1 + rank :])
    check(affine.space_to_batch(0, 1, x.shape, block, [p[0] for p in pads], blocks.shape), x, blocks)
    check(affine.batch_to_space(0, 1, blocks.shape, block, [p[0] for p in pads], x.shape), blocks, x)


def test_dimensions_that_move_together_are_one() -> None:
    assert affine.transpose(0, 1, (2, 3, 4, 5), (0, 1, 2, 3)).out_dims == (120,)
    assert affine.transpose(0, 1, (2, 3, 4, 5), (0, 2, 3, 1)).out_dims == (2, 20, 3)
    assert affine.slice_(0, 1, (2, 3, 4, 5), (0, 1, 0, 0), (1, 1, 1, 1), (2, 2, 4, 5)).out_dims == (2, 40)
    eight = affine.transpose(0, 1, (2,) * 8, (4, 5, 6, 7, 0, 1, 2, 3))
    check(eight, numbered((2,) * 8), numbered((2,) * 8).transpose(4, 5, 6, 7, 0, 1, 2, 3))
    with pytest.raises(UnsupportedError, match="more than 6 dimensions"):
        affine.transpose(0, 1, (2,) * 8, (7, 6, 5, 4, 3, 2, 1, 0))


def test_nothing_outside_of_the_input_is_read() -> None:
    with pytest.raises(ModelError, match="outside"):
        affine.slice_(0, 1, (4,), (2,), (1,), (3,))
    with pytest.raises(ModelError, match="outside"):
        affine.slice_(0, 1, (4,), (1,), (-1,), (3,))
    with pytest.raises(ModelError, match="other numbers of elements"):
        affine.reshape(0, 1, (2, 3), (5,))
    with pytest.raises(ModelError, match="no permutation"):
        affine.transpose(0, 1, (2, 3), (0, 0))
    with pytest.raises(ModelError, match="broadcast"):
        affine.expand(0, 1, (2,), (3,))
    with pytest.raises(ModelError, match="reflect"):
        affine.pad(0, 1, (2,), (2,), (4,), "reflect")
    with pytest.raises(ModelError, match="blocks"):
        affine.batch_to_space(0, 1, (3, 2, 2, 1), (2, 2), (0, 0), (1, 4, 4, 1))
    with pytest.raises(ModelError, match="crops"):
        affine.batch_to_space(0, 1, (4, 2, 2, 1), (2, 2), (1, 0), (1, 4, 4, 1))
    with pytest.raises(ModelError, match="other ranks"):
        affine.tile(0, 1, (2, 2), (1,))
