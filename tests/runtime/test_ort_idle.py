"""What a session gives back while nothing runs in it: after `trim`, after an idle time, and while memory is short."""

from __future__ import annotations

import math
import threading
from typing import TYPE_CHECKING

import pytest

from edgemem.replay.idle import IdleWatch
from edgemem.system import memory_pressure
from edgemem.system.memory_pressure import MemoryPressure
from edgemem.system.process_memory import resident_bytes
from tests.onnx_sessions import same
from tests.runtime.test_ort_budget import ALIVE, MEBIBYTE, expected, model, opened, rows

if TYPE_CHECKING:
    from pathlib import Path


def waited(group: Path, seconds: float) -> None:
    """What Linux writes for a control group whose tasks waited for so long."""
    averages = "avg10=0.00 avg60=0.00 avg300=0.00"
    lines = [f"{kind} {averages} total={round(seconds * 1e6)}" for kind in ("some", "full")]
    (group / "memory.pressure").write_text("\n".join([*lines, ""]))


def test_pressure_is_high_where_tasks_waited_for_a_tenth_of_a_second(tmp_path: Path) -> None:
    waited(tmp_path, 7.0)
    pressure = MemoryPressure(tmp_path)
    assert not pressure.is_high(10.0), "what was before"
    waited(tmp_path, 7.05)
    assert not pressure.is_high(11.0)
    waited(tmp_path, 7.25)
    assert not pressure.is_high(11.5), "half a second is too short"
    assert pressure.is_high(12.0)
    assert not pressure.is_high(13.0), "nobody waited meanwhile"
    (tmp_path / "memory.pressure").unlink()
    assert not pressure.is_high(14.0)


@pytest.mark.parametrize("text", ["", "some avg10=0.00\n", "some total=x\n"])
def test_what_does_not_tell_is_no_pressure(tmp_path: Path, text: str) -> None:
    waited(tmp_path, 0.0)
    pressure = MemoryPressure(tmp_path)
    (tmp_path / "memory.pressure").write_text(text)
    assert not any(pressure.is_high(now) for now in (1.0, 2.0, 3.0))


def test_a_control_group_that_cannot_be_looked_at_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mount = f"1 2 0:3 / {tmp_path} rw - cgroup2 c rw"
    lines = {"/proc/self/cgroup": ["0::/" + "x" * 300], "/proc/self/mountinfo": [mount]}
    monkeypatch.setattr(memory_pressure, "_lines", lines.__getitem__)
    assert memory_pressure.control_group() is None
    assert not MemoryPressure().is_high(1.0)


def test_idle_arenas_go_while_memory_is_short(tmp_path: Path) -> None:
    waited(tmp_path, 0.0)
    watch = IdleWatch(MemoryPressure(tmp_path))
    with opened(model()) as session, opened(model()) as unwatched:
        replayer = session._begin()
        assert replayer is not None
        watch.add(replayer, math.inf)
        for now, (seconds, is_left) in enumerate(
            [(0.0, True), (0.05, True), (0.55, False), (0.56, True), (1.5, False)]
        ):
            for _ in range(3):
                assert same(session.run(None, rows(4)), unwatched.run(None, rows(4)))
            waited(tmp_path, seconds)
            watch.look(float(now + 1))
            assert (session.memory.arena > 0) == is_left, now
        assert unwatched.memory.arena > 0
        assert session.memory.bails == 0


def test_trim_gives_the_arenas_back_and_the_next_run_makes_them_anew() -> None:
    data, given = model(), rows(4)
    with opened(data) as session:
        for _ in range(3):
            session.run(None, given)
        assert session.memory.arena >= ALIVE * 4 * MEBIBYTE
        session.trim()
        assert session.memory.arena == 0
        assert same(session.run(None, given), expected(data, given))
        assert session.memory.bails == 0


def test_arenas_go_that_no_run_used_for_so_long() -> None:
    given = rows(4)
    with opened(model()) as session:
        for _ in range(3):
            session.run(None, given)
        replayer = session._replayer
        assert replayer is not None
        assert not replayer.shrink_idle(100.0, 30.0)
        assert not replayer.shrink_idle(129.0, 30.0)
        assert session.memory.arena > 0
        session.run(None, given)
        assert not replayer.shrink_idle(131.0, 30.0)  # it ran meanwhile
        assert not replayer.shrink_idle(160.0, 30.0)
        assert session.memory.arena > 0
        assert replayer.shrink_idle(161.0, 30.0)
        assert session.memory.arena == 0


def test_an_arena_gives_the_pages_back_that_recent_runs_did_not_need() -> None:
    large, small = rows(24), rows(1)
    with opened(model()) as session:
        for _ in range(3):
            session.run(None, large)
        replayer = session._replayer
        assert replayer is not None
        replayer.shrink_idle(0.0, 1e9)
        full = resident_bytes() or pytest.skip("no /proc here")
        for _ in range(3):
            session.run(None, small)
        replayer.shrink_idle(1.0, 1e9)
        replayer.shrink_idle(2.0, 1e9)
        now = resident_bytes()
        assert now is not None
        assert full - now > 40 * MEBIBYTE
        assert same(session.run(None, small), expected(model(), small))
        assert same(session.run(None, large), expected(model(), large))
        assert session.memory.bails == 0


def test_idle_memory_goes_without_a_call() -> None:
    with opened(model(), idle_seconds=0.05) as session:
        for _ in range(3):
            session.run(None, rows(4))
        gone = threading.Event()
        for _ in range(400):
            if session.memory.arena == 0:
                break
            gone.wait(0.05)
        assert session.memory.arena == 0
        assert same(session.run(None, rows(4)), expected(model(), rows(4)))
