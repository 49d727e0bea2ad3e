"""Processes of edgemem's own: they run a module of this very package, and import nothing from the working directory."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import edgemem

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["child_command", "run_child"]

# What the process does first: it loads the parent's edgemem from where that lies, wherever another one is installed.
_START = """
import json, runpy, sys
from importlib.util import module_from_spec, spec_from_file_location
task = json.loads(sys.argv.pop(1))
sys.path += [folder for folder in task["path"] if folder not in sys.path]
spec = spec_from_file_location("edgemem", task["file"], submodule_search_locations=task["folders"])
package = sys.modules["edgemem"] = module_from_spec(spec)
spec.loader.exec_module(package)
runpy.run_module(task["module"], run_name="__main__", alter_sys=True)
"""


def child_command(module: str, arguments: Sequence[str] = ()) -> list[str]:
    """The command that runs a module of edgemem's with the parent's interpreter, edgemem and packages.

    `-P` keeps the working directory, and the folder of a program, out of the search for modules. The parent's other
    folders come after those of the interpreter.

    Args:
        module: the module's dotted name.
        arguments: what follows on the command line.
    """
    here = str(Path.cwd())
    task = {
        "module": module,
        "file": edgemem.__file__,
        "folders": list(edgemem.__path__),
        "path": [folder for folder in sys.path if folder and Path(folder).is_absolute() and folder != here],
    }
    return [sys.executable, "-P", "-c", _START, json.dumps(task), *arguments]


def run_child(
    module: str, arguments: Sequence[str] = (), *, stdin: str | None = None, timeout_s: float | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a module of edgemem's in a process of its own, and wait for it; its output is captured.

    Raises subprocess.TimeoutExpired, after the process has been ended.
    """
    return subprocess.run(  # noqa: S603 - ourselves
        child_command(module, arguments), input=stdin, capture_output=True, text=True, timeout=timeout_s, check=False
    )
