"""Measurements in processes of their own: a script beside this file, run with this interpreter and checkout."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

__all__ = ["child_output", "environment"]

HERE = Path(__file__).resolve().parent
TIMEOUT_S = 3600


def environment(bytecode: Path | None = None) -> dict[str, str]:
    """The environment of a child: this one, in which Python finds the checkout, and keeps bytecode in the folder."""
    folders = [*filter(None, [os.environ.get("PYTHONPATH")]), str(HERE.parents[2])]
    kept = {} if bytecode is None else {"PYTHONPYCACHEPREFIX": str(bytecode), "PYTHONDONTWRITEBYTECODE": ""}
    return {**os.environ, "PYTHONPATH": os.pathsep.join(folders), **kept}


def child_output(script: str, *arguments: object, bytecode: Path | None = None) -> str:
    """What a script printed. Leaves the program with its errors if it failed."""
    command = [sys.executable, str(HERE / script), *map(str, arguments)]
    settings = environment(bytecode)
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=TIMEOUT_S, env=settings)
    if done.returncode:
        raise SystemExit(f"{' '.join(command[1:])} failed ({done.returncode}):\n{done.stderr}")
    return done.stdout
