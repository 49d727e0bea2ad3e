"""The user's own store of recorded plans: whatever lies there, a session runs."""

from __future__ import annotations

import ctypes
import os
import sys
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

import edgemem.replay.cache
from edgemem import planfile
from edgemem.errors import InvalidPlanError, RuntimeBindError
from edgemem.planning.recording_plan import plan_recording
from edgemem.plans import OffsetPlan, Settings
from edgemem.proof import prove
from edgemem.replay.arena import Arena
from edgemem.replay.cache import MOST_BYTES, PlanCache, cache_folder
from edgemem.replay.context import MOST_EVENTS
from edgemem.replay.library import library
from edgemem.replay.plan import replay_plan
from edgemem.replay.policy import ReplayPolicy
from edgemem.replay.replayer import Replayer
from edgemem.replay.store import StoredPlans
from edgemem.system.caches import MOST_DAYS
from edgemem.trace import Trace
from edgemem.trace.recording import Fingerprint, Recording, Signature
from tests.onnx_sessions import feeds, options, plain, same, small

if TYPE_CHECKING:
    from edgemem.plans import PlanSet

SIGNATURE = Signature("run", ())
FINGERPRINT = Fingerprint("runtime", "1", "model", {"threads": 1}, SIGNATURE)


@pytest.fixture
def planset() -> PlanSet:
    trace = Trace.from_stream(np.array([64, 128, -1, 256, -2, -3]))
    return plan_recording(Recording(FINGERPRINT, trace), Settings())


def stored(cache: PlanCache) -> Path:
    (path,) = cache.folder.iterdir()
    return path


def test_what_is_kept_is_found_by_fingerprint_and_settings(planset: PlanSet, tmp_path: Path) -> None:
    cache = PlanCache(tmp_path / "plans")
    assert not cache.load(FINGERPRINT, Settings())
    cache.save(planset)
    (found,) = cache.load(FINGERPRINT, Settings())
    assert planfile.encode(found.planset) == planfile.encode(planset)
    assert not cache.load(FINGERPRINT, Settings(("offsets/naive",)))
    assert not cache.load(replace(FINGERPRINT, version="2"), Settings())


def test_a_plan_under_the_name_of_another_is_not_taken(planset: PlanSet, tmp_path: Path) -> None:
    cache = PlanCache(tmp_path)
    cache.save(planset)
    path = stored(cache)
    assert planset.recording is not None
    other = replace(planset, recording=replace(planset.recording, fingerprint=replace(FINGERPRINT, model="other")))
    path.write_bytes(planfile.encode(other))
    assert not cache.load(FINGERPRINT, Settings())
    path.write_bytes(planfile.encode(replace(planset, recording=None)))
    assert not cache.load(FINGERPRINT, Settings())


def test_a_wrong_plan_is_absent(planset: PlanSet, tmp_path: Path) -> None:
    cache = PlanCache(tmp_path)
    cache.save(planset)
    (best,) = planset.offsets
    for offsets in (best.offsets * 0, best.offsets + (1 << 40), best.offsets + 1):
        wrong = OffsetPlan(best.strategy, {}, offsets, best.size, optimal=best.optimal)
        stored(cache).write_bytes(planfile.encode(replace(planset, offsets=(wrong,))))
        assert not cache.load(FINGERPRINT, Settings())
    cache.save(planset)
    assert len(cache.load(FINGERPRINT, Settings())) == 1


@pytest.mark.skipif(os.name != "posix", reason="Windows has no such files")
def test_what_is_no_regular_file_is_absent_and_is_not_written_through(planset: PlanSet, tmp_path: Path) -> None:
    cache = PlanCache(tmp_path / "plans")
    cache.save(planset)
    path, mine = stored(cache), tmp_path / "mine"
    path.unlink()
    os.mkfifo(path)
    assert not cache.load(FINGERPRINT, Settings()), "and it does not wait for a writer"
    path.unlink()
    path.symlink_to("/dev/zero")
    assert not cache.load(FINGERPRINT, Settings())
    path.unlink()
    mine.write_bytes(b"mine")
    path.symlink_to(mine)
    cache.save(planset)
    assert mine.read_bytes() == b"mine"
    assert not path.is_symlink()
    assert len(cache.load(FINGERPRINT, Settings())) == 1


