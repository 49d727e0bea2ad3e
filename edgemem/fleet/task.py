"""A task, which is one command on one model, and the row that comes of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["OK", "Figure", "FleetRow", "Task"]

OK: Final = "ok"

Figure: TypeAlias = "int | float | str | bool | None"


@dataclass(frozen=True, slots=True)
class Task:
    """One command on one model. It can be pickled; its repr has nothing of `location` and `cache`, which hold secrets.

    Attributes:
        name: of the model, without secrets.
        location: the path or URL of the model.
        command: such as `plan`.
        arguments: of the command, without the model.
        label: those of them that other tasks of the same model do not have, as text.
        folder: the working directory in which relative paths in `arguments` begin.
        cache: the folder or URL of the cache; "" for none.
        output: the file that the command writes; "" for none. Such a task is not cached.
        memory: bytes that it may take beyond those of a process that has loaded edgemem; None for any number.
        limit_s: seconds until it is ended; None for any number.
        with_document: keep what the command prints as JSON in the row.
    """

    name: str
    location: str = field(repr=False)
    command: str
    arguments: tuple[str, ...] = ()
    label: str = ""
    folder: str = field(default="", repr=False)
    cache: str = field(default="", repr=False)
    output: str = ""
    memory: int | None = None
    limit_s: float | None = None
    with_document: bool = False


@dataclass(frozen=True, slots=True)
class FleetRow:
    """What came of a task.

    Attributes:
        name, label: of the task.
        digest: SHA-256 of the model; "" where it could not be read.
        status: "ok", or the kind of the error: a class of `edgemem.errors`, `time limit`, `memory limit`, `crash`, ...
        message: the error in words, without secrets; "" for none.
        code: the exit code of the command.
        figures: what was found, by name.
        cpu_s: processor time in seconds, of the run that found it.
        peak: bytes that were resident at most, of the same run.
        is_cached: it was in the cache.
        unkept: why the row could not be written to the cache; "" if it was, or there is none.
        document: what the command prints as JSON; None unless the task keeps it.
    """

    name: str
    label: str = ""
    digest: str = ""
    status: str = OK
    message: str = ""
    code: int = 0
    figures: Mapping[str, Figure] = field(default_factory=dict)
    cpu_s: float = 0.0
    peak: int = 0
    is_cached: bool = False
    unkept: str = ""
    document: Any = None
