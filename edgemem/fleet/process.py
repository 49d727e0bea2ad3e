"""One command in a process of its own: however that ends, there is an answer, and nothing else ends with it.

Python's fork server makes the processes. It has loaded what commands load, which takes a second of a processor, and a
fork of it takes some milliseconds. Runtimes are not among that: they start threads, and a process with threads is not
safely forked.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import sys
import tempfile
import threading
from contextlib import suppress
from importlib import import_module
from multiprocessing import connection, forkserver, util
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from edgemem.system.files import remove_after_signal

if TYPE_CHECKING:
    from edgemem.fleet.task import Task

__all__ = ["MEMORY_LIMIT", "answer_of"]

MEMORY_LIMIT: Final = {"status": "memory limit", "message": "it needs more memory than it may take", "code": 1}
_COMMANDS: Final = "edgemem.cli.one_model"  # a name alone: nothing here imports the command line
# What plan and verify load. What is left out is imported anew for each model; a name that does not exist is skipped.
_LOADED: Final = (
    *("edgemem.__main__", _COMMANDS, "edgemem.api", "edgemem.cli.plan_view", "edgemem.cli.view"),
    *("edgemem.commands.stateful_model", "edgemem.commands.verify", "edgemem.commands.verify_weights"),
    *("edgemem.report.recorded_memory", "edgemem.runtime.executors", "edgemem.runtime.onnxruntime.file_recording"),
    *("edgemem.runtime.onnxruntime.weights.packed_files", "edgemem.runtime.tflm.operators"),
    *("edgemem.strategy.shared_objects", "edgemem_converters.onnx.model", "edgemem_converters.tflite.model"),
)
_ENDING_S: Final = 5.0  # that a process may take to end after its last word
_LONGEST_S: Final = 1e6  # the system's calls that wait take no more than some weeks
_LONGEST_FOLDER: Final = 60  # bytes of a name; the system's names of sockets have at most 104
_MOST_STDERR: Final = 1 << 14  # bytes of its end
_lock = threading.Lock()  # a start looks at how all other processes ended, which can be read once


def answer_of(task: Task, path: Path, folder: Path) -> dict[str, Any]:
    """Fields of the row of a task whose model is at `path`, and `is_final` if it may be kept; files go to `folder`."""
    context = multiprocessing.get_context("forkserver")
    reading, writing = context.Pipe(duplex=False)
    errors = folder / "stderr.txt"
    multiprocessing.current_process().daemon = False  # a worker of Dask is one, and daemons may start no processes
    process = context.Process(target=_serve, args=(writing, task, path, errors, dict(os.environ)), daemon=True)
    with _lock:
        _start_server()
        process.start()
    writing.close()
    answer, is_late = None, False
    with reading, suppress(EOFError):
        is_late = not reading.poll(None if task.limit_s is None else min(task.limit_s, _LONGEST_S))
        answer = None if is_late else json.loads(reading.recv_bytes())
    if answer is None and not is_late:
        connection.wait([process.sentinel], _ENDING_S)
    process.kill()
    with _lock:
        process.join()
    status = process.exitcode or 0
    process.close()
    if is_late:
        return {"status": "time limit", "message": f"it took longer than {task.limit_s:g} s", "code": 1}
    return answer or _end(status, errors, has_limit=task.memory is not None)


def _start_server() -> None:
    """Start the fork server, unless it runs: with this process's modules, and none of the working directory."""
    own = {"PYTHONSAFEPATH": "1", "PYTHONPATH": os.pathsep.join(filter(os.path.isabs, sys.path))}
    before = {name: os.environ.pop(name) for name in own if name in os.environ}
    os.environ.update(own)
    folder = tempfile.gettempdir()
    if len(os.fsencode(folder)) > _LONGEST_FOLDER:
        tempfile.tempdir = "/tmp"  # noqa: S108 - a new folder of the server's own is made there
    try:
        forkserver.set_forkserver_preload(list(_LOADED))
        forkserver.ensure_running()
        remove_after_signal(Path(util.get_temp_dir()))  # where its socket is
    finally:
        tempfile.tempdir = folder
        for name in own:
            del os.environ[name]
        os.environ.update(before)


def _end(status: int, errors: Path, *, has_limit: bool) -> dict[str, Any]:
    """The error of a process that said nothing."""
    said = errors.read_bytes()[-_MOST_STDERR:] if errors.exists() else b""
    if has_limit and b"bad_alloc" in said:
        return MEMORY_LIMIT
    how = f"by {signal.Signals(-status).name}" if status < 0 else f"with exit status {status}"
    lines = [line.strip() for line in said.decode(errors="replace").splitlines() if line.strip()]
    why = f": {lines[-1]}" if lines and status > 0 else ""
    return {"status": "crash", "message": f"its process ended {how}{why}", "code": 1}


def _serve(writing: connection.Connection, task: Task, path: Path, errors: Path, environment: dict[str, str]) -> None:
    """Run the command in this process, and write what came of it."""
    import resource

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent hears it, too
    threading.Thread(target=_end_with_parent, daemon=True).start()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    os.dup2(os.open(errors, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 2)
    os.environ.clear()
    os.environ.update(environment, TMPDIR=str(errors.parent))
    tempfile.tempdir = str(errors.parent)
    with suppress(OSError):  # a worker of a cluster may not have the folder
        os.chdir(task.folder)
    run_command = import_module(_COMMANDS).run_command
    if task.memory is not None:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) if sys.platform == "linux" else 0
        most = pages * resource.getpagesize() + task.memory
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
    answer = run_command(task, path)
    used = [resource.getrusage(of) for of in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    answer["cpu_s"] = round(sum(u.ru_utime + u.ru_stime for u in used), 3)
    answer["peak"] = max(u.ru_maxrss for u in used) * (1 if sys.platform == "darwin" else 1024)
    writing.send_bytes(json.dumps(answer).encode())


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
    os._exit(1)