@pytest.mark.skipif(os.name != "posix", reason="Windows has no such files")
def test_a_fifo_in_the_place_of_an_entry_is_replaced(planset: PlanSet, tmp_path: Path) -> None:
    cache = PlanCache(tmp_path)
    cache.save(planset)
    path = stored(cache)
    path.unlink()
    os.mkfifo(path)
    cache.save(planset)
    assert path.is_file()
    assert len(cache.load(FINGERPRINT, Settings())) == 1
    path.unlink()
    path.mkdir()
    cache.save(planset)
    assert not cache.load(FINGERPRINT, Settings())


def test_an_entry_that_is_too_large_is_not_read(planset: PlanSet, tmp_path: Path) -> None:
    cache = PlanCache(tmp_path)
    cache.save(planset)
    with stored(cache).open("r+b") as file:
        file.truncate(1 << 40)  # nothing is written, so it takes no room
    assert not cache.load(FINGERPRINT, Settings())


def test_old_entries_and_the_oldest_of_too_many_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def planset(requests: int) -> PlanSet:
        stream = np.array([64] * requests + [-k - 1 for k in range(requests)])
        return plan_recording(Recording(FINGERPRINT, Trace.from_stream(stream)), Settings())

    def kept() -> list[int]:
        found = (p.planset.recording for p in cache.load(FINGERPRINT, Settings()))
        return sorted(len(recording.trace.requests) for recording in found if recording is not None)

    cache = PlanCache(tmp_path)
    now = time.time()
    for requests in (1, 2, 3):
        known = set(tmp_path.iterdir())
        cache.save(planset(requests))
        (made,) = set(tmp_path.iterdir()) - known
        os.utime(made, (now, now - 100 + requests))
    monkeypatch.setattr(edgemem.replay.cache, "MOST_FILES", 3)
    cache.save(planset(4))
    assert kept() == [2, 3, 4], "the one that was not used for longest is gone"
    for path in tmp_path.iterdir():
        os.utime(path, (now, now - (MOST_DAYS + 1) * 86400))
    cache.save(planset(5))
    assert kept() == [5]


@pytest.mark.full
def test_the_largest_recording_can_be_stored() -> None:
    count = 1 << 19
    stream = np.empty(2 * count, np.int64)
    stream[0::2], stream[1::2] = 10**6, -np.arange(count) - 1
    planset = plan_recording(Recording(FINGERPRINT, Trace.from_stream(stream)), Settings(("offsets/naive",)))
    assert len(stream) == MOST_EVENTS
    assert len(planfile.encode(planset)) <= MOST_BYTES


def session(cache: PlanCache, arena: Arena | None = None) -> Replayer:
    """A program that asks for memory as the recording of `planset` does."""
    stored = StoredPlans(replace(FINGERPRINT, signature=Signature("", ())), (), Settings(), cache)
    return replayer_of(stored, arena)


def replayer_of(stored: StoredPlans, arena: Arena | None = None) -> Replayer:
    plan = partial(plan_recording, settings=Settings())
    return Replayer(stored, first=plan, better=plan, policy=ReplayPolicy(background=False), shared=arena)


def run(replayer: Replayer) -> None:
    replayer.run(replayer.family(SIGNATURE), lambda: SIGNATURE, requests)


def requests() -> None:
    """As in the recording of `planset`."""
    c = library().c
    c.em_allocate.restype, c.em_allocate.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
    c.em_free.restype, c.em_free.argtypes = None, [ctypes.c_void_p]
    first, second = c.em_allocate(64), c.em_allocate(128)
    c.em_free(first)
    third = c.em_allocate(256)
    c.em_free(second)
    c.em_free(third)


def moved(planset: PlanSet, distance: int) -> PlanSet:
    """The same plan far away: the proof finds nothing wrong with it."""
    (best,) = planset.offsets
    plan = OffsetPlan(best.strategy, {}, best.offsets + distance, best.size + distance, optimal=False)
    return prove(replace(planset, offsets=(plan,))).planset


