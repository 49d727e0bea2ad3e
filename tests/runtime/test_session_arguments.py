"""Arguments that a session takes, and those that it refuses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import edgemem
from edgemem.errors import BudgetExceededError, PlanError, RuntimeBindError
from tests.onnx_sessions import options, plain

if TYPE_CHECKING:
    from pathlib import Path

onnxruntime = pytest.importorskip("onnxruntime")

SHRINKAGE = "memory.enable_memory_arena_shrinkage"
X = {"x": np.linspace(-1, 1, 1 << 16, dtype=np.float32)[None]}


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """Three operators of 256 KiB."""
    names = ["x", "r", "s", "y"]
    nodes = [helper.make_node(op, [names[k]], [names[k + 1]]) for k, op in enumerate(("Exp", "Sigmoid", "Exp"))]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 1 << 16]) for name in ("x", "y")]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), tmp_path / "m.onnx")
    return tmp_path / "m.onnx"


@pytest.mark.parametrize(
    ("name", "hint"), [("max_byte", "Did you mean 'max_bytes'"), ("recrod", "'record'"), ("zzz", "there are ")]
)
def test_a_keyword_that_nobody_has_is_refused(model: Path, name: str, hint: str) -> None:
    with pytest.raises(TypeError, match=f"unexpected keyword argument '{name}'.*{hint}"):
        edgemem.InferenceSession(model, **{name: 1})  # type: ignore[arg-type]


def test_the_keywords_of_onnx_runtime_itself_stay(model: Path, tmp_path: Path) -> None:
    named: dict[str, Any] = {"disabled_optimizers": ["ConstantFolding"], "enable_fallback": 0}
    with edgemem.InferenceSession(str(model), options(), cache=tmp_path, **named, read_config_from_model=0) as session:
        np.testing.assert_array_equal(session.run(None, X)[0], plain(model).run(None, X)[0])


def test_sizes_may_be_text(model: Path, tmp_path: Path) -> None:
    planned = edgemem.plan(model, budget="64MiB").best_offsets
    assert planned is not None
    assert planned.size <= 64 << 20
    with pytest.raises(BudgetExceededError, match="1,024 available"):
        edgemem.plan(model, budget="1KiB")
    assert edgemem.shrink(model, budget="64MiB", steps="order").planset.best_offsets is not None
    with pytest.raises(BudgetExceededError, match=r"max_bytes is 1,024"):
        edgemem.InferenceSession(model, options(), cache=tmp_path, max_bytes="1KiB").run(None, X)


@pytest.mark.parametrize("value", [-1, 1.5, True, 2**70, "64 apples", "-3"])
def test_what_is_no_size_is_one_clear_error(model: Path, value: Any) -> None:
    said = "give a whole number of bytes from 0 to 4,611,686,018,427,387,903, or text such as '64MiB'"
    for error, name, call in (
        (PlanError, "budget", edgemem.plan),
        (PlanError, "budget", edgemem.shrink),
        (RuntimeBindError, "max_bytes", edgemem.InferenceSession),
    ):
        with pytest.raises(error) as raised:
            call(model, **{name: value})
        assert str(raised.value).startswith(f"{name} is {value!r}; {said}")


def shrinking(entry: str = "cpu:0") -> Any:
    chosen = onnxruntime.RunOptions()
    chosen.log_severity_level = 4
    chosen.add_run_config_entry(SHRINKAGE, entry)
    return chosen


@pytest.mark.parametrize("named", [{}, {"share_outputs": True}, {"bind_outputs": True}, {"max_bytes": "64MiB"}])
def test_a_run_may_ask_to_shrink_the_arena(model: Path, tmp_path: Path, named: dict[str, Any]) -> None:
    session = edgemem.InferenceSession(model, options(), cache=tmp_path, background=False, **named)
    wanted, chosen = plain(model).run(None, X)[0], shrinking()
    kept = []
    for _ in range(3):
        kept.append(session.run(None, X, chosen)[0])
        if not named.get("share_outputs"):  # whose results are in the arena
            assert session.memory.arena == 0, "the session has given back what no run uses"
    session.run(None, X)
    assert session.memory.arena > 0, "a run that does not ask keeps its arena"
    for result in kept:
        np.testing.assert_array_equal(result, wanted)
    assert session.memory.bails == 0


def test_other_calls_may_ask_to_shrink_the_arena(model: Path, tmp_path: Path) -> None:
    session = edgemem.InferenceSession(model, options(), cache=tmp_path, background=False)
    wanted = plain(model).run(None, X)[0]
    value = {"x": onnxruntime.OrtValue.ortvalue_from_numpy(X["x"])}
    for _ in range(2):
        results = session.run_with_ort_values(None, value, shrinking())
        np.testing.assert_array_equal(results[0].numpy(), wanted)
        binding = session.io_binding()
        binding.bind_cpu_input("x", X["x"])
        binding.bind_output("y")
        session.run_with_iobinding(binding, shrinking())
        np.testing.assert_array_equal(binding.copy_outputs_to_cpu()[0], wanted)


def test_a_device_that_is_not_there_is_refused_as_in_onnx_runtime(model: Path, tmp_path: Path) -> None:
    session = edgemem.InferenceSession(model, options(), cache=tmp_path)
    for one in (session, plain(model)):
        with pytest.raises(Exception, match="gpu:0"):
            one.run(None, X, shrinking("gpu:0"))


def test_a_run_that_fails_for_another_reason_is_not_done_again(model: Path) -> None:
    """Operators may have written into the caller's memory before it failed."""
    session = edgemem.InferenceSession(model, options(), cache=False, background=False)
    session.run(None, X)
    chosen = shrinking()
    with pytest.raises(Exception, match="INVALID_ARGUMENT"):
        session.run(None, {"x": np.zeros((1, *X["x"].shape), np.float32)}, chosen)
    assert chosen.get_run_config_entry(SHRINKAGE) == "cpu:0"
    session.run(None, X, chosen)
    assert session.memory.arena == 0
