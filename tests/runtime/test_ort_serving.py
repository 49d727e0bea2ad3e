"""Sessions as servers use them: warm-up, policies of recording, replaced classes, forks, alarms, many threads."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from edgemem.errors import RuntimeBindError
from edgemem.replay.library import library
from tests.onnx_sessions import feeds, options, plain, same, small

if TYPE_CHECKING:
    from collections.abc import Iterator

ort = pytest.importorskip("onnxruntime")

from edgemem.runtime.onnxruntime import session as session_module  # noqa: E402 - needs onnxruntime
from edgemem.runtime.onnxruntime.session import InferenceSession  # noqa: E402 - as above

CPU = ["CPUExecutionProvider"]


@pytest.fixture(scope="module")
def model() -> bytes:
    return small("mobilenet_v2", batch="N")


def test_a_warm_up_plans_for_all_its_inputs_and_smaller_ones(model: bytes) -> None:
    reference = plain(model)
    with InferenceSession(model, options(), cache=False, record="warmup") as session:
        report = session.warm_up([feeds(reference, batch=batch) for batch in (1, 5)])
        assert (report.mode, report.planned, report.reason) == ("replay", session.memory.planned, "")
        before = session.memory
        for batch in (5, 3, 1, 4, 2):
            given = feeds(reference, batch=batch)
            assert same(session.run(None, given), reference.run(None, given))
        after = session.memory
        assert (after.replayed - before.replayed, after.bails - before.bails, after.planned) == (5, 0, before.planned)
        given = feeds(reference, batch=7)
        for _ in range(3):
            assert same(session.run(None, given), reference.run(None, given))
        assert session.memory.planned == before.planned, "a request is never recorded"
        assert session.memory.bails - before.bails == 3


def test_a_session_that_records_nothing(model: bytes) -> None:
    given = feeds(plain(model), batch=2)
    with InferenceSession(model, options(), cache=False, record="never") as session:
        for _ in range(3):
            assert same(session.run(None, given), plain(model).run(None, given))
        assert session.memory.mode == "record"
        assert session.recorded_plan is None
        with pytest.raises(RuntimeBindError, match="record="):
            session.warm_up(given)
    with pytest.raises(RuntimeBindError, match="first-run, warmup, never"):
        InferenceSession(model, options(), cache=False, record="sometimes")  # type: ignore[arg-type]


def test_by_default_the_plan_is_made_while_runs_go_on(model: bytes) -> None:
    reference = plain(model)
    given = feeds(reference, batch=2)
    with InferenceSession(model, options(), cache=False) as session:
        for _ in range(3):
            assert same(session.run(None, given), reference.run(None, given))
        assert session.wait(60)
        replayed = session.memory.replayed
        assert same(session.run(None, given), reference.run(None, given))
        assert (session.memory.mode, session.memory.replayed) == ("replay", replayed + 1)


@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="needs Linux's account of a process's pages")
def test_recording_gives_its_memory_back() -> None:
    """After the plan is there, what the recorded run took is the system's again."""
    model = small("resnet18", batch="N")
    given = feeds(plain(model), batch=64)
    with InferenceSession(model, options(), cache=False, record="warmup") as session:
        session.run(None, given)  # plainly, in the pool
        full = _pool_pages()
        session.warm_up(given)
        held = session.memory.arena
        assert held >= 1 << 20
        before = library().totals().heap_live
        pool = _pool_pages()
        session.run(None, given)
        assert library().totals().heap_live == before
    assert full - pool >= held / 2, "a plain run needs at least as much as the arena has"


def _pool_pages() -> int:
    """Bytes of the pool's pages: it is the mapping before the large range of addresses that is kept for it."""
    found: list[tuple[str, str, str, int]] = []  # begin, end, permissions, bytes of pages
    for row in Path("/proc/self/smaps").read_text().splitlines():
        fields = row.split()
        if not fields[0].endswith(":"):
            found.append((*fields[0].split("-"), fields[1], 0))  # type: ignore[arg-type]
        elif fields[0] == "Rss:":
            found[-1] = (*found[-1][:3], int(fields[1]) * 1024)
    for (_, end, _, pages), (begin, last, permissions, _) in pairwise(found):
        if permissions == "---p" and end == begin and int(last, 16) - int(begin, 16) > 1 << 29:
            return pages
    raise AssertionError("there is no pool")


def test_the_class_may_take_the_place_of_onnx_runtimes_own(monkeypatch: pytest.MonkeyPatch, model: bytes) -> None:
    given = feeds(plain(model))
    expected = plain(model).run(None, given)
    monkeypatch.setattr(ort, "InferenceSession", InferenceSession)
    session = ort.InferenceSession(model, options(), providers=CPU)
    for _ in range(2):
        assert same(session.run(None, given), expected)
    binding = ort.IOBinding(session)
    assert binding is not None
    session.close()


def test_every_provider_that_there_is(model: bytes) -> None:
    given = feeds(plain(model))
    with InferenceSession(
        model, options(), providers=ort.get_available_providers(), cache=False, background=False
    ) as session:
        for _ in range(2):
            session.run(None, given)
        assert session.memory.mode == "replay"


def test_texts_of_any_length_share_a_plan() -> None:
    from onnx import TensorProto, helper

    node = helper.make_node("Identity", ["t"], ["u"])
    texts = [helper.make_tensor_value_info(name, TensorProto.STRING, ["n"]) for name in "tu"]
    more = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1000]) for name in "xz"]
    nodes = [node, helper.make_node("Exp", ["x"], ["y"]), helper.make_node("Neg", ["y"], ["z"])]
    graph = helper.make_graph(nodes, "texts", [texts[0], more[0]], [texts[1], more[1]])
    data = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()
    with InferenceSession(data, options(), cache=False, background=False) as session:
        for length in range(1, 30):
            given = {"t": np.array(["a" * length]), "x": np.ones(1000, np.float32)}
            assert session.run(None, given)[0].tolist() == ["a" * length]
        memory = session.memory
        assert (memory.replans, memory.mode) == (0, "replay")
        assert memory.replayed >= 27


