"""What TensorFlow Lite Micro does not run, or computes wrongly with any plan, is told before anybody runs it."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from click.testing import CliRunner

import edgemem
from edgemem.cli.main import main
from edgemem.commands.verify_run_tflite import verify_run_tflite
from edgemem.errors import RuntimeBindError
from edgemem.formats import Model, open_bytes
from edgemem.runtime.tflm.operators import TYPES, micro_graph_refusal, wrong_by_itself
from edgemem.runtime.tflm.size import size_of
from edgemem_converters.tflite.names import OPERATORS
from models.fetch import fetch
from tests.tflite_cases import CASES
from tests.tflite_models import ADD_OPTIONS, M, O, S, T
from tests.tflite_models import build as build_model
from tests.tflite_operators import Input, build

if TYPE_CHECKING:
    from edgemem.model.graph import Graph

pytestmark = pytest.mark.usefixtures("_tflm")

DTYPES = ("float32", "float16", "uint8", "int32", "int64", "bool")
ABSENT = "GELU"  # an operator that TensorFlow Lite Micro does not have


@pytest.fixture
def _tflm() -> None:
    pytest.importorskip("tflite_micro")


def graph_of(data: bytes) -> Graph:
    model = open_bytes(data, ".tflite")
    assert hasattr(model, "graph")
    graph: Graph = model.graph()
    return graph


def outcomes(folder: Path) -> dict[str, tuple[bool, str]]:
    """By file, whether TensorFlow Lite Micro ran it, and what it said."""
    script = Path(__file__).with_name("tflm_outcomes.py")
    done = subprocess.run(
        [sys.executable, str(script), str(folder)], capture_output=True, text=True, check=True, timeout=300
    )
    return {name: (runs, log) for name, runs, log in map(json.loads, done.stdout.splitlines())}


@pytest.mark.full
def test_the_table_has_the_operators_of_the_runtime(tmp_path: Path) -> None:
    builtin = [name for name in OPERATORS if name not in ("CUSTOM", "DELEGATE", "PLACEHOLDER_FOR_GREATER_OP_CODES")]
    for name in {*builtin} - TYPES.keys():
        model = M([S([T("x"), T("y")], [O(name, (0,), (1,))], (0,), (1,))])
        (tmp_path / f"{name}.tflite").write_bytes(build_model(model))
    known = [name for name in builtin if name in TYPES]
    tensors = [T(f"t{k}") for k in range(len(known) + 2)]
    ops = [O(name, (k,), (k + 1,), shared_name="v" * (name == "VAR_HANDLE")) for k, name in enumerate([*known, ABSENT])]
    (tmp_path / "all.tflite").write_bytes(build_model(M([S(tensors, ops, (0,), (len(known) + 1,))])))
    for name, (runs, log) in outcomes(tmp_path).items():
        assert not runs
        assert f"builtin opcode '{ABSENT if name == 'all' else name}'" in log, (name, log)


def in_dtype(value: Input, dtype: str) -> Input:
    """An operand of float32 in another type; other operands stay."""
    if value.dtype != "float32":
        return value
    return replace(value, dtype=dtype, value=None if value.value is None else value.value.astype(dtype))


@pytest.mark.full
def test_what_the_table_refuses_the_runtime_refuses(tmp_path: Path) -> None:
    refused = {}
    cases = {kind: case for case in CASES.values() if (kind := case[0]) in TYPES}
    for kind, inputs, outputs, options in cases.values():
        for dtype in DTYPES:
            made = [(shape, dtype if of == "float32" else of) for shape, of in outputs]
            data = build(kind, [in_dtype(i, dtype) for i in inputs], made, options)
            name = f"{kind}-{dtype}"
            refusal = micro_graph_refusal(graph_of(data))
            refused[name] = refusal.why if refusal else ""
            (tmp_path / f"{name}.tflite").write_bytes(data)
    ran = {name: runs for name, (runs, _) in outcomes(tmp_path).items()}
    assert ran.keys() == refused.keys()
    assert not [(name, why) for name, why in refused.items() if why and ran[name]]
    assert sum(not why and ran[name] for name, why in refused.items()) > 50  # the cases are such that kernels run them


@pytest.mark.full
def test_float16_weights_are_told_with_what_helps(tmp_path: Path) -> None:
    path, planned = fetch("mp_face_detection_short"), tmp_path / "planned.tflite"
    done = CliRunner().invoke(main, ["plan", str(path), "-o", str(planned)])
    assert done.exit_code == 0
    assert "runs as planned in TensorFlow Lite Micro" not in done.output
    assert "it has no kernel for DEQUANTIZE of float16; use edgemem shrink --steps fold" in done.output
    folded = CliRunner().invoke(main, ["shrink", str(path), "--steps", "fold", "-o", str(planned)])
    assert "runs as planned in TensorFlow Lite Micro" in folded.output


def test_what_no_table_tells_is_tried(tmp_path: Path) -> None:
    """Float inputs and int8 weights: TensorFlow Lite Micro has no such kernel, though it has one of either."""
    inputs = [Input((1, 4)), Input.of(np.ones((3, 4)), "int8")]
    data = build("FULLY_CONNECTED", inputs, [((1, 3), "float32")], ("FullyConnectedOptions", {}))
    model, planned = tmp_path / "hybrid.tflite", tmp_path / "planned.tflite"
    model.write_bytes(data)
    assert micro_graph_refusal(graph_of(data)) is None
    done = CliRunner().invoke(main, ["plan", str(model), "-o", str(planned)])
    assert done.exit_code == 0, done.output
    assert "runs as planned in TensorFlow Lite Micro" not in done.output
    assert "TensorFlow Lite Micro cannot run the model" in done.output


def ints(*values: int) -> bytes:
    return struct.pack(f"<{len(values)}i", *values)


def unassigned(*, assigned: str = "") -> bytes:
    """A model that reads the variable `v` and may assign another one, or `v` itself."""
    tensors = [T("x", shape=(1, 64)), T("h", "resource", ()), T("v", shape=(1, 64)), T("a", shape=(1, 64))]
    tensors += [T("b", shape=(1, 64)), T("y", shape=(1, 64)), T("other", "resource", ())]
    ops = [O("ABS", (0,), (3,)), O("VAR_HANDLE", (), (1,), shared_name="v"), O("READ_VARIABLE", (1,), (2,))]
    ops += [O("ADD", (2, 3), (4,), options=ADD_OPTIONS), O("ABS", (4,), (5,))]
    if assigned:
        ops += [O("VAR_HANDLE", (), (6,), shared_name=assigned), O("ASSIGN_VARIABLE", (6, 5), ())]
    return build_model(M([S(tensors, ops, (0,), (5,))]))


def sized_by_data(*, is_constant: bool = False) -> bytes:
    """A slice whose size comes from an input, or from a shape, which is known."""
    tensors = [T("x", shape=(1, 64)), T("n", "int32", (2,)), T("begin", "int32", (2,), data=ints(0, 0))]
    tensors += [T("s", shape=(1, 64)), T("y", shape=(1, 64))]
    ops = [O("SHAPE", (0,), (1,))] if is_constant else []
    ops += [O("SLICE", (0, 2, 1), (3,)), O("ABS", (3,), (4,))]
    return build_model(M([S(tensors, ops, (0,) if is_constant else (0, 1), (4,))]))


@pytest.mark.full
def test_what_it_computes_wrongly_with_any_plan_is_no_claim_and_no_violation(tmp_path: Path) -> None:
    assert wrong_by_itself(graph_of(unassigned(assigned="v"))) == ""
    assert wrong_by_itself(graph_of(sized_by_data(is_constant=True))) == ""
    assert "'s' depends on the data" in wrong_by_itself(graph_of(sized_by_data()))
    for assigned in ("", "w"):
        data = unassigned(assigned=assigned)
        assert "nothing assigns the variable" in wrong_by_itself(graph_of(data))
        model, planned = tmp_path / "model.tflite", tmp_path / "planned.tflite"
        model.write_bytes(data)
        done = CliRunner().invoke(main, ["plan", str(model), "-o", str(planned)])
        assert "nothing assigns the variable" in done.output
        assert "runs as planned in TensorFlow Lite Micro" not in done.output
        with pytest.raises(RuntimeBindError, match=r"wrongly with any plan: .* nothing assigns the variable"):
            verify_run_tflite(planned)


@pytest.mark.full
def test_results_that_depend_on_memory_are_no_violation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As above where nothing is known of the model: it is seen in a run in which no tensors share memory."""
    monkeypatch.setattr("edgemem.commands.verify_run_tflite.wrong_by_itself", lambda _: "")
    (tmp_path / "model.tflite").write_bytes(unassigned())
    planned = tmp_path / "planned.tflite"
    model = open_bytes((tmp_path / "model.tflite").read_bytes(), ".tflite")
    assert isinstance(model, Model)
    edgemem.save(model, edgemem.plan(model), planned)
    with pytest.raises(RuntimeBindError, match="depend on what its memory held before"):
        verify_run_tflite(planned)


@pytest.mark.full
def test_the_smallest_arena_is_found_where_smaller_ones_crash() -> None:
    """With a variable TensorFlow Lite Micro's planner writes past the end of some arenas that are too small."""
    count = 40
    tensors = [T("state", shape=(1, 256), variable=True), *(T(f"t{k}", shape=(1, 256)) for k in range(count + 1))]
    ops = [O("ADD", (k, 0), (k + 1,), options=ADD_OPTIONS) for k in range(1, count + 1)]
    data = build_model(M([S(tensors, ops, (1,), (count + 1,))]))
    size = size_of(open_bytes(data, ".tflite"))
    assert size.reason == ""
    assert size.tail is not None
    assert size.arena is not None
    assert size.arena >= size.head + size.tail
