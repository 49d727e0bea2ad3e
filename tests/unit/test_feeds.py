"""Made-up inputs: one maker for all runtimes."""

from __future__ import annotations

import numpy as np
import pytest

from edgemem.errors import UnknownShapeError, UnsupportedError
from edgemem.formats import Bindings
from edgemem.runtime.feeds import make_feeds, random_values
from tests.extent import run_for_seeds

INPUTS = {
    "image": ("float32", ("N", 3, 8)),
    "ids": ("int64", ("N", 16)),
    "count": ("int32", ()),
    "mask": ("bool", (64,)),
    "pixels": ("uint8", (512,)),
    "levels": ("int8", (512,)),
}


def test_the_same_seed_gives_the_same_values() -> None:
    one, again, other = (make_feeds(INPUTS, Bindings({"N": 2}), seed=seed) for seed in (1, 1, 2))
    for name, value in one.items():
        assert value.dtype == np.dtype(INPUTS[name][0])
        assert np.array_equal(value, again[name])
    assert not np.array_equal(one["image"], other["image"])
    assert one["image"].shape == (2, 3, 8)


@run_for_seeds(range(20), quick=4)
def test_nothing_is_zeros_alone_and_indices_stay_small(seed: int) -> None:
    made = make_feeds(INPUTS, Bindings({"N": 1}), seed=seed)
    assert all(np.any(value) for value in made.values())
    assert {*made["ids"].flat, *made["count"].flat} <= {0, 1}
    assert made["count"] == 1
    assert set(made["mask"].tolist()) == {False, True}
    assert made["pixels"].max() > 200
    assert made["levels"].min() < -90
    assert made["levels"].max() > 90
    assert np.abs(made["image"]).max() < 6


@pytest.mark.parametrize("dtype", ["float16", "float64", "complex64", "int16", "uint32", "uint64"])
@pytest.mark.parametrize("shape", [(), (0,), (1,), (4, 5)])
def test_every_dtype_and_shape(dtype: str, shape: tuple[int, ...]) -> None:
    made = random_values(dtype, shape, np.random.default_rng(0))
    assert (made.dtype, made.shape) == (np.dtype(dtype), shape)


def test_what_cannot_be_made() -> None:
    with pytest.raises(UnsupportedError, match=r"input 'x' is bfloat7, .*--input x=FILE\.npy"):
        make_feeds({"x": ("bfloat7", (1,))})
    with pytest.raises(UnsupportedError, match="give them"):
        random_values("U4", (1,), np.random.default_rng(0))
    with pytest.raises(UnknownShapeError, match=r"(?m)inputs 'a', 'b'.*--dim N=VALUE --input-shape b=N,3$") as caught:
        make_feeds({"a": ("float32", ("N", 2)), "b": ("float32", (None, 3)), "c": ("float32", (1,))})
    assert tuple(caught.value.tensors) == ("a", "b")
    made = make_feeds({"b": ("float32", (None, 3))}, Bindings(input_shapes={"b": (2, 3)}))
    assert made["b"].shape == (2, 3)
