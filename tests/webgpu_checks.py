"""A tensor operation on a GPU against the oracle, in all storages and precisions, with NaN around all tensors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from edgemem.runtime.webgpu.lowering import Lowering, lower
from tests.oracle.tensor_ops import evaluate, reads
from tests.webgpu import compute

if TYPE_CHECKING:
    from collections.abc import Sequence

    from edgemem.model.graph import Layout
    from edgemem.model.tensor_ops import TensorOp

__all__ = ["HALF", "agree", "kernels", "numbers"]

HALF = 2e-3  # of 16-bit floats: operands are rounded, and what is read back

Values: TypeAlias = Mapping[int, NDArray[np.float32]]


def numbers(*shape: int, seed: int = 0) -> NDArray[np.float32]:
    """Normally distributed numbers, which 16-bit floats hold, too."""
    rng = np.random.default_rng([seed, *shape])
    return rng.normal(size=shape).astype(np.float16).astype(np.float32)


def kernels(op: TensorOp, shapes: Mapping[int, tuple[int, ...]], layout: Layout) -> list[str]:
    """The names of the kernels that compute an operation."""
    return [d.kernel for d in lower(op, Lowering(shapes, layout))]


def agree(
    op: TensorOp,
    feeds: Values,
    shape: Sequence[int],
    layout: Layout = "nhwc",
    *,
    constants: Values | None = None,
    tolerance: float = 1e-5,
    half: float = HALF,
) -> None:
    """Check an operation: close to the oracle, and the same to the bit in all storages and in place.

    Args:
        op: the operation.
        feeds: its inputs.
        shape: of its output.
        layout: of the graph.
        constants: inputs that are constants.
        tolerance: of 32-bit results, relative to 1 or to the number if that is larger.
        half: the same of 16-bit results.
    """
    dims, known = tuple(shape), dict(constants or {})
    expected = evaluate(op, {**feeds, **known}, dims, layout)
    usual = compute(op, feeds, dims, layout=layout, constants=known)
    _close(usual, expected, tolerance)
    for storage in ("texture2d", "texture-linear", "texture-array"):
        found = compute(op, feeds, dims, layout=layout, constants=known, storage=storage)
        np.testing.assert_array_equal(found, usual)
    usual_half = compute(op, feeds, dims, layout=layout, constants=known, precision="fp16")
    _close(usual_half, expected, half)
    for number in _in_place(op, feeds, dims, layout, known):
        found = compute(op, feeds, dims, layout=layout, constants=known, in_place=number)
        np.testing.assert_array_equal(found, usual)
        found = compute(op, feeds, dims, layout=layout, constants=known, in_place=number, precision="fp16")
        np.testing.assert_array_equal(found, usual_half)


def _in_place(op: TensorOp, feeds: Values, dims: tuple[int, ...], layout: Layout, known: Values) -> list[int]:
    """The inputs that the output may overwrite."""
    shapes = {i: v.shape for i, v in (*feeds.items(), *known.items())} | {op.output: dims}
    dispatches = lower(op, Lowering(shapes, layout, known))
    tensors = [t for t in dict.fromkeys(reads(op)) if t in feeds and feeds[t].shape == dims]
    return [
        t for t in tensors if all(k in d.in_place for d in dispatches for k, name in enumerate(d.inputs) if name == t)
    ]


def _close(found: NDArray[np.float32], expected: NDArray[np.float32], tolerance: float) -> None:
    assert found.shape == expected.shape
    size = np.maximum(1, np.abs(np.where(np.isfinite(expected), expected, 1)))
    np.testing.assert_allclose(found / size, expected / size, rtol=0, atol=tolerance)
