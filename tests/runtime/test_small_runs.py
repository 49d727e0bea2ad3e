"""Smaller runs go on beside one another in parts of the arena that one of the largest takes whole."""

from __future__ import annotations

import os
import random
import sys
import threading
import time
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import edgemem
from edgemem.replay.context import Context
from edgemem.replay.library import library
from edgemem.replay.parts import UNITS, unit_of
from edgemem.replay.worker import worker
from edgemem.trace import Trace
from edgemem.trace.merged_trace import between, is_part_of
from edgemem.trace.recording import Signature
from tests.runtime.test_replay_families import Program, blocks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MOST = 64  # elements of the largest run
KIB = 1 << 10


def events(size: int, *, pauses: bool = False) -> list[int]:
    """A run whose requests grow with its elements, but for one; with a pause while three are alive."""
    return [KIB * size, KIB // 2, -1, KIB * size, 2 * KIB * size, *([0] if pauses else []), -2, -3, -4]


def run(program: Program, size: int, pause: Callable[[], object] | None = None) -> None:
    signature = Signature("run", (("x", "float", (size,)),))
    family = program.replayer.family(signature)
    call = partial(blocks, events(size, pauses=pause is not None), pause or (lambda: None))
    program.replayer.run(family, lambda: signature, call)


def at_once(*calls: Callable[[], object]) -> list[threading.Thread]:
    threads = [threading.Thread(target=call, daemon=True) for call in calls]
    for thread in threads:
        thread.start()
    return threads


def joined(threads: list[threading.Thread]) -> None:
    for thread in threads:
        thread.join(20)
        assert not thread.is_alive()


def shared(**policy: Any) -> Program:
    """A program with one arena, in which a run has waited for another one, and small ones have plans."""
    program = Program(most_arenas=1, **policy)
    run(program, MOST)
    worker().wait(20)
    goes_on = threading.Event()
    threads = begun(program, 2, goes_on)
    threads += at_once(partial(run, program, 3))
    until(lambda: program.replayer._lanes.has_waited)
    goes_on.set()
    joined(threads)
    run(program, 2)  # recorded, because the one that waited asked for plans
    worker().wait(20)
    return program


def begun(program: Program, size: int, goes_on: threading.Event, count: int = 1) -> list[threading.Thread]:
    """Runs that are on, and end when they may."""
    are_on = threading.Barrier(count + 1)

    def pause() -> None:
        are_on.wait(20)
        assert goes_on.wait(20)

    threads = at_once(*[partial(run, program, size, pause)] * count)
    are_on.wait(20)
    return threads


def until(holds: Callable[[], object]) -> None:
    end = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.001)


def smaller(program: Program) -> list[int]:
    family = program.replayer.current
    assert family is not None
    return [small.most for small in family.smaller or ()]


@pytest.mark.parametrize("background", [False, True])
def test_small_runs_go_on_at_once_in_one_arena_and_a_large_one_alone(background: bool) -> None:
    program = shared(background=background)
    limits = smaller(program)
    assert len(limits) == 4
    assert all(2 * most >= wanted for most, wanted in zip(limits, (4, 8, 16, 32), strict=True)), limits
    before = program.state
    arena = program.replayer.arena_bytes()
    meeting = threading.Barrier(8)  # all eight are on
    for _ in range(3):
        joined(at_once(*[partial(run, program, 2, lambda: meeting.wait(20))] * 8))
    meeting = threading.Barrier(4)
    joined(at_once(*[partial(run, program, size, lambda: meeting.wait(20)) for size in limits]))
    run(program, MOST)
    after = program.state
    assert after[1] - before[1] == 3 * 8 + 4 + 1, "every run was served whole"
    assert (after[0], after[2]) == ("replay", before[2])
    assert 0 < program.replayer.arena_bytes() <= arena + 64 * UNITS


def test_no_run_overtakes_a_larger_one_that_waits() -> None:
    program = shared()
    goes_on, order = threading.Event(), list[str]()
    threads = begun(program, 2, goes_on)
    for size, name in ((MOST, "large"), (2, "small")):
        waiting = len(program.replayer._lanes.parts.queue.waiting)
        threads += at_once(partial(run, program, size, partial(order.append, name)))
        until(lambda waiting=waiting: len(program.replayer._lanes.parts.queue.waiting) > waiting)  # type: ignore[misc]
    assert order == []
    goes_on.set()
    joined(threads)
    assert order == ["large", "small"]


