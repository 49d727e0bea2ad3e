"""Signals end commands at once, with exit code 128 + their number, and nothing is left behind."""

from __future__ import annotations

import signal
import sys
import time
from typing import TYPE_CHECKING

import numpy as np
import pytest

from tests.processes import children_of, left_behind, started

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="signals come another way there")

ENDING = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]
AT_ONCE_S = 5.0  # half a second on an idle machine; what is waited for takes minutes


def records(path: Path, count: int, longest: int) -> Path:
    rng = np.random.default_rng(1)
    first = rng.integers(0, count, count)
    last = first + rng.integers(1, longest, count)
    rows = zip(first.tolist(), last.tolist(), rng.integers(1, 10**5, count).tolist(), strict=True)
    path.write_text(
        "tensor,first_op,last_op,size\n" + "".join(f"t{i},{a},{b},{size}\n" for i, (a, b, size) in enumerate(rows))
    )
    return path


@pytest.mark.full
@pytest.mark.parametrize("number", ENDING)
def test_a_solver_that_hears_no_signals_is_ended(tmp_path: Path, number: signal.Signals) -> None:
    pytest.importorskip("scipy")
    file = records(tmp_path / "records.csv", 60, 30)
    command = started(tmp_path / "temporary", "plan", file, "-s", "mip")
    command.wait_for(lambda: bool(children_of(command.folder)))
    code, seconds, err = command.ended_by(number)
    assert code == 128 + number
    assert err == f"edgemem: ended by {number.name}\n"
    assert seconds < AT_ONCE_S
    assert not left_behind(command.folder)


@pytest.mark.full
@pytest.mark.parametrize("strategy", ["min_cost_flow", "offsets/greedy_by_size", "greedy_by_size_improved"])
def test_a_kernel_that_takes_long_raises_at_once(tmp_path: Path, strategy: str) -> None:
    """Also where edgemem is a library, without the thread that watches commands."""
    count, longest = (6000, 50) if strategy == "min_cost_flow" else (200_000, 40_000)
    script = f"""
import signal, sys
from threading import Timer
import numpy as np
import edgemem
signal.signal(signal.SIGINT, signal.default_int_handler)
rng = np.random.default_rng(0)
first = np.sort(rng.integers(0, {count}, {count}))
last, size = first + rng.integers(1, {longest}, {count}), rng.integers(1, 10**6, {count})
problem = edgemem.Problem.from_arrays(first, last, size)
print("planning", flush=True)
try:
    edgemem.plan(problem, strategy={strategy!r})
except KeyboardInterrupt:
    sys.exit(7)
"""
    command = started(tmp_path / "temporary", script=script)
    assert command.process.stdout is not None
    assert command.process.stdout.readline() == "planning\n"
    time.sleep(1.5)
    code, seconds, _ = command.ended_by(signal.SIGINT)
    assert code == 7
    assert seconds < AT_ONCE_S


_STUCK = """
import sys, time
from edgemem.cli import main as cli
from edgemem.system.files import temporary_folder

@cli.main.command()
def stuck():
    with temporary_folder() as folder:
        (folder / "file").write_bytes(b"")
        {}

cli.main(["stuck"])
"""
_SWALLOWS = """
        while True:
            try:
                time.sleep(0.01)
            except BaseException:
                pass
"""
_COMPUTES = """
        import numpy as np
        np.linalg.svd(np.random.default_rng(0).standard_normal((6000, 6000)))
"""


_IMPORTED = """
import os, tempfile, time
from pathlib import Path
while any(Path(tempfile.gettempdir()).rglob("file")):
    time.sleep(0.001)
raise FileNotFoundError(2, "No such file", "file")
"""
_TURNS_INTO_ERRORS = """
        try:
            time.sleep(60)
        except BaseException:
            from edgemem.errors import ModelError
            raise ModelError("something else")
"""
_ENDS_WELL = """
        try:
            time.sleep(60)
        except BaseException:
            return
"""


@pytest.mark.parametrize("number", ENDING)
@pytest.mark.parametrize("what", [_TURNS_INTO_ERRORS, _ENDS_WELL], ids=["turns it into an error", "ends well"])
def test_what_comes_of_a_signal_is_its_exit_code(tmp_path: Path, number: signal.Signals, what: str) -> None:
    command = started(tmp_path / "temporary", script=_STUCK.format(what.strip()))
    command.wait_for(lambda: any(command.folder.rglob("file")))
    time.sleep(0.5)
    code, _, err = command.ended_by(number)
    assert code == 128 + number
    assert err in ("", f"edgemem: ended by {number.name}\n")
    assert not left_behind(command.folder)


