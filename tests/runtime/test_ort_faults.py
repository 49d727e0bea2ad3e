"""Whatever differs from the record: right results or a clear error, never a crash, never silence."""

from __future__ import annotations

import base64
import ctypes
import gc
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import pytest

from edgemem import planfile
from edgemem.errors import InvalidPlanError, PlanFileError, RuntimeBindError
from edgemem.plans import OffsetPlan
from edgemem.replay.arena import ArenaMemory
from edgemem.replay.context import POISON, Context
from edgemem.replay.families import MOST_PLANS
from edgemem.replay.library import library
from edgemem.replay.plan import ReplayPlan, places_of
from edgemem.runtime.onnxruntime.file import PLAN_KEY, plans_in, with_plans
from edgemem.runtime.onnxruntime.recording import embed, record
from edgemem.runtime.onnxruntime.session import InferenceSession
from tests import extent
from tests.onnx_sessions import REAL, branching, feeds, looping, nonzero, options, plain, real, same, small

if TYPE_CHECKING:
    from edgemem.plans import PlanSet
    from edgemem.trace.recording import Fingerprint

ort = pytest.importorskip("onnxruntime")

CPU = ["CPUExecutionProvider"]


STRICT = {"cache": False, "background": False, "poison": True, "guard": True}


def opened(model: Any, **more: Any) -> InferenceSession:
    return InferenceSession(model, options(), CPU, **(STRICT | more))


