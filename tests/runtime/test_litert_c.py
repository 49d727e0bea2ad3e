"""The official call for custom memory, in a TensorFlow Lite C library where one is installed."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from edgemem.errors import RuntimeBindError
from edgemem.replay.arena import Arena
from edgemem.runtime.litert.c_library import CInterpreter
from edgemem_converters.tflite.model import TfliteConverter
from tests.runtime.test_litert import fetched, outputs_of

if TYPE_CHECKING:
    from collections.abc import Sequence


@pytest.fixture(scope="module")
def library() -> Path:
    named = os.environ.get("EDGEMEM_TFLITE_C")
    spec = find_spec("pymicro_wakeword")
    path = (
        Path(named)
        if named
        else Path(spec.origin).parent / "lib/libtensorflowlite_c.so"
        if spec and spec.origin
        else None
    )
    if path is None or not path.is_file():
        pytest.skip("no libtensorflowlite_c: install pymicro-wakeword, or name it in EDGEMEM_TFLITE_C")
    return path


def inputs_of(data: bytes) -> list[Any]:
    graph = TfliteConverter.from_bytes(data).graph()
    rng = np.random.default_rng(3)
    tensors = [graph.tensors[i] for i in graph.inputs]
    return [
        (rng.random(t.shape) if t.dtype == "float32" else rng.integers(0, 2, t.shape)).astype(t.dtype) for t in tensors
    ]


def twice(interpreter: CInterpreter, inputs: Sequence[Any]) -> list[Any]:
    interpreter.run(inputs)
    return interpreter.run(inputs)


@pytest.mark.parametrize(
    "name", ["mp_hand_recrop", "mp_iris_landmark", "mp_face_detection_short", "mp_face_detection_full_sparse"]
)
def test_a_planned_arena_computes_what_one_without_sharing_does(library: Path, name: str) -> None:
    data = fetched(name)
    inputs = inputs_of(data)
    planned = CInterpreter(library, data)
    alone = CInterpreter(library, data, strategy=("offsets/naive",))
    assert planned.planned < alone.planned / 2
    for one, other in zip(twice(planned, inputs), twice(alone, inputs), strict=True):
        np.testing.assert_array_equal(one, other)
    # Another version of the kernels rounds in another way.
    for one, other in zip(alone.run(inputs), outputs_of(data, builtin=True), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-2, atol=1e-3)


def test_what_it_refuses(library: Path) -> None:
    data = fetched("mp_hand_recrop")
    with pytest.raises(RuntimeBindError, match="has 786432 bytes, not 4"):
        CInterpreter(library, data).run([np.zeros(1, "f4")])
    with pytest.raises(RuntimeBindError, match="needs an arena"):
        CInterpreter(library, data, arena=Arena(1024))


def test_libraries_without_the_call(tmp_path: Path) -> None:
    data = fetched("mp_hand_recrop")
    with pytest.raises(RuntimeBindError, match="cannot load"):
        CInterpreter(tmp_path / "none.so", data)
    import _ctypes

    with pytest.raises(RuntimeBindError, match="does not export"):
        CInterpreter(_ctypes.__file__, data)
