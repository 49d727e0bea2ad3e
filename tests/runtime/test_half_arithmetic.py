"""Products of halves on a device with the feature `shader-f16`: within a proved bound, and in the plan's memory."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pytest

import edgemem
import tests.webgpu
from edgemem.model.tensor_ops import Convolution, FullyConnected, MatMul, TransposedConvolution
from edgemem.runtime.webgpu.device import open_device
from edgemem.runtime.webgpu.executor import GpuExecutor
from edgemem.runtime.webgpu.kernel_texts import prelude
from edgemem.runtime.webgpu.lowering import Lowering, lower
from edgemem.runtime.webgpu.web_bundle import write_bundle
from edgemem.targets import BUILT_IN
from tests.oracle.tensor_ops import evaluate
from tests.runtime.networks import feeds_of, small
from tests.webgpu import EVERY_REACH, Storage
from tests.webgpu_adapters import ADAPTERS
from tests.webgpu_programs import pyramid

if TYPE_CHECKING:
    from pathlib import Path

    from edgemem.model.tensor_ops import TensorOp
    from edgemem.runtime.webgpu.shaders import Precision

_ULP: Final = 2.0**-11  # of a float16 that is rounded to the nearest
_ROUNDINGS: Final = 4  # a product, and three sums of products
_STORED: Final = 2 * _ULP  # drivers may cut what they store
_LEAST: Final = 2.0**-24  # of a float16 that is not 0


def halves(*shape: int, seed: int = 0) -> Any:
    """Numbers that float16 holds."""
    return np.random.default_rng([seed, *shape]).standard_normal(shape).astype(np.float16).astype(np.float32)


def _positive(op: TensorOp) -> TensorOp:
    """The operation with the sizes of its weights."""
    arrays = {n: np.abs(getattr(op, n)) for n in ("weights", "bias") if getattr(op, n, None) is not None}
    return replace(op, **arrays)


_BIAS = halves(20, seed=1)
_STEPS: Final[dict[str, Any]] = {"input": 0, "output": 9}
OPS: Final[dict[str, tuple[TensorOp, tuple[int, ...], tuple[int, ...]]]] = {
    "convolution": (
        Convolution(weights=halves(20, 3, 3, 10), bias=_BIAS, stride=(2, 1), pads=(1, 1), **_STEPS),
        (1, 9, 8, 10),
        (1, 5, 8, 20),
    ),
    "groups": (Convolution(weights=halves(20, 3, 1, 5), groups=2, **_STEPS), (2, 7, 3, 10), (2, 5, 3, 20)),
    "transposed": (
        TransposedConvolution(weights=halves(20, 2, 3, 6), stride=(2, 2), **_STEPS),
        (1, 4, 5, 6),
        (1, 8, 11, 20),
    ),
    "fully_connected": (FullyConnected(weights=halves(20, 333), bias=_BIAS, **_STEPS), (3, 333), (3, 20)),
    "many_rows": (FullyConnected(weights=halves(20, 70), bias=_BIAS, **_STEPS), (1, 31, 70), (1, 31, 20)),
    "matrices": (MatMul(a=0, b=1, output=9, alpha=0.5), (2, 9, 37), (2, 9, 20)),
    "transposes": (MatMul(a=0, b=1, output=9, transpose_a=True, transpose_b=True), (2, 37, 9), (2, 9, 20)),
}


@pytest.mark.parametrize("name", OPS)
@pytest.mark.parametrize("storage", [s for s, precision in EVERY_REACH if precision == "fp16"])
def test_products_of_halves_are_within_their_bound(
    name: str, storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    if "shader-f16" not in tests.webgpu.device().features:
        pytest.skip("this adapter has no shader-f16")
    op, given, shape = OPS[name]
    feeds = {0: halves(*given, seed=2)}
    if name == "matrices":
        feeds[1] = halves(2, 37, 20, seed=3)
    elif name == "transposes":
        feeds[1] = halves(2, 20, 37, seed=3)
    shapes = {i: v.shape for i, v in feeds.items()} | {9: shape}
    context = Lowering(shapes, "nhwc", {})
    dispatches = [
        replace(d, weights=(*(w.astype(np.float16) for w in d.weights[:1]), *d.weights[1:]))  # type: ignore[arg-type]
        for d in lower(op, context)
    ]

    def run(precision: Precision = "fp16") -> Any:
        found = tests.webgpu.run(dispatches, context, feeds, storage=storage, precision=precision)
        return found[9].astype(np.float64)

    exact = evaluate(op, feeds, shape, "nhwc").astype(np.float64)  # in float64, rounded to float32
    sizes = evaluate(_positive(op), {i: np.abs(v) for i, v in feeds.items()}, shape, "nhwc").astype(np.float64)
    products = 1e3 * _LEAST  # of numbers that are too small: fewer than a thousand are summed
    bound = sizes * ((1 + _ULP) ** _ROUNDINGS - 1) * 1.001 + np.abs(exact) * _STORED * 1.01 + products
    with_halves = run()
    assert (np.abs(with_halves - exact) <= bound).all()
    monkeypatch.setattr(tests.webgpu, "prelude", lambda **_: prelude(has_f16=False))
    tests.webgpu._pipeline.cache_clear()
    try:
        with_floats = run()
    finally:
        tests.webgpu._pipeline.cache_clear()
    assert (np.abs(with_floats - exact) <= np.abs(exact) * _STORED * 1.01 + 1e-5 * sizes + _LEAST).all()
    assert (with_floats != with_halves).any()  # else nothing was computed with halves


@pytest.mark.parametrize("target", ["gpu-buffer-fp16", "gpu-texture-array-fp16"])
def test_a_planned_network_computes_with_halves(target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In memory full of NaN the bits are those without sharing, and they differ from those that floats give."""
    gpu = open_device(ADAPTERS[0])
    if "shader-f16" not in gpu.handle.features:
        pytest.skip("this adapter has no shader-f16")
    path = small("unet", tmp_path)
    planset = edgemem.plan(path, target=target, strategy=("offsets/greedy_by_size", "shared_objects/greedy_by_size"))
    feeds = feeds_of(path)
    found = {}
    for has_f16, sharing in ((True, True), (True, False), (False, True)):
        opened = replace(gpu, has_f16=has_f16, pipelines={})
        monkeypatch.setattr("edgemem.runtime.webgpu.executor.open_device", lambda *_, opened=opened: opened)
        with GpuExecutor(path, planset, poison=True, sharing=sharing) as executor:
            (found[has_f16, sharing],) = executor.run(None, feeds)
    halves_shared, floats = found[True, True], found[False, True]
    np.testing.assert_array_equal(halves_shared, found[True, False])
    assert (halves_shared != floats).any()
    assert floats.std() > 1e-4
    np.testing.assert_allclose(halves_shared, floats, rtol=0, atol=0.1 * floats.std())


@pytest.mark.parametrize(("target", "expected"), [("gpu-buffer", [False]), ("gpu-texture-fp16", [False, True])])
def test_a_bundle_in_fp16_has_halves_for_browsers_that_have_them(
    target: str, expected: list[bool], tmp_path: Path
) -> None:
    model = pyramid()
    write_bundle(model, tmp_path, edgemem.plan(model.graph(), target=BUILT_IN[target]))
    program = json.loads((tmp_path / "program.json").read_text())
    assert [text.startswith("enable f16;") for text in program["preludes"]] == expected
    assert b"enable f16" not in (tmp_path / "kernels.wgsl").read_bytes()