@pytest.mark.parametrize("distance", [1 << 20, 1 << 40, 1 << 60])
def test_a_plan_far_away_is_absent(planset: PlanSet, tmp_path: Path, distance: int) -> None:
    cache = PlanCache(tmp_path)
    cache.save(moved(planset, distance))
    replayer = session(cache)
    for _ in range(2):
        run(replayer)
    assert (replayer.totals().replayed, replayer.arena_bytes()) == (1, 384)
    with pytest.raises(InvalidPlanError, match=r"takes .* bytes, and its records end to end 448; record"):
        replay_plan(prove(moved(planset, distance)))


@pytest.mark.parametrize("size", [1 << 50, 1 << 59])
def test_a_recording_of_more_memory_than_there_is_is_forgotten(tmp_path: Path, size: int) -> None:
    cache = PlanCache(tmp_path)
    trace = Trace.from_stream(np.array([size, 64, -1, -2]))
    cache.save(plan_recording(Recording(FINGERPRINT, trace), Settings()))
    assert len(cache.load(FINGERPRINT, Settings())) == 1
    replayer = session(cache)
    for _ in range(3):
        run(replayer)
    assert replayer.totals().replayed >= 1
    assert replayer.current is not None
    assert replayer.current.latest is not None
    assert replayer.current.latest.found.source == "made now"


def test_a_recording_in_the_file_of_more_memory_than_there_is_is_an_error() -> None:
    trace = Trace.from_stream(np.array([1 << 50, 64, -1, -2]))
    planset = plan_recording(Recording(FINGERPRINT, trace), Settings())
    without = replace(FINGERPRINT, signature=Signature("", ()))
    replayer = replayer_of(StoredPlans(without, (prove(planset),), Settings(), None))
    with pytest.raises(RuntimeBindError, match=r"no memory for the plan in the model file, .*stored=False"):
        run(replayer)


def test_an_arena_that_is_too_small_for_an_entry_forgets_the_entry(tmp_path: Path) -> None:
    cache = PlanCache(tmp_path)
    trace = Trace.from_stream(np.array([1 << 16, -1]))
    cache.save(plan_recording(Recording(FINGERPRINT, trace), Settings()))
    with Arena(1024) as arena:
        replayer = session(cache, arena)
        for _ in range(3):
            run(replayer)
        assert replayer.totals().replayed == 1


def test_where_it_lies(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("EDGEMEM_CACHE", str(tmp_path))
    assert cache_folder() == tmp_path / "plans"
    monkeypatch.delenv("EDGEMEM_CACHE")
    monkeypatch.setattr("edgemem.system.caches._user_folder", lambda *_, **__: tmp_path / "cache" / "edgemem")
    assert cache_folder() == tmp_path / "cache" / "edgemem" / "plans"


@pytest.mark.skipif(sys.platform != "linux", reason="as Linux has it")
def test_where_it_lies_on_linux(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("EDGEMEM_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder() == tmp_path / ".cache" / "edgemem" / "plans"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_folder() == tmp_path / "xdg" / "edgemem" / "plans"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert cache_folder() is None


def test_a_user_without_a_home_has_no_cache_and_sessions_run(monkeypatch: pytest.MonkeyPatch) -> None:
    session_of = pytest.importorskip("edgemem.runtime.onnxruntime.session", reason="needs onnxruntime").InferenceSession

    def homeless(*_: object, **__: object) -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("EDGEMEM_CACHE", raising=False)
    monkeypatch.setattr("edgemem.system.caches._user_folder", homeless)
    assert cache_folder() is None
    monkeypatch.setattr("edgemem.system.caches._user_folder", lambda *_, **__: Path("~/.cache/edgemem"))
    assert cache_folder() is None
    model = small("blazeface")
    given = feeds(plain(model))
    with session_of(model, options(), background=False) as session:
        for _ in range(2):
            assert same(session.run(None, given), plain(model).run(None, given))
        assert session.memory.replayed == 1