@pytest.mark.full
def test_eight_threads_meet_a_new_session(model: bytes) -> None:
    reference = plain(model)
    given = [feeds(reference, seed=k, batch=1 + k % 3) for k in range(8)]
    expected = [reference.run(None, g) for g in given]
    wrong: list[int] = []
    with InferenceSession(model, options(), cache=False, most_arenas=3) as session:

        def work(k: int) -> None:
            wrong.extend(k for _ in range(60) if not same(session.run(None, given[k]), expected[k]))

        threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(120)
        assert not wrong
        assert session.wait(60)
        session.run(None, given[0])
        memory = session.memory
        assert memory.mode == "replay"
        assert memory.arena <= 3 * memory.planned


@pytest.mark.full
@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs an interval timer")
def test_alarms_at_any_time_leave_the_thread_replaying(model: bytes) -> None:
    reference = plain(model)
    given = feeds(reference)
    expected = reference.run(None, given)

    class AlarmError(Exception):
        pass

    def handler(*_: Any) -> None:
        raise AlarmError

    with InferenceSession(model, options(), cache=False, background=False) as session:
        for _ in range(2):
            session.run(None, given)
        before = signal.signal(signal.SIGALRM, handler)
        raised = 0
        try:
            while raised < 150:
                try:
                    signal.setitimer(signal.ITIMER_REAL, 0.0005 + 0.00001 * (raised % 37))
                    for _ in range(1000):
                        session.run(None, given)
                except AlarmError:
                    raised += 1
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        replayed = session.memory.replayed
        for _ in range(3):
            assert same(session.run(None, given), expected)
        assert session.memory.replayed == replayed + 3
        assert session.memory.bails == 0


def test_a_session_that_is_closed_while_its_first_run_begins_runs_nothing(
    model: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would run outside its plan, and above `max_bytes`."""
    session = InferenceSession(model, options(), cache=False)
    given = feeds(session, batch=1)

    @contextmanager
    def waits() -> Iterator[None]:
        monkeypatch.undo()
        session.close()
        yield

    monkeypatch.setattr(session_module, "BEGINNING", waits())
    with pytest.raises(RuntimeBindError, match="closed"):
        session.run(None, given)


def test_children_of_a_process_with_threads_run_their_sessions() -> None:
    """The child is forked while other threads run the session and one makes plans."""
    code = """
import os, threading
import numpy as np
from edgemem.runtime.onnxruntime.session import InferenceSession
from tests.onnx_sessions import feeds, options, plain, small
model = small("mobilenet_v2", batch="N")
given = [feeds(plain(model), batch=b) for b in (1, 2, 3)]
session = InferenceSession(model, options(), cache=False)
stop = False
def work(k):
    while not stop:
        session.run(None, given[k])
threads = [threading.Thread(target=work, args=(k,), daemon=True) for k in range(3)]
for t in threads: t.start()
bad = 0
for _ in range(20):
    pid = os.fork()
    if pid == 0:
        import signal
        signal.alarm(20)
        for g in given:
            session.run(None, g)
        os._exit(0)
    bad += os.waitpid(pid, 0)[1] != 0
stop = True
for t in threads: t.join()
print("bad", bad, flush=True)
os._exit(0)
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        timeout=500,
    )
    assert done.stdout.strip() == "bad 0", done.stderr


def test_a_callback_may_fail_or_close_the_session(model: bytes, caplog: pytest.LogCaptureFixture) -> None:
    given = feeds(plain(model))
    session = InferenceSession(model, options(), cache=False)
    failed, closed = threading.Event(), threading.Event()

    def fails(*_: Any) -> None:
        failed.set()
        raise ValueError("in the callback")

    def closes(*_: Any) -> None:
        session.close()
        closed.set()

    session.run_async(None, given, fails, None)
    assert failed.wait(60)
    session.run_async(None, given, closes, None)
    assert closed.wait(60)
    end = time.monotonic() + 60
    while "in the callback" not in caplog.text and time.monotonic() < end:
        time.sleep(0.01)  # it is logged on another thread, after the callback
    assert "in the callback" in caplog.text
    with pytest.raises(RuntimeBindError, match="closed"):
        session.run(None, given)


def test_a_child_that_is_forked_while_the_planner_is_imported_makes_plans() -> None:
    code = """
import os, signal, sys, threading, time
from importlib.machinery import PathFinder
from edgemem.runtime.onnxruntime.session import InferenceSession
from tests.onnx_sessions import feeds, options, plain, small
model = small("mobilenet_v2")
given = feeds(plain(model))
importing = threading.Event()
class Finder:  # holds an import up in its middle
    def find_spec(self, name, path, *_):
        if name != "edgemem.planning.recording_plan":
            return None
        spec = PathFinder.find_spec(name, path)
        execute = spec.loader.exec_module
        spec.loader.exec_module = lambda module: (importing.set(), time.sleep(0.5), execute(module))
        return spec
sys.meta_path.insert(0, Finder())
session = InferenceSession(model, options(), cache=False)
session.run(None, given)
assert importing.wait(20)
pid = os.fork()
if pid == 0:
    signal.alarm(20)
    own = InferenceSession(model, options(), cache=False, background=False)
    for _ in range(2):
        own.run(None, given)
    os._exit(own.memory.mode != "replay")
print(os.waitpid(pid, 0)[1], flush=True)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=100)
    assert done.stdout.strip() == "0", done.stderr
