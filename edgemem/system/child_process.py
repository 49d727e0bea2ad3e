"""Processes of edgemem's own: they run a module of this very package, and import nothing from the working directory.

A child does not outlive what it is for. `run_child` ends it when the time is up and when an exception, such as
KeyboardInterrupt, leaves the call. Where the parent has no time for that, the child ends by itself: Linux kills it as
soon as the parent's thread has gone, and elsewhere it watches a pipe that closes with the parent.
"""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import edgemem
from edgemem.system.files import temporary_folder

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["child_command", "end_children", "run_child"]

# What the process does first. It ignores Ctrl-C, which its parent hears as well, leaves no file if it crashes, and
# binds its life to the parent's.
# Then it loads the parent's edgemem from where that lies, wherever another one is installed.
_START: Final = """
import json, os, runpy, signal, sys, threading
from importlib.util import module_from_spec, spec_from_file_location
task = json.loads(sys.argv.pop(1))
signal.signal(signal.SIGINT, signal.SIG_IGN)
try:
    import resource
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
except ImportError:
    pass
if sys.platform == "linux":
    import ctypes
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    if os.getppid() != task["parent"]:
        os._exit(1)
pipe = os.environ.pop("EDGEMEM_PARENT", None)
if pipe is not None:
    def watch():
        os.read(int(pipe), 1)
        os._exit(1)
    threading.Thread(target=watch, daemon=True).start()
sys.path += [folder for folder in task["path"] if folder not in sys.path]
spec = spec_from_file_location("edgemem", task["file"], submodule_search_locations=task["folders"])
package = sys.modules["edgemem"] = module_from_spec(spec)
spec.loader.exec_module(package)
runpy.run_module(task["module"], run_name="__main__", alter_sys=True)
"""

_FROZEN: Final = (
    "a frozen program, such as PyInstaller makes, has no interpreter that runs a part of edgemem in a process of its "
    "own; use an installed edgemem for this"
)
_LONGEST_S: Final = 1e6  # the system's calls that wait take no more than some weeks

_running: set[subprocess.Popen[str]] = set()


def child_command(module: str, arguments: Sequence[str] = ()) -> list[str]:
    """The command that runs a module of edgemem's with the parent's interpreter, edgemem and packages.

    `-P` keeps the working directory, and the folder of a program, out of the search for modules. The parent's other
    folders come after those of the interpreter.

    Args:
        module: the module's dotted name.
        arguments: what follows on the command line.

    Raises OSError in a frozen program, whose executable is the program itself and no interpreter.
    """
    if getattr(sys, "frozen", False):
        raise OSError(errno.ENOSYS, _FROZEN)
    here = str(Path.cwd())
    task = {
        "module": module,
        "parent": os.getpid(),
        "file": edgemem.__file__,
        "folders": list(edgemem.__path__),
        "path": [folder for folder in sys.path if folder and Path(folder).is_absolute() and folder != here],
    }
    return [sys.executable, "-P", "-c", _START, json.dumps(task), *arguments]


def run_child(
    module: str, arguments: Sequence[str] = (), *, timeout_s: float | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a module of edgemem's in a process of its own, and wait for it; its output is captured.

    Its temporary files go into a folder that is removed afterwards. Bytes of its output that are no UTF-8 are replaced.

    Args:
        module: the module's dotted name.
        arguments: what follows on the command line.
        timeout_s: seconds until it is ended; None for no limit.

    Raises subprocess.TimeoutExpired, after the process has been ended.
    """
    command = child_command(module, arguments)
    limit_s = None if timeout_s is None else min(timeout_s, _LONGEST_S)
    with temporary_folder() as folder, _pipe() as end:
        process = subprocess.Popen(  # noqa: S603 - ourselves
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            errors="replace",
            pass_fds=() if end is None else (end,),
            env={**os.environ, "TMPDIR": str(folder), "PYTHONIOENCODING": "utf-8", **_parent(end)},
        )
        _running.add(process)
        with process:  # closes its pipes
            try:
                out, err = process.communicate(timeout=limit_s)
            finally:
                process.kill()  # does nothing where it has ended by itself
                _running.discard(process)
    return subprocess.CompletedProcess(command, process.returncode, out, err)


def end_children() -> None:
    """End all processes that `run_child` waits for."""
    for process in tuple(_running):
        process.kill()
        process.wait()


def _parent(end: int | None) -> dict[str, str]:
    return {} if end is None else {"EDGEMEM_PARENT": str(end)}


@contextmanager
def _pipe() -> Iterator[int | None]:
    """The reading end of a pipe that closes with the block; None on Windows, where no child is given descriptors."""
    if not hasattr(os, "fork"):
        yield None
        return
    reading, writing = os.pipe()
    try:
        yield reading
    finally:
        os.close(writing)
        os.close(reading)
