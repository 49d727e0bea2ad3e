"""Runs commands on small hostile files under limits, and tells what should not be: `python -m tests.fuzz.hostile_runs`.

Each command runs in a fork of this process, which has loaded edgemem: as the command does, in a tenth of the time. It
may take 20 s of processor time and 1 GiB more than a process that does nothing. What it says is one line with a
documented code, and it writes into the folder of its output alone.
"""

from __future__ import annotations

import argparse
import gc
import multiprocessing.util
import os
import re
import resource
import signal
import sys
import tempfile
import time
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests.fuzz.hostile_files import KINDS, Case, make_case

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["fault_of", "main"]

_SECONDS: Final = 20
_PATIENCE: Final = 6  # by the clock, a busy machine may take so much longer
_MEMORY: Final = 1 << 30
_CODES: Final = (0, 1, 2, 3, 4)
_LINE: Final = re.compile(r"edgemem: [^\n]+ \[E\d{3}\]\n")
# Words of a result that is told on stdout, where the exit code says that something is wrong.
_ROWS: Final = ("FAIL", "WRONG", "wrong", "fail", "violation", '"right": false', "checks failed")


def _content(folder: Path) -> dict[str, bytes]:
    return {str(f.relative_to(folder)): f.read_bytes() if f.is_file() else b"" for f in folder.rglob("*")}


def fault_of(case: Case, top: Path) -> str:
    """What a command does that it should not, or ""."""
    for name in ("in", "out", "home", "temporary", "cache"):
        (top / name).mkdir(parents=True)
    for name, data in case.files.items():
        (top / "in" / name).parent.mkdir(parents=True, exist_ok=True)
        (top / "in" / name).write_bytes(data)
    before = {name: _content(top / name) for name in ("in", "home")}
    code = _run(case, top)
    said, told = ((top / name).read_text(errors="replace") for name in ("err", "said"))
    if code not in _CODES:
        return f"exit code {code}: {said[-300:]}"
    if "Traceback" in said:
        return f"a traceback: {said[-500:]}"
    if code == 2:
        return "" if "Error: " in said else f"usage: {said[-300:]}"
    if code and not _LINE.fullmatch(said) and not (not said.strip() and any(word in told for word in _ROWS)):
        return f"exit code {code}, not one line with a code: {said[-300:]!r}, {told[-200:]!r}"
    after = {name: _content(top / name) for name in ("in", "home", "temporary")}
    own = case.command[case.command.index("-o") + 1] if "-o" in case.command else ""
    for content in (before["in"], after["in"]):
        content.pop(own, None)  # a file that the command was told to write
    if after != {**before, "temporary": {}}:
        return f"it wrote elsewhere: {sorted({*after['in'], *after['home'], *after['temporary']} - {*before['in']})}"
    return ""


def _run(case: Case, top: Path) -> int:
    """Run the command in a fork; its exit status, negative for a signal."""
    sys.stdout.flush()
    pid = os.fork()
    if not pid:
        try:
            code = _child(case, top)
        except SystemExit as e:
            code = e.code if isinstance(e.code, int) else 0 if e.code is None else 1
        except BaseException:  # noqa: BLE001 - what a process would print
            import traceback

            traceback.print_exc()
            code = 1
        sys.stdout.flush()
        sys.stderr.flush()
        multiprocessing.util._exit_function()  # type: ignore[attr-defined]  # as at the end of a process
        os._exit(code)
    end = time.monotonic() + _SECONDS * _PATIENCE
    while True:
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > end:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            return -signal.SIGKILL
        time.sleep(0.01)


def _child(case: Case, top: Path) -> int:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    limit = pages * resource.getpagesize() + _MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CPU, (_SECONDS, _SECONDS + 1))
    os.environ.update(
        HOME=str(top / "home"), TMPDIR=str(top / "temporary"), EDGEMEM_CACHE=str(top / "cache"), COLUMNS="200"
    )
    tempfile.tempdir = None
    for number, name in ((1, "said"), (2, "err")):
        file = os.open(top / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(file, number)
        os.close(file)
    sys.stdin = Path(os.devnull).open(encoding="ascii")  # noqa: SIM115 - as long as the process
    os.chdir(top / "in")
    sys.argv = ["edgemem", *case.command]
    import_module("edgemem.__main__").main()
    return 0


def _load() -> None:
    """Load what most commands do."""
    for name in ("api", "cli.main", "cli.plan_view", "commands.report_page", "commands.run", "formats", "guard.check"):
        import_module(f"edgemem.{name}")
    import_module("onnxruntime")
    gc.collect()
    gc.freeze()


def _cases(kinds: Mapping[str, object], first: int, count: int) -> Iterator[tuple[int, Case]]:
    for number in range(first, first + count):
        kind = list(kinds)[number % len(kinds)]
        yield number, make_case(kind, number)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.hostile_runs", description=__doc__)
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--kind", choices=tuple(KINDS))
    parser.add_argument("--keep", type=Path, help="folder for the files of cases that fail")
    given = parser.parse_args()
    _load()
    found, slowest = 0, 0.0
    kinds = {given.kind: KINDS[given.kind]} if given.kind else KINDS
    for number, case in _cases(kinds, given.first, given.cases):
        begin = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="edgemem-hostile-") as top:
            fault = fault_of(case, Path(top) / "case")
        slowest = max(slowest, time.monotonic() - begin)
        if fault:
            found += 1
            print(f"{number} {case}: {fault}", flush=True)
            if given.keep is not None:
                for name, data in case.files.items():
                    (given.keep / str(number)).mkdir(parents=True, exist_ok=True)
                    (given.keep / str(number) / Path(name).name).write_bytes(data)
    print(f"{given.cases:,} cases, {found:,} faults, the slowest {slowest:.1f} s")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
