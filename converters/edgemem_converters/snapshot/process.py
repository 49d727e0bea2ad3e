"""Reads a snapshot in a process of its own, whose memory and time are limited.

    python -m edgemem_converters.snapshot.process FILE FOLDER BYTES

FOLDER gets the answer: `answer.json`, and the columns of history k in `k.npz`.
"""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from edgemem.errors import ModelError
from edgemem.system.child_process import run_child
from edgemem.system.files import temporary_folder
from edgemem.system.regular_files import read_bounded
from edgemem.trace.budget import MOST_BYTES
from edgemem.trace.history import MemoryHistory, OutOfMemory
from edgemem.trace.trace import Section, Trace
from edgemem_converters.snapshot.histories import histories_of
from edgemem_converters.snapshot.plain_pickle import read_plain

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["MOST_MEMORY", "MOST_SECONDS", "read_apart"]

MOST_MEMORY: Final = 1 << 32  # bytes; a million events without stacks take about one gibibyte
MOST_SECONDS: Final = 120.0

_TRACE: Final = ("size", "request", "time_ns", "thread", "stream", "section", "iteration")
_HISTORY: Final = ("reserved", "label")


def read_apart(
    path: Path, *, most_memory: int = MOST_MEMORY, most_seconds: float = MOST_SECONDS
) -> tuple[MemoryHistory, ...]:
    """The histories in a snapshot's file.

    Args:
        path: of the file.
        most_memory: bytes that the process may take, where the system limits them: Linux does.
        most_seconds: until it is ended.

    Raises ModelError if it is no snapshot, names anything that could run, or is beyond a limit.
    """
    fewer = "record fewer events (max_entries), without stacks"
    with temporary_folder() as folder:
        try:
            done = run_child(__name__, [str(path.absolute()), str(folder), str(most_memory)], timeout_s=most_seconds)
        except subprocess.TimeoutExpired:
            raise ModelError(f"it takes more than {most_seconds:g} s to read; {fewer}") from None
        answer = folder / "answer.json"
        if not answer.is_file():
            last = (done.stderr.strip().splitlines() or [f"status {done.returncode}"])[-1]
            raise ModelError(f"the process that read it ended early ({last}); {fewer}")
        found = json.loads(answer.read_text(encoding="utf-8"))
        if found["error"] == "memory":
            raise ModelError(f"it takes more than {most_memory:,} bytes of memory to read; {fewer}")
        if found["error"]:
            raise ModelError(found["error"])
        return tuple(_history(folder / f"{k}.npz", rest) for k, rest in enumerate(found["histories"]))


def _history(path: Path, rest: Mapping[str, Any]) -> MemoryHistory:
    with np.load(path, allow_pickle=False) as columns:
        size, request, time_ns, thread, stream, section, iteration = (columns[name] for name in _TRACE)
        reserved, label = (columns[name] for name in _HISTORY)
    sections = [Section(name) for name in rest["sections"]]
    trace = Trace.from_columns(
        size, request, time_ns, thread, stream=stream, section=section, iteration=iteration, sections=sections
    )
    return MemoryHistory(
        rest["device"],
        trace,
        rest["already_alive"],
        reserved,
        label,
        tuple(rest["labels"]),
        tuple(OutOfMemory(**failure) for failure in rest["failures"]),
        rest["settings"],
    )


def _answer(path: Path, folder: Path) -> dict[str, Any]:
    """What is in a file, with its columns in the folder."""
    try:
        histories = histories_of(read_plain(read_bounded(path, MOST_BYTES)))
    except OSError as e:
        return {"error": f"cannot read {path.name}: {e}; record fewer events (max_entries)"}
    except ModelError as e:
        return {"error": str(e)}
    for k, history in enumerate(histories):
        columns = {name: getattr(history.trace, name) for name in _TRACE}
        columns |= {name: getattr(history, name) for name in _HISTORY}
        np.savez(folder / f"{k}.npz", allow_pickle=False, **columns)
    rest = [
        {
            "device": history.device,
            "already_alive": history.already_alive,
            "sections": [section.name for section in history.trace.sections],
            "labels": history.labels,
            "failures": [asdict(failure) for failure in history.failures],
            "settings": history.settings,
        }
        for history in histories
    ]
    return {"error": "", "histories": rest}


def _limit_memory(most: int) -> None:
    """Let this process take so many bytes more than it has, where the system can say so."""
    with suppress(ImportError, OSError, ValueError):
        import resource

        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
        limit = pages * resource.getpagesize() + most
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def main() -> None:
    """Write the answer to a question from the command line."""
    path, folder, most = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
    _limit_memory(most)
    try:
        answer = _answer(path, folder)
    except MemoryError:
        answer = {"error": "memory"}
    (folder / "answer.json").write_text(json.dumps(answer), encoding="utf-8")


if __name__ == "__main__":
    main()
