"""`edgemem.Interpreter(path)` runs whatever LiteRT runs, with the same outputs, in a planned arena or as it can."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgemem import api, planfile
from edgemem.errors import RuntimeBindError
from edgemem_converters.tflite.model import TfliteConverter
from tests.runtime.litert_models import MODELS
from tests.runtime.test_interpreter import BUILTIN, XNNPACK, allocated, same
from tests.runtime.test_litert import LOADABLE, fetched

pytest.importorskip("ai_edge_litert")

from ai_edge_litert.interpreter import Interpreter as LiteRT

from edgemem.runtime.litert.interpreter import Interpreter

ROOT = Path(__file__).parents[2]
KERNELS = {"default": {}, "builtin": BUILTIN, "xnnpack": XNNPACK}
RUNS = (1, 2, 3)
# Models that a plan cannot cover, and what is said of them.
OPEN = {
    "computed_reshape": "as it runs",
    "given_reshape": "as it runs",
    "reshape_last": "as it runs",
    "where": "as it runs",
    "strings": "as it runs",
    "branches": "branches or loops",
    "loop": "branches or loops",
}


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
    if kernels == "builtin":
        assert memory.mode == ("plain" if name in OPEN or name == "basic_pitch_nmp" else "planned")
        assert OPEN.get(name, "") in memory.reason
    else:
        assert memory.mode == "plain"


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


def test_a_run_in_which_litert_moves_tensors_is_an_error() -> None:
    bound = allocated(Interpreter, MODELS["many"](), **BUILTIN)
    delegate, native = bound.delegate, bound._interpreter._native
    assert delegate is not None

    class Moving:
        def Invoke(self, subgraph: int) -> Any:
            result = native.Invoke(subgraph)
            delegate.tensors[bound.layout.places[0][0]].data += 64
            return result

        def __getattr__(self, name: str) -> Any:
            return getattr(native, name)

    bound._interpreter._native = Moving()
    with pytest.raises(RuntimeBindError, match="placed tensors anew while it ran"):
        outputs(bound, 1)
    with pytest.raises(RuntimeBindError, match="moved tensor"):
        outputs(bound, 1)


# --- processes that load no planner ----------------------------------------------------------------------------------

_SCRIPT = """
import json, sys
import numpy as np
import edgemem
from ai_edge_litert.interpreter import Interpreter, OpResolverType
task = json.loads(sys.argv[1])
options = {}
if task["builtin"]:
    options["experimental_op_resolver_type"] = OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
bound = edgemem.Interpreter(task["path"], **options, **task["ours"])
plain = Interpreter(task["path"], experimental_op_resolver_type=OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES)
same = True
for index, shape in task["shapes"]:
    for interpreter in (bound, plain):
        interpreter.resize_tensor_input(index, shape)
for interpreter in (bound, plain):
    interpreter.allocate_tensors()
for seed in range(3):
    found = []
    for interpreter in (bound, plain):
        random = np.random.default_rng(seed)
        for d in interpreter.get_input_details():
            interpreter.set_tensor(d["index"], random.uniform(0.1, 1, d["shape"]).astype(d["dtype"]))
        interpreter.invoke()
        found.append([interpreter.get_tensor(d["index"]).copy() for d in interpreter.get_output_details()])
    same &= all(np.array_equal(a, b, equal_nan=True) for a, b in zip(*found, strict=True))