def test_what_does_not_fit_is_right_and_has_the_plan_of_larger_runs_next_time() -> None:
    """A request that is as large in small runs as in large ones, where the recorded one was smaller."""
    program = shared()
    signature = Signature("run", (("x", "float", (4,)),))
    odd = [KIB * 4, KIB // 2, -1, KIB * MOST, 2 * KIB * 4, -2, -3, -4]
    before = program.state
    for _ in range(4):
        program.replayer.run(program.replayer.family(signature), lambda: signature, blocks, odd)
    after = program.state
    assert 1 <= after[2] - before[2] <= 3, "each miss takes a plan of smaller runs away from such runs"
    assert after[1] > before[1]
    assert program.replayer.current is not None
    assert program.replayer.current.mode == "replay"
    for size in (1, 2, MOST):
        run(program, size)
    assert program.state[2] == after[2]


def test_a_larger_plan_takes_the_place_of_the_plans_of_smaller_runs() -> None:
    program = shared()
    for size in (2 * MOST, 2 * MOST, 2, MOST):
        run(program, size)
    assert smaller(program) == []
    assert program.state[2] == 2, "one that was larger, and one of which the headroom was learnt"


def test_arenas_are_given_back() -> None:
    before = library().totals()
    program = shared()
    goes_on = threading.Event()
    threads = begun(program, 2, goes_on, 3)
    program.replayer.trim()
    assert program.replayer.arena_bytes() > 0
    goes_on.set()
    joined(threads)
    program.replayer.trim()
    assert program.replayer.arena_bytes() == 0
    run(program, 2)
    program.replayer.close()
    del program, threads
    assert library().totals().arenas == before.arenas


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_forked_child_has_arenas_of_its_own() -> None:
    program = shared()
    goes_on = threading.Event()
    threads = begun(program, 4, goes_on, 4)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            for size in (2, MOST, 4):
                run(program, size)
            status = 0
        finally:
            os._exit(status)
    goes_on.set()
    joined(threads)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_closed_session_keeps_no_arena_in_which_something_ran() -> None:
    before = library().totals().arenas
    program = shared()
    goes_on = threading.Event()
    threads = begun(program, 2, goes_on, 3)
    program.replayer.close()
    assert program.replayer.arena_bytes() > 0
    goes_on.set()
    joined(threads)
    assert program.replayer.arena_bytes() == 0
    assert library().totals().arenas == before


def test_arenas_go_when_runs_go_on_without_a_plan() -> None:
    program = shared()
    run(program, 2)
    assert program.replayer.arena_bytes() > 0
    assert program.replayer.current is not None
    program.replayer._learner.give_up(program.replayer.current, "a test")
    assert program.replayer.arena_bytes() == 0


def test_lanes_lose_the_arenas_that_they_had_before_runs_had_parts() -> None:
    """Also those of runs that were on when the first plans of smaller runs were made."""
    program = Program(most_arenas=2)
    run(program, MOST)
    worker().wait(20)
    goes_on = threading.Event()
    threads = begun(program, MOST, goes_on, 2)
    family = program.replayer.current
    assert family is not None
    small = partial(Signature, "run", (("x", "float", (2,)),))
    program.replayer._learner.plan_smaller(family, recorded(events(2)), small())
    run(program, 2)
    goes_on.set()
    joined(threads)
    for _ in range(3):
        run(program, 2)
    assert 0 < program.replayer.arena_bytes() <= unit_of(program.replayer._learner.arena_size) * UNITS


def recorded(asked: list[int]) -> bytes:
    """The events of such a run."""
    context = Context()
    assert context.begin_record()
    blocks(asked)
    context.end()
    return context.take_events()


@pytest.mark.parametrize("record", ["warmup", "never"])
def test_nothing_is_wanted_that_may_not_be_recorded(record: Any) -> None:
    program = Program(most_arenas=1, record=record)
    signature = Signature("run", (("x", "float", (MOST,)),))
    with program.replayer.learning():
        run(program, MOST)
    program.replayer._lanes._queue.has_waited = True
    run(program, 2)
    assert program.replayer.family(signature).only is not None


def test_a_run_of_no_elements_is_no_sample() -> None:
    """Nothing grows with its elements."""
    program = Program(most_arenas=1)
    run(program, MOST)
    program.replayer._lanes._queue.has_waited = True
    run(program, 2)  # asks for plans
    assert program.replayer.current is not None
    for shape, is_sample in ((0, False), (2, True), (MOST, False)):
        assert program.replayer.current.is_sample((("x", "float", (shape,)),)) is is_sample


def test_a_run_between_two_has_room_for_every_size_that_grows_so() -> None:
    """Sizes of b x l elements: linear ones, squares of l, constants, and small ones of b or l alone."""
    rng = random.Random(0)

    def trace(b: int, l: int) -> Trace:  # noqa: E741 - as in the sizes
        return Trace.from_stream([64 * b * l, 8 * b * l * l, -1, 4096 + 32 * b * l, 16 * b, -2, 16 * l, -3, -4, -5])

    most = (8, 256)
    for _ in range(500):
        few = (rng.randint(1, 8), rng.randint(1, 8))
        b = rng.randint(1, 8)
        wanted = (b, rng.randint(1, 256 // b))
        low, high, limit = few[0] * few[1], most[0] * most[1], max(wanted[0] * wanted[1], few[0] * few[1])
        assert is_part_of(trace(*wanted), between(trace(*few), trace(*most), (low, limit, high)))


def model() -> bytes:
    """Rows in, a number a row out; what lies between is alive at once, with what grows with the square of the width."""
    value = helper.make_tensor_value_info
    nodes = [
        helper.make_node("Exp", ["x"], ["e"]),
        helper.make_node("Transpose", ["e"], ["t"], perm=[0, 2, 1]),
        helper.make_node("MatMul", ["t", "e"], ["square"]),
        helper.make_node("Softmax", ["square"], ["s"]),
        helper.make_node("MatMul", ["e", "s"], ["m"]),
        helper.make_node("Add", ["m", "e"], ["a"]),
        helper.make_node("ReduceMax", ["a"], ["y"], axes=[1, 2], keepdims=0),
    ]
    graph = helper.make_graph(
        nodes, "g", [value("x", TensorProto.FLOAT, ["n", 64, "w"])], [value("y", TensorProto.FLOAT, ["n"])]
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    return bytes(made.SerializeToString())


@pytest.mark.parametrize("is_capped", [False, True])
def test_sessions_under_threads_and_shapes_give_the_same_bits(is_capped: bool) -> None:
    ort = pytest.importorskip("onnxruntime")
    data = model()
    onnx.checker.check_model(onnx.load_from_string(data))
    options = ort.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    plain = ort.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    rng = np.random.default_rng(0)
    shapes = [(8, 256)] + [(int(rng.integers(1, 9)), int(rng.integers(1, 40))) for _ in range(150)] + [(8, 256)]
    feeds = [{"x": rng.random((n, 64, w), np.float32)} for n, w in shapes]
    wanted = [plain.run(None, feed)[0] for feed in feeds]
    options = ort.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    with edgemem.InferenceSession(data, options, cache=False, background=False) as free:
        for _ in range(2):
            free.run(None, feeds[0])
        need = free.memory.peak
    policy: dict[str, Any] = {"max_bytes": need + 64 * KIB} if is_capped else {"most_arenas": 1}
    wrong: list[int] = []
    with edgemem.InferenceSession(data, options, cache=False, **policy) as session:
        session.warm_up(feeds[0])
        lock = threading.Lock()

        def work(todo: Iterator[int]) -> None:
            while True:
                with lock:
                    k = next(todo, None)
                if k is None:
                    return
                if session.run(None, feeds[k])[0].tobytes() != wanted[k].tobytes():
                    wrong.append(k)

        assert session._replayer is not None
        assert session._replayer.current is not None
        family = session._replayer.current
        before = sys.getswitchinterval()
        sys.setswitchinterval(1e-5)  # so that a run is interrupted while it has an arena, and another waits
        try:
            for _ in range(100):
                has_plans = bool(family.smaller)
                joined(at_once(*[partial(work, iter(range(len(feeds))))] * 8))
                session.wait(20)
                if has_plans or wrong:
                    break
        finally:
            sys.setswitchinterval(before)
        assert wrong == []
        assert family.smaller, "runs waited, and small ones got plans"
        assert session.memory.arena <= need + 64 * KIB
        assert session.memory.bails <= 4
        session.trim()
        assert session.memory.arena == 0


def test_the_first_run_with_bound_values_has_the_memory_of_idle_arenas() -> None:
    ort = pytest.importorskip("onnxruntime")
    feed = {"x": np.ones((8, 64, 128), np.float32)}
    options = ort.SessionOptions()
    with edgemem.InferenceSession(model(), options, cache=False, background=False) as free:
        for _ in range(2):
            free.run(None, feed)
        need = free.memory.peak
    with edgemem.InferenceSession(
        model(), options, cache=False, background=False, max_bytes=need + 64 * KIB
    ) as session:
        wanted = session.run(None, feed)[0].tobytes()
        assert session.run(None, feed)[0].tobytes() == wanted
        assert 2 * session.memory.arena > need
        binding = session.io_binding()
        binding.bind_cpu_input("x", feed["x"])
        binding.bind_output("y")
        for _ in range(3):
            session.run_with_iobinding(binding)
            assert binding.copy_outputs_to_cpu()[0].tobytes() == wanted
