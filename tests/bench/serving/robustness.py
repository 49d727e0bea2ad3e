"""Forks, exceptions out of signals, many processes on one cache, and the process's umask.

python tests/bench/serving/robustness.py [--forks 100] [--alarms 1000] [--processes 8] [--quick]

Forks: other threads run the session while the process forks; every child has to run it, too, and end in time. Alarms: a
timer raises an exception in the middle of runs; afterwards the main thread and others have to replay. Processes: they
start together on one empty cache folder; all results are equal, and one more process finds its plan there. Umask:
nothing that a session does calls os.umask.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.append(str(Path(__file__).resolve().parents[3]))

import numpy as np

from tests.bench.serving import sessions, subjects
from tests.bench.serving.checks import Checks
from tests.bench.serving.children import HERE, environment

if TYPE_CHECKING:
    from collections.abc import Iterator

THREADS = 4
CHILD_S = 20  # in which a forked child has to end


class AlarmError(Exception):
    """What the timer raises."""


@contextmanager
def running(session: Any, feeds: sessions.Feeds) -> Iterator[None]:
    """Threads that run the session until the block ends."""
    stop = threading.Event()

    def work() -> None:
        while not stop.is_set():
            session.run(None, feeds)

    threads = [threading.Thread(target=work) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def forks(session: Any, feeds: sessions.Feeds, count: int, checks: Checks) -> None:
    """Children of a process whose threads are in the middle of runs."""
    expected = session.run(None, feeds)
    hung = wrong = 0
    with running(session, feeds):
        for _ in range(count):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)  # forks of threads, since Python 3.12
                child = os.fork()
            if not child:
                os._exit(0 if all(sessions.same(session.run(None, feeds), expected) for _ in range(3)) else 1)
            status = _status_of(child)
            hung += status is None
            wrong += status not in (None, 0)
    checks.holds("forks in a threaded parent: none hangs", not hung, f"{hung} of {count}")
    checks.holds("forks in a threaded parent: right results", not wrong, f"{wrong} of {count} wrong")


def _status_of(child: int) -> int | None:
    """A child's exit status; None for one that had to be killed."""
    end = time.monotonic() + CHILD_S
    while time.monotonic() < end:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return status
        time.sleep(0.001)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


def alarms(session: Any, feeds: sessions.Feeds, count: int, checks: Checks) -> None:
    """Exceptions out of a timer's handler, then runs on all threads."""
    expected = session.run(None, feeds)
    began = time.perf_counter()
    session.run(None, feeds)
    longest_s = max(2 * (time.perf_counter() - began), 1e-4)

    def ring(*_: object) -> None:
        raise AlarmError

    before = signal.signal(signal.SIGALRM, ring)
    rng = np.random.default_rng(0)
    raised = 0
    try:
        while raised < count:
            try:
                signal.setitimer(signal.ITIMER_REAL, rng.uniform(1e-6, longest_s))
                session.run(None, feeds)
                signal.setitimer(signal.ITIMER_REAL, 0)
            except AlarmError:
                raised += 1
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    equal = [replays(session, feeds, expected)]
    threads = [threading.Thread(target=lambda: equal.append(replays(session, feeds, expected))) for _ in range(THREADS)]
    for thread in threads:  # one after the other: each has the counters to itself
        thread.start()
        thread.join()
    checks.holds(
        f"{raised} alarms: every thread replays afterwards", all(equal), f"{sum(equal)} of {len(equal)} threads"
    )


def replays(session: Any, feeds: sessions.Feeds, expected: Any, runs: int = 5) -> bool:
    """Whether this thread's runs go as planned (the first may make its arena), with the right results."""
    session.run(None, feeds)
    before = session.memory.replayed
    right = all(sessions.same(session.run(None, feeds), expected) for _ in range(runs))
    return bool(right and session.memory.replayed - before == runs)


def processes(path: Path, count: int, folder: Path, checks: Checks) -> None:
    """Processes that start together on one cache, and one more."""
    command = [sys.executable, str(HERE / "cache_child.py"), str(path), str(folder)]
    started = [
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment())
        for _ in range(count)
    ]
    ended = [(process.communicate(timeout=300), process.returncode) for process in started]
    failed = [texts[1] for texts, code in ended if code]
    checks.holds(f"{count} processes on one cache: all end well", not failed, "".join(failed)[-500:])
    digests = {texts[0].split()[0] for texts, code in ended if not code}
    checks.holds(f"{count} processes on one cache: equal results", len(digests) == 1)
    last = subprocess.run(command, capture_output=True, text=True, check=False, env=environment())
    found = last.stdout.split()
    is_found = found[1:] == ["cache"] and found[0] in digests
    checks.holds("one more process: its plan comes from the cache", is_found, last.stderr[-500:])
    left = [f.name for f in folder.rglob("*") if f.is_file()]
    checks.at_most("one cache: files", float(len(left)), 1)


def umask(path: Path, folder: Path, checks: Checks) -> None:
    """No call of os.umask by a session with a cache."""
    called = []
    real = os.umask

    def watched(mask: int) -> int:
        called.append(mask)
        return real(mask)

    os.umask = watched
    try:
        with sessions.planned(path, cache=folder, background=False) as session:
            for _ in range(3):
                session.run(None, sessions.feeds_for(session))
    finally:
        os.umask = real
    checks.holds("umask: never touched", not called, f"{len(called)} calls")


def main() -> None:
    """Print what holds."""
    parser = subjects.arguments(__doc__)
    parser.add_argument("--forks", type=int, default=100)
    parser.add_argument("--alarms", type=int, default=1000)
    parser.add_argument("--processes", type=int, default=8)
    args = parser.parse_args()
    if args.quick:
        args.forks, args.alarms, args.processes = 10, 50, 3
    checks = Checks()
    with tempfile.TemporaryDirectory(prefix="edgemem-") as folder:
        work = Path(folder)
        path = subjects.built("mobilenet_v2", work, small=True)
        with sessions.planned(path, cache=False) as session:
            feeds = sessions.feeds_for(session)
            for _ in range(3):
                session.run(None, feeds)
            checks.holds("it replays", sessions.wait_for_plan(session), session.memory.reason)
            forks(session, feeds, args.forks, checks)
            alarms(session, feeds, args.alarms, checks)
        (work / "shared").mkdir()
        processes(path, args.processes, work / "shared", checks)
        umask(path, work / "umask", checks)
    checks.end()


if __name__ == "__main__":
    main()
