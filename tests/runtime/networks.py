"""What the tests of ONNX Runtime run: reference networks, fetched models, and values to feed them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import pytest

from models.build import build, names
from models.fetch import FetchError, fetch

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

__all__ = ["DIMS", "FETCHED", "NETWORKS", "equal", "feeds_of", "fetched", "small"]

NETWORKS = names()
DIMS = {"dynamic": {"T": 5}}

# Fetched models with the shapes they are run at; what is not named is 1.
FETCHED: dict[str, dict[str, tuple[int, ...]]] = {
    "silero_vad": {"input": (1, 512), "state": (2, 1, 128)},
    "silero_vad_half": {"input": (1, 512), "state": (2, 1, 128)},
    "silero_vad_op18_ifless": {"input": (1, 512), "state": (2, 1, 128)},
    "silero_vad_openvino_16k": {},
    "rapidocr_det": {"x": (1, 3, 96, 96)},
    "rapidocr_rec": {"x": (1, 3, 48, 96)},
    "rapidocr_cls": {"x": (1, 3, 48, 192)},
    "magika": {},
    "basic_pitch_nmp_onnx": {},
    "light_squeezenet": {},
    "light_shufflenet": {},
    "light_inception_v1": {},
}


def small(name: str, folder: Path) -> Path:
    """A small reference network as a file."""
    path = folder / f"{name}.onnx"
    onnx.save(build(name, size="small"), path)
    return path


def fetched(name: str) -> Path:
    """A fetched model; the test is skipped where it cannot be had."""
    try:
        return fetch(name)
    except FetchError as e:
        pytest.skip(f"no {name}: {e}")


def feeds_of(
    path: Path,
    *,
    dims: Mapping[str, int] | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    seed: int = 1,
) -> dict[str, NDArray[Any]]:
    """Random values for every input of a model; whole numbers are 0 or 1, and a sample rate is one."""
    model = onnx.load(path, load_external_data=False)
    constants = {t.name for t in model.graph.initializer}
    rng = np.random.default_rng(seed)
    values: dict[str, NDArray[Any]] = {}
    for info in model.graph.input:
        if info.name in constants:
            continue
        made = info.type.tensor_type
        shape = [max(d.dim_value, 1) if not d.dim_param else (dims or {}).get(d.dim_param, 1) for d in made.shape.dim]
        shape = list((shapes or {}).get(info.name, shape))
        dtype = onnx.helper.tensor_dtype_to_np_dtype(made.elem_type)
        if dtype.kind == "f":
            values[info.name] = rng.standard_normal(shape).astype(dtype)
        else:
            values[info.name] = np.asarray(rng.integers(0, 2, shape)).astype(dtype)
        if info.name == "sr":
            values[info.name] = np.array(16000, dtype)
    return values


def equal(left: Sequence[NDArray[Any]], right: Sequence[NDArray[Any]]) -> bool:
    """Whether two runs gave the same, bit for bit."""
    return len(left) == len(right) and all(
        a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
        for a, b in zip(left, right, strict=True)
    )
