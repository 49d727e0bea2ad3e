"""A process that runs commands for `edgemem.fleet.server`, each in a fork of itself: a crash ends one command alone.

It reads a question a line from stdin and answers with a line on stdout. Loading edgemem and what it needs takes seconds
of a processor and a fork a few milliseconds, so it loads what the commands before have loaded. Runtimes are left out:
they start threads, and a process with threads is not safely forked.
"""

from __future__ import annotations

import io
import json
import os
import resource
import selectors
import signal
import sys
import tempfile
import time
import traceback
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from edgemem.cli.failures import REPORTED, failure_of
from edgemem.cli.main import main
from edgemem.errors import BudgetExceededError, EdgememError
from edgemem.fleet.figures import figures_of

_THREADED: Final = ("onnxruntime", "ai_edge_litert", "tflite_micro", "tflite_runtime", "torch", "wgpu", "ortools")
_MOST_STDERR: Final = 1 << 14  # bytes of its end
_BLOCK: Final = 1 << 16
_UNIT: Final = 1 if sys.platform == "darwin" else 1024  # bytes of ru_maxrss
_OVER: Final = {"status": "memory limit", "message": "it needs more memory than it may take"}


def _serve() -> None:
    tried: set[str] = set()
    needed: list[str] = []
    for line in sys.stdin:
        for name in needed:  # not before: the command before may have been the last one
            if name not in tried and name.split(".")[0] not in _THREADED:
                tried.add(name)
                with suppress(Exception):  # it was made by another module, or needs a runtime
                    import_module(name)
        answer = _run_forked(json.loads(line))
        needed = answer.pop("modules", [])
        print(json.dumps(answer), flush=True)  # noqa: T201 - the answer


def _run_forked(question: dict[str, Any]) -> dict[str, Any]:
    """What the command's process says, or how it ended; with its processor time and peak of resident memory."""
    reading, writing = os.pipe()
    errors_reading, errors_writing = os.pipe()
    process = os.fork()
    if process == 0:
        os.close(reading)
        os.dup2(errors_writing, 2)
        _run(question, writing)
    os.close(writing)
    os.close(errors_writing)
    text, errors, is_late = _read(reading, errors_reading, question["limit_s"])
    if is_late:
        os.kill(process, signal.SIGKILL)
    _, status, usage = os.wait4(process, 0)
    used = {"cpu_s": round(usage.ru_utime + usage.ru_stime, 3), "peak": usage.ru_maxrss * _UNIT}
    if is_late:
        return {"status": "time limit", "message": f"it took longer than {question['limit_s']:g} s", "code": 1, **used}
    try:
        return {**json.loads(text), **used}
    except ValueError:
        return {**_end(status, errors, has_limit=question["memory"] is not None), "code": 1, **used}


def _end(status: int, errors: bytes, *, has_limit: bool) -> dict[str, Any]:
    """The error of a process that said nothing."""
    if has_limit and b"bad_alloc" in errors:
        return _OVER
    number = os.waitstatus_to_exitcode(status)
    how = f"by {signal.Signals(-number).name}" if number < 0 else f"with exit status {number}"
    said = [line.strip() for line in errors.decode(errors="replace").splitlines() if line.strip()]
    why = f": {said[-1]}" if said and number > 0 else ""
    return {"status": "crash", "message": f"its process ended {how}{why}"}


def _read(reading: int, errors_reading: int, limit_s: float | None) -> tuple[bytes, bytes, bool]:
    """What comes out of both pipes until the first one is closed, and whether the time was up before."""
    end = None if limit_s is None else time.monotonic() + limit_s
    got = {reading: b"", errors_reading: b""}
    with selectors.DefaultSelector() as selector:
        for descriptor in got:
            selector.register(descriptor, selectors.EVENT_READ)
        while reading in selector.get_map():
            left = None if end is None else end - time.monotonic()
            ready = selector.select(left) if left is None or left > 0 else []
            if not ready:
                break
            for key, _ in ready:
                block = os.read(key.fd, _BLOCK)
                got[key.fd] += block
                if key.fd == errors_reading:
                    got[key.fd] = got[key.fd][-_MOST_STDERR:]
                if not block:
                    selector.unregister(key.fd)
        is_late = reading in selector.get_map()
    for descriptor in got:
        os.close(descriptor)
    return got[reading], got[errors_reading], is_late


def _run(question: dict[str, Any], writing: int) -> None:
    """Run the command in this process, write what came of it, and end the process."""
    code = 1
    try:
        _bind_life()
        os.dup2(os.open(os.devnull, os.O_RDWR), 0)
        os.dup2(0, 1)
        before = set(sys.modules)
        answer = _answer(question)
        answer["modules"] = sorted(sys.modules.keys() - before)
        with open(writing, "w", encoding="utf-8") as file:
            json.dump(answer, file)
        code = 0
    except BaseException:  # noqa: BLE001 - a fault of ours; this process is a copy of the server, and must not go on
        traceback.print_exc()
    finally:
        os._exit(code)


def _bind_life() -> None:
    """End this process with the server, as `edgemem.system.child_process` ends the server with its parent."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def _answer(question: dict[str, Any]) -> dict[str, Any]:
    os.environ["TMPDIR"] = tempfile.tempdir = question["temporary"]
    with suppress(OSError):  # a worker of a cluster may not have the folder
        os.chdir(question["folder"])
    printed = sys.stdout = io.StringIO()
    command = question["command"]
    try:
        if question["memory"] is not None:
            _limit_memory(question["memory"])
        with main.commands[command].make_context(command, question["arguments"]) as context:
            main.commands[command].invoke(context)
        code = 0
    except SystemExit as e:
        code = e.code if isinstance(e.code, int) else 1
    except Exception as e:  # noqa: BLE001 - a fault of ours is a row, too
        if question["memory"] is not None and isinstance(e, (MemoryError, ImportError)):
            return {**_OVER, "code": 1}
        return _error(e)
    document = json.loads(printed.getvalue())
    figures, status, message = figures_of(command, document)
    kept = {"document": document} if question["with_document"] else {}
    return {"status": status, "message": message, "code": code, "is_final": True, "figures": figures, **kept}


def _error(error: Exception) -> dict[str, Any]:
    import click

    if isinstance(error, click.exceptions.Exit):
        return {"status": "error", "message": "", "code": error.exit_code}
    if isinstance(error, (*REPORTED, click.ClickException)):
        message, code = failure_of(error)
        is_final = isinstance(error, EdgememError)  # others may not come again, such as those of a full disk
        figures = {"arena": error.required} if isinstance(error, BudgetExceededError) else {}
        known = {"is_final": is_final, "figures": figures}
        return {"status": type(error).__name__, "message": message, "code": code, **known}
    return {"status": "crash", "message": f"{type(error).__name__}: {error}", "code": 1}


def _limit_memory(size: int) -> None:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) if sys.platform == "linux" else 0
    most = pages * resource.getpagesize() + size
    resource.setrlimit(resource.RLIMIT_AS, (most, most))


if __name__ == "__main__":
    _serve()
