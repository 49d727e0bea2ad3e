"""Reads a snapshot in a process of its own, whose memory and time are limited."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from edgemem.errors import ModelError
from edgemem.system.child_call import ChildError, Message, call_child, serve
from edgemem.system.regular_files import read_bounded
from edgemem.trace.budget import MOST_BYTES
from edgemem.trace.history import MemoryHistory, OutOfMemory
from edgemem.trace.trace import Section, Trace
from edgemem_converters.snapshot.histories import histories_of
from edgemem_converters.snapshot.plain_pickle import read_plain

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

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
    try:
        question = Message({"path": str(path.absolute()), "most_memory": most_memory})
        answer = call_child(__name__, question, timeout_s=most_seconds)
    except ChildError as e:
        if e.kind == ModelError.__name__:
            raise ModelError(str(e)) from None
        why = f"takes more than {most_seconds:g} s to read" if e.status is None else f"cannot be read: {e}"
        if e.kind == MemoryError.__name__:
            why = f"takes more than {most_memory:,} bytes of memory to read"
        raise ModelError(f"it {why}; record fewer events (max_entries), without stacks") from None
    width = len(_TRACE) + len(_HISTORY)
    parts = [answer.arrays[k * width : (k + 1) * width] for k in range(len(answer.data["histories"]))]
    return tuple(map(_history, answer.data["histories"], parts))


def _history(rest: Mapping[str, Any], columns: Sequence[NDArray[Any]]) -> MemoryHistory:
    given = dict(zip((*_TRACE, *_HISTORY), columns, strict=True))
    reserved, label = (given.pop(name) for name in _HISTORY)
    trace = Trace.from_columns(**given, sections=[Section(name) for name in rest["sections"]])
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


def _answer(question: Message) -> Message:
    path = Path(question.data["path"])
    _limit_memory(question.data["most_memory"])
    try:
        data = read_bounded(path, MOST_BYTES)
    except OSError as e:
        raise ModelError(f"cannot read {path.name}: {e}; record fewer events (max_entries)") from None
    histories = histories_of(read_plain(data))
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
    columns = [
        getattr(of, name) for h in histories for of, names in ((h.trace, _TRACE), (h, _HISTORY)) for name in names
    ]
    return Message({"histories": rest}, columns)


def _limit_memory(most: int) -> None:
    """Let this process take so many bytes more than it has, where the system can say so."""
    with suppress(ImportError, OSError, ValueError):
        import resource

        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
        limit = pages * resource.getpagesize() + most
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


if __name__ == "__main__":
    serve(_answer)
