"""An exception at each line and behind each call of a session, as from a signal's handler: nothing is left of it."""

from __future__ import annotations

import gc
import threading
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import edgemem
from edgemem.replay.library import HOST, library
from tests import extent
from tests.interrupts import interrupted, product_files

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from numpy.typing import NDArray

# A file whose opening was interrupted is closed with its last reference, of which Python warns.
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
FILES = product_files("replay", "runtime")
STEP = 1 if extent.exhaustive else 3 if extent.full else 7  # every so many points are tried


@cache
def model() -> bytes:
    rng = np.random.default_rng(0)
    weights = [numpy_helper.from_array(rng.standard_normal((64, 64)).astype(np.float32), name) for name in ("w", "v")]
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("MatMul", ["b", "v"], ["c"]),
        helper.make_node("Softmax", ["c"], ["d"], axis=-1),
        helper.make_node("Add", ["d", "a"], ["y"]),
    ]
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, ["N", 64]) for n in "xy")
    graph = helper.make_graph(nodes, "g", [x], [y], weights)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    return bytes(made.SerializeToString())


def options() -> Any:
    made = onnxruntime.SessionOptions()
    made.intra_op_num_threads = 1
    made.log_severity_level = 4
    return made


def rows(count: int) -> dict[str, NDArray[np.float32]]:
    return {"x": np.random.default_rng(count).standard_normal((count, 64)).astype(np.float32)}


@cache
def expected(count: int) -> bytes:
    plain = onnxruntime.InferenceSession(model(), options(), providers=["CPUExecutionProvider"])
    return bytes(plain.run(None, rows(count))[0].tobytes())


def opened(data: bytes | str | None = None, **arguments: Any) -> edgemem.InferenceSession:
    return edgemem.InferenceSession(
        model() if data is None else data, options(), **{"cache": False, "background": False, **arguments}
    )


def is_right(session: edgemem.InferenceSession) -> bool:
    return all(session.run(None, rows(n))[0].tobytes() == expected(n) for n in (5, 300, 5))


def check_thread() -> None:
    """This thread is in no run and in no budget, and the plain runtime serves what no budget would."""
    assert not library().short.em_active(HOST)
    assert not library().short.em_budget_here()


OPTIONS: dict[str, Mapping[str, Any]] = {
    "planned": {},
    "limited": {"max_bytes": 4 << 20},
    "shared": {"arena": True},
    "plain": {"record": "never"},
}


def arguments_of(name: str) -> dict[str, Any]:
    given = dict(OPTIONS[name])
    if given.pop("arena", None):
        given["arena"] = edgemem.Arena(1 << 22)
    return given


def each_point(attempt: Callable[[int], bool]) -> int:
    """Call it with every `STEP`-th point until it is behind the last one; how many there were."""
    point = done = 0
    while attempt(point):
        done += 1
        point += STEP
    return done


@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.parametrize("name", OPTIONS)
def test_a_run_that_ends_anywhere_leaves_its_thread_and_all_sessions_right(name: str, is_first: bool) -> None:
    other, session = opened(), opened(**arguments_of(name))
    assert is_right(other)
    if not is_first:
        assert is_right(session)

    def attempt(point: int) -> bool:
        ended = opened(**arguments_of(name)) if is_first else session
        with interrupted(point, FILES, calls=True) as interrupt:
            ended.run(None, rows(5))
        check_thread()
        assert is_right(ended), point
        assert is_right(other), point
        return interrupt.is_raised

    assert each_point(attempt) > 2


@pytest.mark.parametrize("call", ["trim", "close"])
@pytest.mark.parametrize("name", OPTIONS)
def test_what_ends_while_a_session_is_closed_or_trimmed_leaves_nothing(name: str, call: str) -> None:
    other = opened()
    assert is_right(other)
    gc.collect()
    before = library().totals()

    def attempt(point: int) -> bool:
        arguments = arguments_of(name)
        session = opened(**arguments)
        assert is_right(session)
        with interrupted(point, FILES, calls=True) as interrupt:
            getattr(session, call)()
        check_thread()
        if call == "trim":
            assert is_right(session), point
        session.close()
        if "arena" in arguments:  # it is the user's
            arguments["arena"].close()
        assert is_right(other), point
        return interrupt.is_raised

    assert each_point(attempt) > 2
    gc.collect()
    after = library().totals()
    assert (after.contexts, after.arenas) == (before.contexts, before.arenas)


@pytest.mark.parametrize("name", OPTIONS)
def test_a_session_whose_opening_ends_anywhere_leaves_nothing(name: str, tmp_path: Path) -> None:
    planned = tmp_path / "planned.onnx"
    source = tmp_path / "model.onnx"
    source.write_bytes(model())
    edgemem.save(str(source), edgemem.plan(source, dims={"N": 5}), planned)
    other = opened()
    assert is_right(other)
    gc.collect()
    before, threads = library().totals(), threading.active_count()
    files = sorted(tmp_path.iterdir())

    def attempt(point: int) -> bool:
        session, arguments = None, arguments_of(name)
        with interrupted(point, FILES, calls=True) as interrupt:
            session = opened(str(planned), **arguments)
        if session is not None:
            session.close()
        if "arena" in arguments:
            arguments["arena"].close()
        del session
        check_thread()
        assert is_right(other), point
        return interrupt.is_raised

    assert each_point(attempt) > 2
    gc.collect()
    after = library().totals()
    assert (after.contexts, after.arenas) == (before.contexts, before.arenas)
    assert threading.active_count() == threads
    assert sorted(tmp_path.iterdir()) == files
