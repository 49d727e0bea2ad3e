"""`edgemem.Interpreter` loads nothing of what its report needs; packed weights in a file are of one model."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

pytest.importorskip("ai_edge_litert")

from ai_edge_litert.compiled_model import CompiledModel
from ai_edge_litert.options import CpuOptions, Options

from models.tflite_networks import mobilenet_v2
from tests.runtime.litert_models import MODELS

if TYPE_CHECKING:
    from pathlib import Path

_SCRIPT = """
import json, sys
import numpy as np
from ai_edge_litert.interpreter import Interpreter
path = sys.argv[1]
def run(make):
    one = make(path)
    one.allocate_tensors()
    for d in one.get_input_details():
        one.set_tensor(d["index"], np.full(d["shape"], 0.5, d["dtype"]))
    one.invoke()
    return [one.get_tensor(d["index"]).tobytes() for d in one.get_output_details()]
before = run(Interpreter)
loaded = set(sys.modules)
import edgemem
same = run(edgemem.Interpreter) == before
print("\\nanswer:" + json.dumps({"same": same, "new": sorted(set(sys.modules) - loaded)}))
"""


def test_the_default_call_loads_nothing_of_plans_and_nothing_that_litert_has_not(tmp_path: Path) -> None:
    path = tmp_path / "many.tflite"
    path.write_bytes(MODELS["many"]())
    done = subprocess.run([sys.executable, "-c", _SCRIPT, str(path)], capture_output=True, text=True, check=False)
    assert "answer:" in done.stdout, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.rpartition("answer:")[2])
    assert found["same"]
    new = set(found["new"])
    assert {name for name in new if name.split(".")[0] not in {"edgemem", "importlib", "__future__"}} == set()
    runtime = {name for name in new if name.startswith("edgemem.runtime.litert.")}
    assert runtime == {f"edgemem.runtime.litert.{name}" for name in ("interpreter", "package", "pages")}
    assert not {name for name in new if name.startswith(("edgemem.replay", "edgemem.model", "edgemem.planning"))}


def _compiled(path: Path, packed: Path | str) -> np.ndarray[Any, Any]:
    options = Options(cpu_options=CpuOptions(num_threads=1, xnnpack_weight_cache_path=str(packed)))
    one = CompiledModel.from_file(str(path), options=options)
    inputs, results = one.create_input_buffers(0), one.create_output_buffers(0)
    inputs[0].write(np.random.default_rng(0).uniform(-1, 1, 96 * 96 * 3).astype(np.float32))
    one.run_by_index(0, inputs, results)
    return np.array(results[0].read(1000, np.float32))


def test_packed_weights_in_a_file_are_believed_without_looking_at_the_model(tmp_path: Path) -> None:
    # docs/mobile.md warns of it: with the file of another model, LiteRT runs that model's weights.
    paths = [tmp_path / f"{seed}.tflite" for seed in range(2)]
    for seed, path in enumerate(paths):
        path.write_bytes(mobilenet_v2(alpha=0.25, size=96, seed=seed))
    first, second = (_compiled(path, "") for path in paths)
    assert not np.array_equal(first, second)
    packed = tmp_path / "weights.packed"
    for _ in range(2):  # written, then read
        np.testing.assert_array_equal(_compiled(paths[0], packed), first)
    assert packed.stat().st_size > 100_000
    np.testing.assert_array_equal(_compiled(paths[1], packed), first)
