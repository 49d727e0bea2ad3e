"""Fuzzes a target in a process of its own: a crash, a hang or too much memory ends that process and not the run."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, TypeAlias

from tests.fuzz.board import Board, State
from tests.fuzz.child import OUT_OF_MEMORY
from tests.fuzz.findings import listed, record

__all__ = ["Engine", "Limits", "Summary", "fuzz"]

Engine: TypeAlias = Literal["random", "atheris"]

_ROOT: Final = Path(__file__).parents[2]
_PATIENCE: Final = 30  # a case on a busy machine may take so much longer by the clock than by processor time


@dataclass(frozen=True, slots=True)
class Limits:
    """What one case may take.

    Attributes:
        seconds: of processor time.
        memory: bytes mapped besides those that the process has when it begins.
    """

    seconds: float = 10.0
    memory: int = 1 << 30


@dataclass(frozen=True, slots=True)
class Summary:
    """What a run was.

    Attributes:
        cases: that were run.
        seconds: by the clock.
        slowest: processor seconds of the slowest case that came to an end.
        peak: bytes resident at most, besides those at the beginning.
        restarts: processes that ended before their time.
        findings: one text of each sort of case that should not be.
    """

    cases: int
    seconds: float
    slowest: float
    peak: int
    restarts: int
    findings: tuple[Path, ...]


def fuzz(
    target: str,
    folder: Path,
    *,
    seconds: float,
    cases: int = 2**31 - 1,
    engine: Engine = "random",
    seed: int = 1,
    limits: Limits = Limits(),
) -> Summary:
    """Run cases of a target for so many seconds, or so many cases, and keep in `folder` those that should not be."""
    begin = time.monotonic()
    done = restarts = peak = 0
    slowest = 0.0
    while (left := seconds - (time.monotonic() - begin)) > 0 and done < cases:
        with tempfile.TemporaryDirectory(prefix="edgemem-fuzz-") as place:
            child = _Child(target, folder, Path(place), engine, seed + restarts, cases - done, limits)
            ended_itself = child.watch(left)
            state = child.board.read()
        done += state.cases
        peak, slowest = max(peak, state.peak), max(slowest, state.slowest)
        restarts += not ended_itself
        if not state.cases and not ended_itself and restarts > 100:
            break  # the target does not even run its first case
    return Summary(done, time.monotonic() - begin, slowest, peak, restarts, listed(folder, target))


class _Child:
    """One process, and how it ends."""

    def __init__(
        self, target: str, folder: Path, place: Path, engine: Engine, seed: int, cases: int, limits: Limits
    ) -> None:
        self._target, self._folder, self._limits = target, folder, limits
        self._errors = place / "errors"
        board = place / "board"
        board.touch()
        self.board = Board(board)
        options = {
            "target": target,
            "board": board,
            "folder": folder,
            "engine": engine,
            "seed": seed,
            "cases": cases,
            "memory": limits.memory,
            "seconds": limits.seconds,
        }
        command = [sys.executable, "-m", "tests.fuzz.child", *(f"--{k}={v}" for k, v in options.items())]
        environment = {**os.environ, "TMPDIR": str(place)}
        with self._errors.open("wb") as errors:
            self._process = subprocess.Popen(command, cwd=_ROOT, env=environment, stdout=errors, stderr=errors)

    def watch(self, seconds: float) -> bool:
        """Wait until it has ended, or the time is up. Whether it ended as it should; what else happened is kept."""
        end = time.monotonic() + seconds
        try:
            while (code := self._process.poll()) is None:
                if stuck := self._stuck():
                    self._abort(stuck)
                    return False
                if time.monotonic() > end:
                    return True
                time.sleep(0.1)
        finally:
            if self._process.poll() is None:
                self._process.kill()
            self._process.wait()
        if code == OUT_OF_MEMORY:
            return False
        if code:
            self._keep("crash", f"exit code {code}\n{self._said()}")
        return code == 0

    def _stuck(self) -> str:
        """How long the present case has taken, if that is too long; "" otherwise."""
        state = self.board.read()
        waited = time.monotonic() - state.started
        if not state.running or waited < self._limits.seconds:
            return ""
        used = _processor_seconds(self._process.pid) - state.cpu
        if used < self._limits.seconds + 1 and waited < _PATIENCE * self._limits.seconds:
            return ""
        return f"no end after {used:.1f} seconds of processor time, {waited:.1f} seconds by the clock"

    def _abort(self, why: str) -> None:
        """End the process with a stack of where it is."""
        self._process.send_signal(signal.SIGABRT)
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._keep("hang", f"{why}\n{self._said()}")

    def _keep(self, kind: Literal["crash", "hang"], detail: str) -> None:
        state: State = self.board.read()
        case = self.board.case() if state.running else b""
        record(self._folder, self._target, kind, detail, case)

    def _said(self) -> str:
        return self._errors.read_bytes()[-6000:].decode("utf-8", "replace")


def _processor_seconds(process: int) -> float:
    try:
        text = Path(f"/proc/{process}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return 0.0
    user, system = text.rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")