def x(seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal((64, 64), np.float32)


@pytest.fixture
def recorded(tmp_path: Path) -> tuple[Path, PlanSet]:
    path = tmp_path / "model.onnx"
    path.write_bytes(small("unet"))
    return path, record(path, sess_options=options())


def test_another_branch() -> None:
    reference = plain(branching())
    with opened(branching()) as session:
        for yes in (True, True, False, False, False, True, False, True, False):
            given = {"x": x(), "yes": np.array(yes)}
            assert same(session.run(None, given), reference.run(None, given))
        memory = session.memory
        # The two branches get one plan in the end, which serves both.
        assert (memory.mode, memory.hits) == ("replay", 3)
        assert memory.replayed >= 2
        assert memory.bails <= 6


def test_another_number_of_iterations() -> None:
    reference = plain(looping())
    with opened(looping()) as session:
        for count in (4, 4, 6, 6, 6, 2, 2, 2, 0):
            given = {"x": x(), "count": np.array(count, np.int64)}
            assert same(session.run(None, given), reference.run(None, given))
        # 4 trips: recorded, replayed. 6: does not fit, recorded, replayed. Fewer trips fit.
        assert (session.memory.bails, session.memory.replayed) == (2, 6)


def test_sizes_that_depend_on_the_data() -> None:
    reference = plain(nonzero())
    with opened(nonzero()) as session:
        for seed, keep in enumerate((1.0, 1.0, 0.5, 0.25, 0.0, 1.0)):
            value = x(seed) * (np.random.default_rng(seed).random((64, 64)) < keep)
            given = {"x": value.astype(np.float32)}
            assert same(session.run(None, given), reference.run(None, given))
        assert (session.memory.bails, session.memory.replayed) == (0, 5), "the first run was the largest"


def test_a_loop_that_goes_round_more_often_every_time_gets_a_dozen_plans() -> None:
    reference = plain(looping())
    with opened(looping()) as session:
        for count in range(1, 24):
            given = {"x": x(), "count": np.array(count, np.int64)}
            assert same(session.run(None, given), reference.run(None, given))
        memory = session.memory
        assert memory.replans == MOST_PLANS - 1
        assert (memory.mode, memory.replayed) == ("replay", 0)
        assert memory.hits >= 15, "the trips that are planned stay in the plan"
        given = {"x": x(), "count": np.array(3, np.int64)}
        assert same(session.run(None, given), reference.run(None, given))
        assert session.memory.replayed == 1


def test_nested_branches_of_a_real_model() -> None:
    path = real("silero_vad")
    reference = plain(path)
    given = feeds(reference, REAL["silero_vad"])
    slow = given | {"sr": np.array(8000, np.int64), "input": given["input"][:, :288]}
    with opened(path) as session:
        for feed in (given, slow, given, slow, given):
            assert same(session.run(None, feed), reference.run(None, feed))
        assert session.memory.mode == "replay"
        assert session.memory.replayed >= 2


def test_a_result_that_was_to_be_freed_is_not_overwritten() -> None:
    """A block of the arena that outlives its run keeps the arena from being used."""
    stream = np.array([1000, 2000, -1, -2], np.int64)
    plan = ReplayPlan(stream, np.array([0, 1024], np.int64), 3072)
    c = library().c
    c.em_allocate.restype, c.em_allocate.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
    c.em_free.argtypes = [ctypes.c_void_p]
    context, memory = Context(), ArenaMemory(3072)
    assert context.begin_replay(plan, memory, POISON)
    kept = c.em_allocate(1000)
    assert context.end()
    stats = context.stats()
    assert (stats.left, stats.bail, memory.left) == (1, -1, 1)
    assert not context.begin_replay(plan, memory, POISON)
    c.em_free(kept)
    assert memory.left == 0
    assert context.begin_replay(plan, memory, POISON)
    context.end()


@pytest.mark.full
def test_eight_threads_run_one_session_a_thousand_times_each() -> None:
    model = small("transformer")
    reference = plain(model)
    given = [feeds(reference, seed=k) for k in range(8)]
    expected = [reference.run(None, g) for g in given]
    wrong: list[int] = []
    with opened(model, poison=False) as session:
        session.run(None, given[0])

        def work(k: int) -> None:
            wrong.extend(k for _ in range(1000) if not same(session.run(None, given[k]), expected[k]))

        threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        memory = session.memory
    assert not wrong
    assert (memory.runs, memory.replayed, memory.bails) == (8001, 8000, 0)
    assert memory.arena <= 8 * memory.planned


def rss() -> int:
    status = Path("/proc/self/statm")
    if not status.is_file():
        pytest.skip("no /proc here")
    return int(status.read_text().split()[1]) * 4096


@pytest.mark.full
def test_hundreds_of_sessions_come_and_go() -> None:
    model, count = branching(), 1000 if extent.exhaustive else 300
    given = {"x": x(), "yes": np.array(True)}

    def once() -> None:
        with opened(model, poison=False) as session:
            session.run(None, given)
            session.run(None, given)
            assert session.memory.replayed == 1

    for _ in range(50):
        once()
    gc.collect()  # sessions of other tests
    before, memory = library().totals(), rss()
    for _ in range(count):
        once()
    after = library().totals()
    assert (after.contexts, after.arenas, after.arena_bytes) == (before.contexts, before.arenas, before.arena_bytes)
    assert after.heap_live == before.heap_live
    assert after.reserve_live == before.reserve_live
    assert rss() - memory < count * (16 << 10)


def test_sessions_that_are_not_closed_leave_nothing_either() -> None:
    gc.collect()  # sessions of other tests
    before = library().totals()
    for _ in range(20):
        session = opened(branching())
        for _ in range(2):
            session.run(None, {"x": x(), "yes": np.array(True)})
        del session
    after = library().totals()
    assert (after.contexts, after.arenas) == (before.contexts, before.arenas)


@pytest.mark.parametrize("when", [0, 1, 3])
def test_a_shortage_of_memory_while_recording(when: int) -> None:
    given = {"x": x(), "yes": np.array(True)}
    with opened(branching()) as session:
        library().c.em_fail_after(when)
        try:
            with pytest.raises(Exception, match=r"(?i)alloc"):
                session.run(None, given)
        finally:
            library().c.em_fail_after(-1)
        for _ in range(2):
            assert same(session.run(None, given), plain(branching()).run(None, given))
        assert session.memory.replayed == 1


def test_a_shortage_of_memory_while_replaying() -> None:
    given = {"x": x(), "yes": np.array(True)}
    with opened(branching()) as session:
        session.run(None, given)
        library().c.em_fail_after(0)
        try:
            with pytest.raises(Exception, match=r"(?i)alloc"):  # there is none for an arena, and none for the heap
                session.run(None, given)
        finally:
            library().c.em_fail_after(-1)
        for _ in range(2):
            session.run(None, given)  # recorded anew, and replayed
        library().c.em_fail_after(0)
        try:
            with pytest.raises(Exception, match=r"(?i)alloc"):  # the result has its place on the heap
                session.run(None, given)
        finally:
            library().c.em_fail_after(-1)
        assert same(session.run(None, given), plain(branching()).run(None, given))
        assert session.memory.bails == 0
        assert session.memory.replayed == 2


def test_a_damaged_plan_in_the_file_is_an_error(recorded: tuple[Path, PlanSet]) -> None:
    path, plan = recorded
    data = bytearray(planfile.encode(plan))
    data[len(data) // 2] ^= 1
    path.write_bytes(with_entry(path.read_bytes(), bytes(data)))
    with pytest.raises(PlanFileError, match="damaged"):
        opened(path)
    with opened(path, stored=False) as session:
        session.run(None, feeds(session))
    embed(path, (plan,), path)
    (stored,) = plans_in(path.read_bytes())
    assert stored.recording is not None
    assert stored.recording.fingerprint == fingerprint_of(plan)


def test_damage_is_always_found(recorded: tuple[Path, PlanSet]) -> None:
    data = planfile.encode(recorded[1])
    for k in range(0, len(data), 97):
        for cut in (data[:k], data[:k] + bytes([data[k] ^ 0x10]) + data[k + 1 :]):
            with pytest.raises(PlanFileError):
                planfile.decode(cut)


def fingerprint_of(plan: PlanSet) -> Fingerprint:
    assert plan.recording is not None
    return plan.recording.fingerprint


def forged(plan: PlanSet, fingerprint: Fingerprint) -> PlanSet:
    """The plan as if it were of another session's recording."""
    assert plan.recording is not None
    return replace(plan, recording=replace(plan.recording, fingerprint=fingerprint))


def with_entry(model: bytes, plans: bytes) -> bytes:
    """The model with these bytes as its plans."""
    parsed = onnx.load_from_string(model)
    parsed.metadata_props.add(key=PLAN_KEY, value=base64.b64encode(plans).decode())
    return bytes(parsed.SerializeToString())


def test_a_wrong_plan_with_a_right_checksum_is_an_error(recorded: tuple[Path, PlanSet]) -> None:
    path, plan = recorded
    best = plan.best_offsets
    assert best is not None
    assert plan.recording is not None
    at_top = best.offsets + plan.problem.size == best.size
    offsets = np.where(at_top, best.offsets, 0)  # all others at the bottom
    overlapping = OffsetPlan(best.strategy, {}, offsets, best.size, optimal=best.optimal)
    path.write_bytes(with_plans(path.read_bytes(), (replace(plan, offsets=(overlapping,)),)))
    with opened(path) as session:
        for ask in (lambda: session.run(None, feeds(session)), lambda: session.memory):
            with pytest.raises(InvalidPlanError, match="overlap"):
                ask()
    with pytest.raises(InvalidPlanError, match="overlaps another one that is alive"):
        ReplayPlan(plan.recording.trace.events, np.minimum(places_of(plan), 0), best.size)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"model": "0" * 64}, "model 0000"),
        ({"version": "1.30.0"}, "version 1.30.0 instead of"),
        ({"options": {"level": "B"}}, "level B instead of"),
    ],
)
def test_a_plan_of_something_else_is_recorded_anew(
    recorded: tuple[Path, PlanSet], change: dict[str, Any], says: str
) -> None:
    path, plan = recorded
    fingerprint = fingerprint_of(plan)
    if "options" in change:
        change = {"options": {**fingerprint.options, **change["options"]}}
    embed(path, (forged(plan, replace(fingerprint, **change)),), path)
    with opened(path) as session:
        given = feeds(session)
        assert same(session.run(None, given), plain(path).run(None, given))
        assert session.memory.replayed == 0
        assert says in session.memory.reason
        session.run(None, given)
        assert session.memory.replayed == 1


