"""Operators and networks of .tflite files on WebGPU against LiteRT's kernels on the CPU."""

from __future__ import annotations

from itertools import cycle
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pytest

from edgemem.errors import UnsupportedError
from edgemem.runtime.webgpu.executor import GpuExecutor
from edgemem_converters.tflite.model import TfliteConverter
from models.build import TFLITE, build_tflite
from models.fetch import FetchError, fetch
from tests.tflite_cases import CASES, POSITIVE
from tests.tflite_operators import build, random_feeds, run
from tests.webgpu_adapters import need_adapter

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from edgemem.runtime.webgpu.gpu_model import Storage

pytest.importorskip("ai_edge_litert")

STORAGES: Final[tuple[Storage, ...]] = ("buffer", "texture2d", "texture-linear", "texture-array")
ALL: Final = {**CASES, **POSITIVE}
# Each operator in one storage, each storage with a quarter of them.
WHERE: Final = list(zip(ALL, cycle(STORAGES), strict=False))


def apart(data: bytes, feeds: Mapping[int, NDArray[Any]], storage: Storage) -> float:
    """The largest difference of any output, relative to its spread."""
    graph = TfliteConverter.from_bytes(data).graph()
    with GpuExecutor(data, storage=storage, adapter=need_adapter(), poison=True) as executor:
        found = executor.run(None, {graph.tensors[i].name: value for i, value in feeds.items()})
    expected = run(data, feeds)
    errors = []
    for index, value in zip(graph.outputs, found, strict=True):
        wanted = expected[index]
        assert (value.shape, value.dtype) == (wanted.shape, wanted.dtype)
        spread = float(wanted.astype(np.float64).std()) or float(np.abs(wanted).max()) or 1.0
        errors.append(float(np.abs(value.astype(np.float64) - wanted).max()) / spread)
    return max(errors)


@pytest.mark.full
@pytest.mark.parametrize(("name", "storage"), WHERE)
def test_an_operator_is_what_litert_computes(name: str, storage: Storage) -> None:
    data = build(*ALL[name][:4], version=2 if ALL[name][0] == "BROADCAST_TO" else 1)
    low, high = (0.1, 3.0) if name in POSITIVE else (-2.0, 2.0)
    assert apart(data, random_feeds(data, 1, low, high), storage) < 2e-5


@pytest.mark.full
@pytest.mark.parametrize(("name", "storage"), list(zip(TFLITE, STORAGES, strict=True)))
def test_a_network_is_what_litert_computes(name: str, storage: Storage) -> None:
    data = build_tflite(name, size="small")
    assert apart(data, random_feeds(data, 2, -1.7, 1.7), storage) < 1e-3


@pytest.mark.full
def test_single_operators_run_on_the_cpu_where_they_are_asked_to() -> None:
    """One operator of the network has no kernel: its file runs in LiteRT."""
    try:
        data = fetch("basic_pitch_nmp").read_bytes()
    except FetchError as e:
        pytest.skip(str(e))
    with pytest.raises(UnsupportedError, match="SELECT_V2"):
        GpuExecutor(data, adapter=need_adapter())
    graph = TfliteConverter.from_bytes(data).graph()
    feeds = random_feeds(data, 3, -0.5, 0.5)
    expected = run(data, feeds)
    with GpuExecutor(data, adapter=need_adapter(), cpu_ops=True) as executor:
        found = executor.run(None, {graph.tensors[i].name: value for i, value in feeds.items()})
    for index, value in zip(graph.outputs, found, strict=True):
        wanted = expected[index]
        assert wanted.std() > 1e-3
        assert float(np.abs(value - wanted).max()) < 2e-3 * wanted.std()
