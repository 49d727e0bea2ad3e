"""One arena for sessions and for whoever places tensors in its bytes."""

from __future__ import annotations

import gc

import pytest

from edgemem import Arena
from edgemem.errors import RuntimeBindError
from edgemem.replay.library import library
from edgemem.runtime.onnxruntime.session import InferenceSession
from tests.onnx_sessions import feeds, options, plain, same, small


def test_it_grows_and_old_bytes_stay_valid() -> None:
    arena = Arena()
    assert (arena.size, len(arena.memory)) == (0, 0)
    arena.reserve(1000)
    old = arena.memory
    old[:] = 7
    arena.holder = self = object()
    arena.reserve(10)
    assert arena.holder is self, "large enough"
    arena.reserve(5000)
    assert arena.holder is None
    assert arena.size >= 5000
    assert arena.address % 64 == 0
    assert arena.memory.ctypes.data == arena.address
    gc.collect()
    assert (old == 7).all()
    arena.close()
    assert (old == 7).all()
    with pytest.raises(RuntimeBindError, match="closed; make another one"):
        arena.reserve(1)


def test_a_capacity_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(2):
        arena = Arena(256)
        assert arena.size == 256
        with pytest.raises(RuntimeBindError, match=r"needs an arena of 257 bytes, the one it was given has 256"):
            arena.reserve(257)
        # The second time without the compiled library.
        monkeypatch.setattr("edgemem.replay.arena.find_library", lambda: None)
    arena = Arena()
    arena.reserve(4096)
    assert arena.address % 64 == 0
    arena.memory[:] = 1


def test_a_session_and_another_user_take_turns() -> None:
    pytest.importorskip("onnxruntime")
    library()
    arena = Arena()
    model = small("resnet18")
    given, wanted = feeds(plain(model)), None
    arena.reserve(100)
    with InferenceSession(model, options(), cache=False, background=False, arena=arena) as session:
        for _ in range(3):
            arena.holder = other = object()
            arena.memory[:] = 0xFF
            results = session.run(None, given)
            wanted = wanted or plain(model).run(None, given)
            assert same(results, wanted)
        assert arena.holder is not other, "a session ran there"
        assert session.memory.replayed == 2
        assert arena.size == session.memory.arena >= session.memory.planned
    with InferenceSession(model, options(), cache=False, background=False, arena=Arena(64)) as session:
        session.run(None, given)  # is recorded
        with pytest.raises(RuntimeBindError, match="given has 64"):
            session.run(None, given)