m = bound.memory
print("\\nanswer:" + json.dumps({
    "same": same, "mode": m.mode, "reason": m.reason, "planned": m.planned, "lower_bound": m.lower_bound,
    "origin": None if m.origin is None else [m.origin.source, m.origin.of, m.origin.strategy],
    "planner": sorted({"edgemem.planning", "edgemem_converters", "onnx", "edgemem.proof"} & set(sys.modules)),
    "processes": "subprocess" in sys.modules,
}))
"""


def apart(path: Path, cache: Path, *, builtin: bool = True, shapes: Any = (), **ours: Any) -> dict[str, Any]:
    """What a fresh process says of the model, run by the documented call."""
    task = json.dumps({"path": str(path), "builtin": builtin, "shapes": shapes, "ours": ours})
    environment = {**os.environ, "EDGEMEM_CACHE": str(cache)}
    done = subprocess.run(
        [sys.executable, "-c", _SCRIPT, task], capture_output=True, text=True, env=environment, timeout=300, check=False
    )
    assert "answer:" in done.stdout, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.rpartition("answer:")[2])
    assert found["planner"] == []
    return found


@pytest.fixture
def many(tmp_path: Path) -> Path:
    path = tmp_path / "many.tflite"
    path.write_bytes(MODELS["many"]())
    return path


def notes(cache: Path) -> list[Path]:
    return sorted((cache / "litert-layouts").glob("*.json"))


@pytest.mark.full
def test_another_process_plans_and_the_next_finds_its_note(many: Path, tmp_path: Path) -> None:
    here = allocated(Interpreter, many.read_bytes(), **BUILTIN).memory
    first, again = (apart(many, tmp_path / "cache") for _ in range(2))
    assert first["same"]
    assert (first["planned"], first["lower_bound"]) == (here.planned, here.lower_bound)
    assert first["origin"] == [here.origin.source, here.origin.of, here.origin.strategy]
    assert first["processes"]
    assert again == {**first, "processes": False}
    other = apart(many, tmp_path / "cache", shapes=[(0, [1, 16, 16, 3])])
    assert other["same"]
    assert other["planned"] > first["planned"]
    assert len(notes(tmp_path / "cache")) == 2


@pytest.mark.full
def test_the_plan_in_the_file_is_found_by_the_default_call(many: Path, tmp_path: Path) -> None:
    model = TfliteConverter.from_bytes(many.read_bytes())
    for target, mode, source in (("litert", "planned", "file"), ("tflm", "plain", None)):
        planset = api.plan(model, target=target, strategy="offsets/naive")
        many.write_bytes(model.with_plan(planfile.encode(planset), planset).content())
        for _ in range(2):
            found = apart(many, tmp_path / "cache", builtin=False)
            assert (found["mode"], (found["origin"] or [None])[0]) == (mode, source)
            assert ("--target litert" in found["reason"]) == (target == "tflm")
            if target == "litert":
                assert found["same"]
                assert planset.best_offsets is not None
                assert found["planned"] == planset.best_offsets.size


@pytest.mark.full
def test_what_another_process_refuses_is_said(many: Path, tmp_path: Path) -> None:
    many.write_bytes(MODELS["where"]())
    found = apart(many, tmp_path / "cache")
    assert found["same"]
    assert found["mode"] == "plain"
    model = TfliteConverter.from_bytes(MODELS["many"]())
    planset = api.plan(model, target="tflm")
    many.write_bytes(model.with_plan(planfile.encode(planset), planset).content())
    found = apart(many, tmp_path / "cache", plan="file", refuse="plain")
    assert found["same"]
    assert found["mode"] == "plain"
    assert "--target litert" in found["reason"]


@pytest.mark.full
@pytest.mark.parametrize("forgery", ["overlap", "huge", "far", "missing", "types", "damaged", "link", "text"])
def test_a_note_is_not_believed(many: Path, tmp_path: Path, forgery: str) -> None:
    cache = tmp_path / "cache"
    first = apart(many, cache)
    (note,) = notes(cache)
    right = note.read_bytes()
    data = json.loads(right)
    if forgery == "overlap":
        data["places"] = [[index, 0, size] for index, _, size in data["places"]]
    elif forgery == "huge":
        data["size"] = 1 << 45
    elif forgery == "far":
        data["places"][0][1] = 1 << 40
        data["size"] = 1 << 41
    elif forgery == "missing":
        data["places"] = data["places"][1:]
    elif forgery == "types":
        data["places"] = [[None, "0", []]]
    text = "[" * 100_000 if forgery == "text" else json.dumps(data)
    if forgery == "link":
        note.rename(tmp_path / "elsewhere")
        note.symlink_to(tmp_path / "elsewhere")
    else:
        note.write_bytes(right[:-40] if forgery == "damaged" else text.encode())
    found = apart(many, cache)
    assert found["same"]
    assert found["processes"]
    assert found["planned"] == first["planned"]
    assert note.read_bytes() == right
    assert not note.is_symlink()


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
