"""LiteRT in a process of its own: it crashes on damaged files that it does not recognise as such.

The parent leaves a question in a folder, the child an answer:

    question.json, model.tflite, question0.npy, ...     ->     answer.json, answer0.npy, ...

A crash, an endless loop, or a model that wants more memory than the machine has, ends the child alone.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from edgemem import errors
from edgemem.errors import EdgememError, RuntimeBindError
from edgemem.runtime.litert.package import require_package
from edgemem.system.child_process import run_child
from edgemem.system.files import temporary_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

__all__ = ["ChildReply", "Question", "ask", "serve"]

_LEAST_MEMORY: Final = 8 << 30  # bytes of addresses that a child may use in any case
# Errors that can be made of their message.
_PASSED: Final = (
    *("RuntimeBindError", "ModelError", "UnsupportedError", "UnknownShapeError", "PlanError", "InvalidPlanError"),
    *("StalePlanError", "PlanFileError"),
)


@dataclass(frozen=True, slots=True, eq=False)
class Question:
    """What the child is to do: plain data for JSON, a .tflite file, and arrays that are not of objects."""

    data: Mapping[str, Any]
    model: bytes = b""
    arrays: Sequence[NDArray[Any]] = ()


@dataclass(frozen=True, slots=True, eq=False)
class ChildReply:
    """What it found: plain data for JSON, and arrays; those of byte strings come back as arrays of dtype `S`."""

    data: Mapping[str, Any]
    arrays: Sequence[NDArray[Any]] = field(default=())


def ask(module: str, question: Question, *, doing: str, timeout_s: float) -> ChildReply:
    """Have a question answered by a module that calls `serve`, in a process of its own.

    Args:
        module: its dotted name.
        question: the question.
        doing: what it does, for errors: `LiteRT crashed while {doing}`.
        timeout_s: seconds until it is ended.

    Raises:
        MissingDependencyError: no LiteRT is installed.
        RuntimeBindError: LiteRT crashed, or did not end in time. Errors that the child raises are raised here as well.
    """
    require_package()
    with temporary_folder() as folder:
        (folder / "model.tflite").write_bytes(question.model)
        _put(folder, "question", question.data, question.arrays)
        try:
            done = run_child(module, [str(folder)], timeout_s=timeout_s)
        except subprocess.TimeoutExpired:
            raise RuntimeBindError(
                f"LiteRT did not end within {timeout_s:g} s while {doing}, and was ended: the model may loop for ever"
            ) from None
        if done.returncode:
            raise RuntimeBindError(f"LiteRT crashed while {doing} ({_ended(done)}): {_REMEDY}")
        data, arrays = _take(folder, "answer")
    if "error" in data:
        kind = data["error"] if data["error"] in _PASSED else "RuntimeBindError"
        raise getattr(errors, kind)(data["message"])
    return ChildReply(data, arrays)


_REMEDY: Final = "the file is damaged, or this LiteRT cannot run it"


def serve(work: Callable[[Question], ChildReply]) -> None:
    """Answer the question in the folder that the command line names. Called by the child."""
    _limit()
    folder = Path(sys.argv[1])
    data, arrays = _take(folder, "question")
    try:
        answer = work(Question(data, (folder / "model.tflite").read_bytes(), arrays))
    except EdgememError as e:
        answer = ChildReply({"error": type(e).__name__, "message": str(e)})
    except MemoryError:
        answer = ChildReply(
            {"error": "RuntimeBindError", "message": "the model needs more memory than the machine has"}
        )
    _put(folder, "answer", answer.data, answer.arrays)


def _put(folder: Path, name: str, data: Mapping[str, Any], arrays: Sequence[NDArray[Any]]) -> None:
    for k, array in enumerate(arrays):
        # LiteRT gives strings as objects, which are not stored: no object is made from a file.
        plain = array.astype(np.bytes_) if array.dtype == object else array
        np.save(folder / f"{name}{k}.npy", plain, allow_pickle=False)
    text = json.dumps({"arrays": len(arrays), "data": dict(data)})
    (folder / f"{name}.json").write_text(text, encoding="utf-8")


def _take(folder: Path, name: str) -> tuple[dict[str, Any], list[NDArray[Any]]]:
    entry = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
    arrays = [np.load(folder / f"{name}{k}.npy", allow_pickle=False) for k in range(entry["arrays"])]
    return entry["data"], arrays


def _limit() -> None:
    """Keep the process within the machine's memory, and let a crash leave no file."""
    try:
        import resource
    except ImportError:  # not on this system
        return
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    most = max(pages, _LEAST_MEMORY)
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    if hard == resource.RLIM_INFINITY or most < hard:
        resource.setrlimit(resource.RLIMIT_AS, (most, hard))


def _ended(done: subprocess.CompletedProcess[str]) -> str:
    if done.returncode < 0:
        try:
            return signal.Signals(-done.returncode).name
        except ValueError:
            return f"signal {-done.returncode}"
    lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
    return lines[-1] if lines else f"status {done.returncode}"
