"""Sessions with a cap on their memory: what fits runs, what fits alone waits, what never fits is refused."""

from __future__ import annotations

import os
import threading
import time
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

import edgemem
from edgemem.errors import BudgetExceededError, RuntimeBindError
from edgemem.replay.budget import BudgetedReplayer
from edgemem.replay.library import library
from tests.onnx_sessions import same

if TYPE_CHECKING:
    from numpy.typing import NDArray

MEBIBYTE = 1 << 20
ROW = MEBIBYTE // 4  # floats of a row: 1 MiB
ALIVE = 5  # tensors at once, of a MiB a row


def model() -> bytes:
    """Per row of 1 MiB: three tensors, and two of `Sum`, that are alive at once; the result is small."""
    nodes = [helper.make_node(kind, ["x"], [kind]) for kind in ("Exp", "Neg", "Abs")]
    nodes += [helper.make_node("Sum", ["Exp", "Neg", "Abs"], ["sum"])]
    nodes += [helper.make_node("ReduceMax", ["sum"], ["y"], axes=[1], keepdims=1)]
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes, "g", [value("x", TensorProto.FLOAT, ["n", ROW])], [value("y", TensorProto.FLOAT, ["n", 1])]
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    return bytes(made.SerializeToString())


def wide() -> bytes:
    """A result as large as its input."""
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("Exp", ["x"], ["e"]), helper.make_node("Neg", ["e"], ["y"])],
        "g",
        [value("x", TensorProto.FLOAT, ["n", ROW])],
        [value("y", TensorProto.FLOAT, ["n", ROW])],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    return bytes(made.SerializeToString())


def rows(count: int, seed: int = 0) -> dict[str, NDArray[np.float32]]:
    return {"x": np.random.default_rng(seed).standard_normal((count, ROW)).astype(np.float32)}


def options() -> Any:
    made = onnxruntime.SessionOptions()
    made.intra_op_num_threads = 1
    made.log_severity_level = 4
    return made


def opened(data: bytes, **arguments: Any) -> edgemem.InferenceSession:
    return edgemem.InferenceSession(data, options(), cache=False, **{"background": False, **arguments})


def expected(data: bytes, given: dict[str, NDArray[np.float32]]) -> Any:
    return onnxruntime.InferenceSession(data, options(), providers=["CPUExecutionProvider"]).run(None, given)


def held(session: edgemem.InferenceSession) -> int:
    replayer = session._replayer
    assert isinstance(replayer, BudgetedReplayer)
    return replayer.held


def test_what_fits_runs_and_what_does_not_is_refused_with_its_shape_and_need() -> None:
    data, small, large = model(), rows(2), rows(8)
    with opened(data, max_bytes=12 * MEBIBYTE) as session:
        for _ in range(3):
            assert same(session.run(None, small), expected(data, small))
        with pytest.raises(BudgetExceededError, match=r"x \[8, 262144\] needs at least .* max_bytes") as refused:
            session.run(None, large)
        assert refused.value.available == 12 * MEBIBYTE
        assert 12 * MEBIBYTE < refused.value.required <= (ALIVE * 8 + 1) * MEBIBYTE
        for _ in range(3):  # the session goes on
            assert same(session.run(None, small), expected(data, small))
        assert session.memory.arena <= 12 * MEBIBYTE
        session.trim()
        assert held(session) == 0


