"""The user's own store of recorded plans: whatever lies there, a session runs."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import platformdirs
import pytest

from edgemem import planfile
from edgemem.planning.model_plan import plan_recording
from edgemem.plans import OffsetPlan, Settings
from edgemem.replay.cache import PlanCache, cache_folder
from edgemem.trace import Trace
from edgemem.trace.recording import Fingerprint, Recording, Signature
from tests.onnx_sessions import feeds, options, plain, same, small

if TYPE_CHECKING:
    from edgemem.plans import PlanSet

FINGERPRINT = Fingerprint("runtime", "1", "model", {"threads": 1}, Signature("run", ()))


@pytest.fixture
def planset() -> PlanSet:
    trace = Trace.from_stream(np.array([64, 128, -1, 256, -2, -3]))
    return plan_recording(Recording(FINGERPRINT, trace), Settings())


def stored(cache: PlanCache) -> Path:
    (path,) = cache.folder.iterdir()
    return path


def test_what_is_kept_is_found_by_fingerprint_and_settings(planset: PlanSet, tmp_path: Path) -> None:
    cache = PlanCache(tmp_path / "plans")
    assert cache.load(FINGERPRINT, Settings()) is None
    cache.save(planset)
    found = cache.load(FINGERPRINT, Settings())
    assert found is not None
    assert planfile.encode(found.planset) == planfile.encode(planset)
    assert cache.load(FINGERPRINT, Settings(("offsets/naive",))) is None
    assert cache.load(replace(FINGERPRINT, version="2"), Settings()) is None


def test_a_plan_under_the_name_of_another_is_not_taken(planset: PlanSet, tmp_path: Path) -> None:
    cache = PlanCache(tmp_path)
    cache.save(planset)
    path = stored(cache)
    assert planset.recording is not None
    other = replace(planset, recording=replace(planset.recording, fingerprint=replace(FINGERPRINT, model="other")))
    path.write_bytes(planfile.encode(other))
    assert cache.load(FINGERPRINT, Settings()) is None
    path.write_bytes(planfile.encode(replace(planset, recording=None)))
    assert cache.load(FINGERPRINT, Settings()) is None


def test_a_wrong_plan_is_absent(planset: PlanSet, tmp_path: Path) -> None:
    cache = PlanCache(tmp_path)
    cache.save(planset)
    (best,) = planset.offsets
    for offsets in (best.offsets * 0, best.offsets + (1 << 40), best.offsets + 1):
        wrong = OffsetPlan(best.strategy, {}, offsets, best.size, optimal=best.optimal)
        stored(cache).write_bytes(planfile.encode(replace(planset, offsets=(wrong,))))
        assert cache.load(FINGERPRINT, Settings()) is None
    cache.save(planset)
    assert cache.load(FINGERPRINT, Settings()) is not None


@pytest.mark.skipif(os.name != "posix", reason="Windows has no such files")
def test_what_is_no_regular_file_is_absent_and_is_not_written_through(planset: PlanSet, tmp_path: Path) -> None:
    cache = PlanCache(tmp_path / "plans")
    cache.save(planset)
    path, mine = stored(cache), tmp_path / "mine"
    path.unlink()
    os.mkfifo(path)
    assert cache.load(FINGERPRINT, Settings()) is None, "and it does not wait for a writer"
    path.unlink()
    path.symlink_to("/dev/zero")
    assert cache.load(FINGERPRINT, Settings()) is None
    path.unlink()
    mine.write_bytes(b"mine")
    path.symlink_to(mine)
    cache.save(planset)
    assert mine.read_bytes() == b"mine"
    assert not path.is_symlink()
    assert cache.load(FINGERPRINT, Settings()) is not None


def test_where_it_lies(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("EDGEMEM_CACHE", str(tmp_path))
    assert cache_folder() == tmp_path / "plans"
    monkeypatch.delenv("EDGEMEM_CACHE")
    monkeypatch.setattr("platformdirs.user_cache_path", lambda *_, **__: tmp_path / "cache" / "edgemem")
    assert cache_folder() == tmp_path / "cache" / "edgemem" / "plans"


@pytest.mark.skipif(not platformdirs.user_cache_dir().startswith("/"), reason="as Linux has it")
def test_where_it_lies_on_linux(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("EDGEMEM_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder() == tmp_path / ".cache" / "edgemem" / "plans"


def test_a_user_without_a_home_has_no_cache_and_sessions_run(monkeypatch: pytest.MonkeyPatch) -> None:
    session_of = pytest.importorskip("edgemem.runtime.onnxruntime.session", reason="needs onnxruntime").InferenceSession

    def homeless(*_: object, **__: object) -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("EDGEMEM_CACHE", raising=False)
    monkeypatch.setattr("platformdirs.user_cache_path", homeless)
    assert cache_folder() is None
    monkeypatch.setattr("platformdirs.user_cache_path", lambda *_, **__: Path("~/.cache/edgemem"))
    assert cache_folder() is None
    model = small("blazeface")
    given = feeds(plain(model))
    with session_of(model, options()) as session:
        for _ in range(2):
            assert same(session.run(None, given), plain(model).run(None, given))
        assert session.memory.replayed == 1
