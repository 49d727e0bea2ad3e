"""Commands in processes of their own that get signals, and what they leave behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Command", "left_behind", "started"]

_PATIENCE_S = 60.0


@dataclass(frozen=True)
class Command:
    """A running process; its temporary files go into `folder`, which marks its children, too."""

    process: subprocess.Popen[str]
    folder: Path

    def wait_for(self, condition: Callable[[], bool]) -> None:
        """Wait until the condition holds; the process must not end before."""
        end = time.monotonic() + _PATIENCE_S
        while not condition():
            assert self.process.poll() is None, self.process.communicate()
            assert time.monotonic() < end, "the command did not get there"
            time.sleep(0.02)

    def ended_by(self, number: signal.Signals) -> tuple[int, float, str]:
        """Send the signal; the exit status, the seconds until then, and what was printed on stderr."""
        begin = time.monotonic()
        self.process.send_signal(number)
        _, err = self.process.communicate(timeout=_PATIENCE_S)
        return self.process.returncode, time.monotonic() - begin, err


def started(folder: Path, *arguments: object, script: str | None = None) -> Command:
    """`edgemem` with these arguments, or a script, with `folder` for its temporary files."""
    folder.mkdir(exist_ok=True)
    run = ["-c", script] if script is not None else ["-m", "edgemem"]
    process = subprocess.Popen(
        [sys.executable, *run, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(folder)},
        preexec_fn=_as_in_a_terminal,  # noqa: PLW1509 - it only sets what signals do
    )
    return Command(process, folder)


def _as_in_a_terminal() -> None:
    """A suite that a shell runs in the background ignores SIGINT, and so would its processes."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def children_of(folder: Path) -> list[int]:
    """The processes that have their temporary files in a folder below this one."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                environment = (entry / "environ").read_bytes()
                alive = "\nState:\tZ" not in (entry / "status").read_text()
            except OSError:
                continue
            if alive and f"TMPDIR={folder}/".encode() in environment:
                found.append(int(entry.name))
    return found


def left_behind(folder: Path) -> list[object]:
    """The temporary files in the folder and the processes that use it; children get a moment to be gone."""
    end = time.monotonic() + 5
    while (children := children_of(folder)) and time.monotonic() < end:
        time.sleep(0.05)
    # ONNX Runtime leaves a file of its own wherever it is imported.
    return [*children, *sorted(p for p in folder.rglob("*") if p.name != ".ses")]