@pytest.mark.parametrize("record", ["first-run", "never"])
def test_the_least_cap_that_a_run_needs_is_what_is_alive_at_once(record: Any) -> None:
    data, given = model(), rows(4)
    with opened(data) as free:
        free.run(None, given)
        free.run(None, given)
        peak = free.memory.peak
    assert peak >= ALIVE * 4 * MEBIBYTE
    for most, fits in ((peak + MEBIBYTE // 4, True), (peak - MEBIBYTE, False)):
        with opened(data, max_bytes=most, record=record) as session:
            if fits:
                assert same(session.run(None, given), expected(data, given))
            else:
                with pytest.raises(BudgetExceededError):
                    session.run(None, given)


def test_results_count_until_they_are_freed() -> None:
    data, given = wide(), rows(4)
    with opened(data, max_bytes=14 * MEBIBYTE) as session:
        kept = [session.run(None, given)]
        assert 4 * MEBIBYTE <= held(session) <= 14 * MEBIBYTE
        with pytest.raises(BudgetExceededError, match="held before it"):
            kept.extend(session.run(None, given) for _ in range(3))
        assert all(same(one, expected(data, given)) for one in kept)
        kept.clear()
        assert same(session.run(None, given), expected(data, given))
    assert held(session) <= MEBIBYTE


def test_a_result_outlives_its_session() -> None:
    given = rows(2)
    session = opened(wide(), max_bytes=16 * MEBIBYTE)
    (kept,) = session.run(None, given)
    session.close()
    del session
    assert np.allclose(kept, -np.exp(given["x"]), rtol=1e-5)


@pytest.mark.parametrize("background", [True, False])
@pytest.mark.parametrize("arenas", [1, 2, 3])
def test_threads_wait_for_each_other_and_none_is_refused(arenas: int, background: bool) -> None:
    data = model()
    given = [rows(1 + k % 4, seed=k) for k in range(8)]
    wanted = [expected(data, one) for one in given]
    most = arenas * ALIVE * 4 * MEBIBYTE + MEBIBYTE
    before = library().totals()
    highest, wrong = [0], []
    with opened(data, max_bytes=most, most_arenas=8, background=background) as session:

        def work(k: int) -> None:
            try:
                for n in range(20):
                    if not same(session.run(None, given[(k + n) % 8]), wanted[(k + n) % 8]):
                        wrong.append("other results")
                    now = library().totals()
                    taken = now.arena_bytes - before.arena_bytes + now.heap_live - before.heap_live
                    highest[0] = max(highest[0], taken)
            except Exception as error:  # noqa: BLE001 - for the main thread
                wrong.append(repr(error))

        threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(120)
            assert not thread.is_alive()
        session.wait()
        assert not wrong
        assert highest[0] <= most
        assert session.memory.runs >= 160
        session.trim()
        assert held(session) == 0


def test_a_run_within_its_plan_looks_at_no_shapes(monkeypatch: pytest.MonkeyPatch) -> None:
    data, given = model(), rows(2)
    with opened(data, max_bytes=16 * MEBIBYTE) as session:
        for _ in range(3):
            session.run(None, given)
        monkeypatch.setattr(session, "_signature", pytest.fail)
        assert same(session.run(None, given), expected(data, given))
        assert session.memory.replayed == 3


def test_first_runs_take_turns_and_none_is_done_again(monkeypatch: pytest.MonkeyPatch) -> None:
    again: list[BudgetedReplayer] = []
    monkeypatch.setattr(BudgetedReplayer, "_begin_alone", again.append)
    data, given = model(), rows(4)
    wanted = expected(data, given)
    found: list[Any] = []
    with opened(data, max_bytes=(ALIVE * 4 + 1) * MEBIBYTE, background=True) as session:
        start = threading.Barrier(4)

        def work() -> None:
            start.wait()
            found.extend(session.run(None, given) for _ in range(3))

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(found) == 12
    assert all(same(one, wanted) for one in found)
    assert not again


def test_a_run_that_fits_alone_waits_for_those_that_are_on() -> None:
    """One run is held inside; a second one that does not fit beside it ends after it, and is not refused."""
    given = rows(4)
    with opened(model(), max_bytes=22 * MEBIBYTE) as session:
        session.run(None, given)
        session.run(None, given)
        replayer = session._replayer
        assert isinstance(replayer, BudgetedReplayer)
        inside, may_end, order = threading.Event(), threading.Event(), []
        family = next(iter(session._families.values()))

        def pause() -> None:
            inside.set()
            assert may_end.wait(30)
            order.append("first")

        def run() -> None:
            session.run(None, given)
            order.append("second")

        first = threading.Thread(
            target=replayer.run, args=(family, lambda: session._signature("run", None, given), pause)
        )
        second = threading.Thread(target=run)
        first.start()
        assert inside.wait(30)
        second.start()
        second.join(0.3)
        assert second.is_alive()
        may_end.set()
        first.join(30)
        second.join(30)
        assert order == ["first", "second"]


def test_a_run_inside_another_one_of_the_thread_waits_for_nothing() -> None:
    given = rows(4)
    with opened(model(), max_bytes=48 * MEBIBYTE) as session:
        for _ in range(2):
            session.run(None, given)
        replayer = session._replayer
        assert isinstance(replayer, BudgetedReplayer)
        family = next(iter(session._families.values()))
        done: list[Any] = []

        def work() -> None:
            done.append(
                replayer.run(family, lambda: session._signature("run", None, given), lambda: session.run(None, given))
            )

        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        thread.join(30)
        assert same(done[0], expected(model(), given))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_runs_within_the_cap_and_gives_idle_memory_back() -> None:
    given = rows(2)
    wanted = expected(model(), given)
    with opened(model(), max_bytes=24 * MEBIBYTE, idle_seconds=0.05) as session:
        for _ in range(2):
            session.run(None, given)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # forks of threads, since Python 3.12
            assert session._replayer is not None
            lock = session._replayer._lanes._lock
            lock.acquire()  # as by a thread that the child does not have
            child = os.fork()
        if not child:
            is_right = same(session.run(None, given), wanted)
            end = time.monotonic() + 20
            while session.memory.arena and time.monotonic() < end:
                time.sleep(0.02)
            os._exit(0 if is_right and session.memory.arena == 0 else 1)
        lock.release()
        assert os.waitpid(child, 0)[1] == 0
        assert same(session.run(None, given), wanted)


def test_a_plan_above_the_cap_leaves_smaller_runs_to_the_pool() -> None:
    data, small, large = model(), rows(1), rows(8)
    with opened(data, max_bytes=6 * MEBIBYTE) as session:
        with pytest.raises(BudgetExceededError):
            session.run(None, large)
        assert same(session.run(None, small), expected(data, small))
        assert same(session.run(None, small), expected(data, small))


def test_a_stored_plan_above_the_cap_is_not_run(tmp_path: Any) -> None:
    data, given = model(), rows(4)
    path = tmp_path / "m.onnx"
    onnx.save(onnx.load_from_string(data), path)
    with edgemem.InferenceSession(path, options(), cache=tmp_path, background=False) as session:
        session.run(None, given)
    with edgemem.InferenceSession(path, options(), cache=tmp_path, max_bytes=8 * MEBIBYTE) as session:
        with pytest.raises(BudgetExceededError):
            session.run(None, given)
        assert same(session.run(None, rows(1)), expected(data, rows(1)))


def test_bad_arguments_are_told() -> None:
    data = model()
    for arguments, words in (
        ({"max_bytes": -1}, "max_bytes is -1; give a whole number"),
        ({"max_bytes": 1.5}, "max_bytes is 1.5; give"),
        ({"max_bytes": True}, "max_bytes is True; give"),
        ({"max_bytes": 2**70}, "max_bytes is 1180591620717411303424; give"),
        ({"max_bytes": "64 apples"}, "max_bytes is '64 apples'; give"),
        ({"idle_seconds": 0}, "idle_seconds is above 0"),
        ({"idle_seconds": float("nan")}, "idle_seconds is above 0"),
        ({"max_bytes": 1 << 20, "arena": edgemem.Arena()}, "capacity"),
    ):
        with pytest.raises(RuntimeBindError, match=words):
            opened(data, **arguments)


def test_a_session_that_runs_plainly_cannot_keep_a_cap() -> None:
    parallel = options()
    parallel.execution_mode = onnxruntime.ExecutionMode.ORT_PARALLEL
    with pytest.warns(RuntimeWarning), pytest.raises(RuntimeBindError, match="max_bytes cannot be kept"):
        edgemem.InferenceSession(model(), parallel, max_bytes=1 << 30)


def in_place() -> bytes:
    """`total` grows by `x`, behind tensors of 5 MiB a row: run twice, it grows twice."""
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [
            helper.make_node("Add", ["total", "x"], ["sum"]),
            *(helper.make_node(kind, ["wide"], [kind]) for kind in ("Exp", "Neg", "Abs")),
            helper.make_node("Sum", ["Exp", "Neg", "Abs"], ["all"]),
            helper.make_node("ReduceMax", ["all"], ["y"], axes=[1], keepdims=1),
        ],
        "g",
        [
            *(value(name, TensorProto.FLOAT, [4]) for name in ("total", "x")),
            value("wide", TensorProto.FLOAT, ["n", ROW]),
        ],
        [value("sum", TensorProto.FLOAT, [4]), value("y", TensorProto.FLOAT, ["n", 1])],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    return bytes(made.SerializeToString())


def test_a_run_that_may_have_changed_its_inputs_is_not_done_again() -> None:
    session = edgemem.InferenceSession(in_place(), max_bytes=12 * MEBIBYTE, cache=False, background=False)
    total, refused = np.arange(4, dtype=np.float32), []
    for count in (1, 1, 2, 2, 8, 2, 1, 8, 1, 2, 2):
        memory = onnxruntime.OrtValue.ortvalue_from_numpy(total.copy())
        binding = session.io_binding()
        binding.bind_ortvalue_input("total", memory)
        binding.bind_ortvalue_output("sum", memory)
        binding.bind_cpu_input("x", np.ones(4, np.float32))
        binding.bind_cpu_input("wide", rows(count)["x"])
        binding.bind_output("y")
        try:
            session.run_with_iobinding(binding)
        except BudgetExceededError:
            assert np.all(np.isin(memory.numpy() - total, (0, 1)))  # not yet written, or once
            refused.append(count)
        else:
            total = total + 1
            assert same([memory.numpy(), binding.copy_outputs_to_cpu()[1]], [total, plain_y(count)])
    assert refused.count(8) == 2
    assert refused.count(2) <= 2  # the first that its plan does not serve
    assert refused.count(1) == 0


def plain_y(count: int) -> NDArray[np.float32]:
    plain = onnxruntime.InferenceSession(in_place())
    feed = {"total": np.zeros(4, np.float32), "x": np.ones(4, np.float32), "wide": rows(count)["x"]}
    y: NDArray[np.float32] = plain.run(["y"], feed)[0]
    return y
