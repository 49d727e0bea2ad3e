"""Calls of a function in a process of its own: data, arrays and bytes go in, and the same or an error comes back.

    answer = call_child("package.module", Message({"shapes": shapes}, arrays))      in the parent
    serve(lambda question: Message({"sizes": measure(question.data["shapes"])}))    at the end of package.module

Both sides leave messages in a folder: data as JSON, arrays as .npy files. Nothing is executed from them. A crash, an
endless loop, or a model that wants more memory than the machine has, ends the child alone.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from itertools import count, takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from edgemem.system.child_process import run_child
from edgemem.system.files import temporary_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

__all__ = ["ChildError", "Message", "call_child", "serve", "stream_child"]

_LEAST_MEMORY: Final = 8 << 30  # bytes of addresses that a child may use in any case
_ERRORS: Final = "edgemem.errors"  # errors of this module go to the parent by name


@dataclass(frozen=True, slots=True, eq=False)
class Message:
    """A question or an answer.

    Attributes:
        data: plain data for JSON.
        arrays: those of byte strings arrive as arrays of dtype `S`; other objects are refused.
        content: bytes, such as a model's.
    """

    data: Mapping[str, Any]
    arrays: Sequence[NDArray[Any]] = ()
    content: bytes = b""


class ChildError(Exception):
    """A child gave no answer, or was ended after it.

    Attributes:
        kind: the name of the class of `edgemem.errors` that the child raised; "" where it raised none of them.
        status: its exit status, negative for a signal; None if it was ended because its time was up.
        output: what it wrote to stderr.
    """

    def __init__(self, reason: str, *, kind: str = "", status: int | None = 0, output: str = "") -> None:
        super().__init__(reason)
        self.kind = kind
        self.status = status
        self.output = output


def call_child(module: str, question: Message, *, timeout_s: float | None = None) -> Message:
    """The one answer of a module that calls `serve`.

    Args:
        module: its dotted name.
        question: what it is asked.
        timeout_s: seconds until it is ended; None for no limit.

    Raises ChildError where there is no answer, and where the child crashes after it.
    """
    answers, failure = stream_child(module, question, timeout_s=timeout_s)
    if failure is not None:
        raise failure
    return answers[0]


def stream_child(
    module: str, question: Message, *, timeout_s: float | None = None
) -> tuple[list[Message], ChildError | None]:
    """All answers of a module that calls `serve`, as `call_child`, and why it ended too early; None if it did not."""
    with temporary_folder() as folder:
        _write(folder, "question", question)
        failure = _run(module, folder, timeout_s)
        names = takewhile(lambda name: (folder / f"{name}.json").is_file(), (f"answer{k}" for k in count()))
        answers = [_read(folder, name) for name in names]
    if answers and "error" in answers[-1].data:
        error = answers.pop().data
        failure = ChildError(error["message"], kind=error["error"])
    if not answers and failure is None:
        failure = ChildError("it gave no answer")
    return answers, failure


def serve(work: Callable[[Message], Message | Iterator[Message]], *, limits_memory: bool = False) -> None:
    """Answer the question in the folder that the command line names. Called by the child.

    Args:
        work: gives the answer, or one after the other; each of them is kept if a later one crashes.
        limits_memory: keep the process within the machine's memory.
    """
    if limits_memory:
        _limit_memory()
    folder = Path(sys.argv[1])
    number = 0
    try:
        made = work(_read(folder, "question"))
        for answer in [made] if isinstance(made, Message) else made:
            _write(folder, f"answer{number}", answer)
            number += 1
    except MemoryError:
        error = {"error": "MemoryError", "message": "it needs more memory than the machine has"}
    except Exception as e:
        if type(e).__module__ != _ERRORS:
            raise
        error = {"error": type(e).__name__, "message": str(e)}
    else:
        return
    _write(folder, f"answer{number}", Message(error))


def _run(module: str, folder: Path, timeout_s: float | None) -> ChildError | None:
    try:
        done = run_child(module, [str(folder)], timeout_s=timeout_s)
    except subprocess.TimeoutExpired:
        return ChildError(f"it took longer than {timeout_s:g} s", status=None)
    except OSError as e:  # no process could be started
        return ChildError(e.strerror or str(e))
    if not done.returncode:
        return None
    return ChildError(_describe_end(done), status=done.returncode, output=done.stderr)


def _describe_end(done: subprocess.CompletedProcess[str]) -> str:
    if done.returncode < 0:
        try:
            return f"it was ended by {signal.Signals(-done.returncode).name}"
        except ValueError:
            return f"it was ended by signal {-done.returncode}"
    lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
    return lines[-1] if lines else f"exit status {done.returncode}"


def _write(folder: Path, name: str, message: Message) -> None:
    for k, array in enumerate(message.arrays):
        # Runtimes give strings as objects, which are not stored: no object is made from a file.
        plain = array.astype(np.bytes_) if array.dtype == object else array
        np.save(folder / f"{name}-{k}.npy", plain, allow_pickle=False)
    (folder / f"{name}.content").write_bytes(message.content)
    part = folder / f"{name}.part"  # the message is there once its last file is whole
    part.write_text(json.dumps({"arrays": len(message.arrays), "data": dict(message.data)}), encoding="utf-8")
    part.replace(folder / f"{name}.json")


def _read(folder: Path, name: str) -> Message:
    entry = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
    arrays = [np.load(folder / f"{name}-{k}.npy", allow_pickle=False) for k in range(entry["arrays"])]
    return Message(entry["data"], arrays, (folder / f"{name}.content").read_bytes())


def _limit_memory() -> None:
    """Keep the process within the machine's memory."""
    try:
        import resource
    except ImportError:  # not on this system
        return
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    most = max(pages, _LEAST_MEMORY)
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    if hard == resource.RLIM_INFINITY or most < hard:
        resource.setrlimit(resource.RLIMIT_AS, (most, hard))