@pytest.mark.parametrize("number", ENDING)
def test_an_error_that_comes_of_a_signal_during_an_import(tmp_path: Path, number: signal.Signals) -> None:
    """The handler does not raise there; the watching thread removes the files, and then the command fails for them."""
    folder = tmp_path / "modules"
    folder.mkdir()
    (folder / "slow.py").write_text(_IMPORTED)
    script = _STUCK.format(f"sys.path.insert(0, {str(folder)!r}); import slow")
    command = started(tmp_path / "temporary", script=script)
    command.wait_for(lambda: any(command.folder.rglob("file")))
    time.sleep(0.5)
    code, _, err = command.ended_by(number)
    assert (code, err) == (128 + number, f"edgemem: ended by {number.name}\n")
    assert not left_behind(command.folder)


_ENDS_TWICE = """
import io, os, signal, sys
from edgemem.cli import main as cli
from edgemem.system.files import temporary_folder

class Output(io.StringIO):
    def flush(self):
        descriptor = signal.set_wakeup_fd(-1)
        if descriptor == -1:  # nothing waits for signals any more: the command is about to leave
            os.kill(os.getpid(), {number})
        else:
            signal.set_wakeup_fd(descriptor)

unfinished = temporary_folder()

@cli.main.command()
def twice():
    folder = unfinished.__enter__()
    (folder / "file").write_bytes(b"")
    import first

sys.path.insert(0, {modules!r})
sys.stdout = Output()
cli.main(["twice"])
"""


@pytest.mark.parametrize("number", ENDING)
def test_a_second_signal_after_one_during_an_import_interrupts_no_cleaning_up(
    tmp_path: Path, number: signal.Signals
) -> None:
    folder = tmp_path / "modules"
    folder.mkdir()
    (folder / "first.py").write_text(f"import os\nos.kill(os.getpid(), {int(number)})\n")
    command = started(tmp_path / "temporary", script=_ENDS_TWICE.format(number=int(number), modules=str(folder)))
    _, err = command.process.communicate(timeout=60)
    assert command.process.returncode == 128 + number, err
    assert not left_behind(command.folder)


@pytest.mark.parametrize("number", ENDING)
@pytest.mark.parametrize("what", [_SWALLOWS, _COMPUTES], ids=["swallows exceptions", "computes in one call"])
def test_a_command_that_does_not_end_by_itself_is_ended(tmp_path: Path, number: signal.Signals, what: str) -> None:
    command = started(tmp_path / "temporary", script=_STUCK.format(what.strip()))
    command.wait_for(lambda: any(command.folder.rglob("file")))
    time.sleep(0.5)
    code, seconds, err = command.ended_by(number)
    assert (code, err) == (128 + number, f"edgemem: ended by {number.name}\n")
    assert seconds < AT_ONCE_S
    assert not left_behind(command.folder)


@pytest.mark.parametrize("number", ENDING)
def test_a_command_whose_output_nobody_reads_is_ended(tmp_path: Path, number: signal.Signals) -> None:
    prints = """
        sys.stdout.write("x" * (1 << 20))
        time.sleep(60)
"""
    command = started(tmp_path / "temporary", script=_STUCK.format(prints.strip()))
    command.wait_for(lambda: any(command.folder.rglob("file")))
    time.sleep(0.5)
    command.process.send_signal(number)
    assert command.process.wait(AT_ONCE_S) == 128 + number
    command.process.communicate()
    assert not left_behind(command.folder)


@pytest.mark.full
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_child_dies_with_its_parent(tmp_path: Path, number: signal.Signals) -> None:
    """Also a library's parent, which has no handlers, and a child that neither reads nor prints."""
    script = (
        "from edgemem.system.child_process import run_child; run_child('timeit', ['-n1', '-r1', 'while True: pass'])"
    )
    command = started(tmp_path / "temporary", script=script)
    command.wait_for(lambda: bool(children_of(command.folder)))
    time.sleep(0.5)
    command.ended_by(number)
    left = left_behind(command.folder)
    assert not [entry for entry in left if isinstance(entry, int)]
    assert number != signal.SIGINT or not left


def test_a_child_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    script = """
import subprocess
from edgemem.system.child_process import run_child
try:
    run_child("timeit", ["-n1", "-r1", "while True: pass"], timeout_s=1)
except subprocess.TimeoutExpired:
    print("too long")
"""
    command = started(tmp_path / "temporary", script=script)
    out, _ = command.process.communicate(timeout=60)
    assert out == "too long\n"
    assert not left_behind(command.folder)


def test_ignored_signals_stay_ignored(tmp_path: Path) -> None:
    script = """
import os, signal, sys
signal.signal(signal.SIGHUP, signal.SIG_IGN)
from edgemem.cli import main as cli

@cli.main.command()
def hung_up():
    os.kill(os.getpid(), signal.SIGHUP)
    print("still here")

cli.main(["hung-up"])
"""
    command = started(tmp_path / "temporary", script=script)
    out, err = command.process.communicate(timeout=60)
    assert (command.process.returncode, out, err) == (0, "still here\n", "")
