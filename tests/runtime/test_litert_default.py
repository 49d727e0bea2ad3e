"""`edgemem.Interpreter(path)` runs whatever LiteRT runs, with the same outputs, and says what arena it has."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.runtime.litert_models import MODELS
from tests.runtime.test_interpreter import BUILTIN, XNNPACK, allocated, same
from tests.runtime.test_litert import LOADABLE, fetched

pytest.importorskip("ai_edge_litert")

from ai_edge_litert.interpreter import Interpreter as LiteRT

from edgemem.runtime.litert.interpreter import Interpreter

ROOT = Path(__file__).parents[2]
KERNELS = {"default": {}, "builtin": BUILTIN, "xnnpack": XNNPACK}
RUNS = (1, 2, 3)
# LiteRT finds their sizes as it runs.
OPEN = ("computed_reshape", "given_reshape", "reshape_last", "where", "strings", "kinds", "basic_pitch_nmp")


def values(interpreter: Any, seed: int) -> list[np.ndarray[Any, Any]]:
    """Inputs that are not zero, and others for each seed."""
    random = np.random.default_rng(seed)
    found = []
    for details in interpreter.get_input_details():
        shape, dtype = tuple(details["shape"]), np.dtype(details["dtype"])
        if details["name"] == "shape":
            found.append(np.array([[3, 4], [2, 6], [12, 1]][seed % 3], np.int32))
        elif dtype.kind == "f":
            found.append((random.uniform(0.1, 1, shape) * random.choice([-1, 1], shape)).astype(dtype))
        elif dtype.kind == "b":
            found.append(np.full(shape, seed % 2 == 0))
        elif dtype.kind in "SO":
            found.append(np.array([f"{seed}{k}".encode() for k in range(int(np.prod(shape)))], object).reshape(shape))
        else:
            found.append(random.integers(1, 100, shape).astype(dtype))
    return found


def outputs(interpreter: Any, seed: int) -> list[Any]:
    for details, value in zip(interpreter.get_input_details(), values(interpreter, seed), strict=True):
        interpreter.set_tensor(details["index"], value)
    interpreter.invoke()
    return [interpreter.get_tensor(d["index"]).copy() for d in interpreter.get_output_details()]


@pytest.mark.full
@pytest.mark.parametrize("kernels", KERNELS)
@pytest.mark.parametrize("name", [*MODELS, *LOADABLE])
def test_three_runs_are_those_of_litert(name: str, kernels: str) -> None:
    data = MODELS[name]() if name in MODELS else fetched(name)
    options = KERNELS[kernels]
    bound, plain = allocated(Interpreter, data, **options), allocated(LiteRT, data, **options)
    for seed in RUNS:
        assert same(outputs(bound, seed), outputs(plain, seed)), seed
    memory = bound.memory
    assert memory.mode == ("predicted" if kernels == "builtin" else "plain")
    if kernels == "builtin" and name not in OPEN:
        assert memory.reserved == memory.planned


@pytest.mark.parametrize("kernels", KERNELS)
@pytest.mark.parametrize("name", ["where", "branches", "loop", "variables", "reshape_last"])
def test_other_sizes_between_runs(name: str, kernels: str) -> None:
    options = KERNELS[kernels]
    bound, plain = (allocated(make, MODELS[name](), **options) for make in (Interpreter, LiteRT))
    index = next(d["index"] for d in plain.get_input_details() if d["name"] == "x")
    sizes = [[24], [12], [36]] if name == "reshape_last" else [[3, 4], [1, 4], [5, 4]]
    for seed, shape in zip(RUNS, sizes, strict=True):
        if name == "variables" and shape != [1, 4]:
            continue  # LiteRT itself does not resize a variable
        for interpreter in (bound, plain):
            interpreter.resize_tensor_input(index, shape)
            interpreter.allocate_tensors()
        if name == "reshape_last":
            for interpreter in (bound, plain):
                interpreter.set_tensor(1, np.array([4, shape[0] // 4], np.int32))
                interpreter.set_tensor(0, np.linspace(-1, 1, shape[0], dtype=np.float32))
                interpreter.invoke()
            assert same(*([i.get_tensor(3)] for i in (bound, plain)))
        else:
            assert same(outputs(bound, seed), outputs(plain, seed)), shape


@pytest.mark.full
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_pages_of_weights_that_were_decompressed_are_given_back(tmp_path: Path) -> None:
    from tests.bench.serving.litert_models import mobile_network

    path = tmp_path / "half.tflite"
    path.write_bytes(mobile_network(8_000_000, "float16", side=8))
    bound = Interpreter(str(path), **BUILTIN)
    bound.allocate_tensors()
    for seed in RUNS:
        outputs(bound, seed)
    rows = Path("/proc/self/smaps").read_text(encoding="utf-8").splitlines()
    at = next(k for k, row in enumerate(rows) if row.endswith("half.tflite"))
    resident = next(int(row.split()[1]) for row in rows[at:] if row.startswith("Rss:"))
    # A page of the system's cache may be as large as 2 MiB.
    assert resident * 1024 < path.stat().st_size / 2