def test_a_plan_that_lies_about_its_model_deviates(recorded: tuple[Path, PlanSet], tmp_path: Path) -> None:
    _, plan = recorded
    other = tmp_path / "other.onnx"
    other.write_bytes(small("resnet18"))
    own = record(other, sess_options=options())
    embed(other, (forged(plan, fingerprint_of(own)),), other)
    reference = plain(other)
    with opened(other) as session:
        for seed in range(3):
            given = feeds(reference, seed=seed)
            assert same(session.run(None, given), reference.run(None, given))
        assert session.memory.mode == "replay"
        assert session.memory.bails >= 1
        assert session.memory.replayed >= 1


def test_a_run_inside_a_run_is_served_and_noticed() -> None:
    """A callback of one run starts another on the same thread: the outer one has requests that do not fit."""
    model = branching()
    given = {"x": x(), "yes": np.array(True)}
    with opened(model) as session, opened(model) as inner:
        expected = session.run(None, given)
        inner.run(None, given)
        replayer = session._replayer
        assert replayer is not None
        assert replayer.current is not None
        signature = session._signature("run", None, given)
        results = replayer.run(
            replayer.current, lambda: signature, lambda: (inner.run(None, given), session._session.run(None, given))
        )
        assert all(same(r, expected) for r in results)
        assert session.memory.bails == 1


@pytest.mark.full
def test_another_allocator_of_the_process_is_noticed() -> None:
    """Someone registers an arena of ONNX Runtime's own after ours: later sessions say they run without a plan."""
    code = """
import numpy as np, onnxruntime as ort
from edgemem.runtime.onnxruntime.session import InferenceSession
from tests.onnx_sessions import REAL, branching, options
given = {"x": np.ones((64, 64), np.float32), "yes": np.array(True)}
with InferenceSession(branching(), options(), cache=False, background=False) as session:
    first = session.run(None, given)
info = ort.OrtMemoryInfo("Cpu", ort.OrtAllocatorType.ORT_ARENA_ALLOCATOR, 0, ort.OrtMemType.DEFAULT)
ort.create_and_register_allocator(info, None)
with InferenceSession(branching(), options(), cache=False, background=False) as session:
    for _ in range(3):
        assert np.array_equal(session.run(None, given)[0], first[0])
    print(session.memory.mode, session.memory.reason)
"""
    root = Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=root, check=False)
    assert done.returncode == 0, done.stderr
    mode, _, reason = done.stdout.strip().partition(" ")
    assert mode == "record"
    assert "another allocator was registered" in reason


def test_the_arena_library_refuses_what_it_cannot_serve() -> None:
    plan = ReplayPlan(np.array([100, -1], np.int64), np.array([0], np.int64), 128)
    with pytest.raises(RuntimeBindError, match="needs 128 bytes"):
        Context().begin_replay(plan, ArenaMemory(64))
    with pytest.raises(RuntimeBindError, match="not active"):
        Context().end()
