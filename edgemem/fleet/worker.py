"""Runs a task: finds its row in the cache, or makes it by a command in a process of its own. It never raises."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from edgemem.fleet.cache import RowCache, key_of
from edgemem.fleet.process import answer_of
from edgemem.fleet.secrets import is_url, without_secrets
from edgemem.fleet.sources import digest_of, fetch, stamp_of
from edgemem.fleet.task import FleetRow
from edgemem.formats import weight_files
from edgemem.system.files import temporary_folder
from edgemem.system.text import without_name

if TYPE_CHECKING:
    from edgemem.fleet.task import Task

__all__ = ["run_task"]

_FILE: Final = "\0"  # stands for the model in messages that are kept


def run_task(task: Task) -> FleetRow:
    """What came of a task; an error is a row, too."""
    try:
        row = _run(task)
    except Exception as e:  # noqa: BLE001 - of a file system, or a fault of ours: a row, and not the end of a worker
        row = FleetRow("", status=type(e).__name__, message=str(e), code=1)
    message = without_secrets(row.message.replace(_FILE, Path(task.name).name), task.location, task.cache)
    return replace(row, name=task.name, label=task.label, message=without_name(message, Path(task.name)))


def _run(task: Task) -> FleetRow:
    cache = RowCache("" if task.output else task.cache)
    stamp = stamp_of(task.location) if task.cache and is_url(task.location) else ""
    known = cache.digest(stamp) if stamp else ""
    row = cache.row(key_of(known, task)) if known else None
    if row is not None:
        return row
    with temporary_folder() as folder:
        path = fetch(task.location, folder) if is_url(task.location) else Path(task.location)
        digest = digest_of(path)
        key = key_of(digest, task)
        row = cache.row(key)
        if row is None:
            answer = answer_of(task, path, folder)
            is_final = answer.pop("is_final", False)
            row = FleetRow("", digest=digest, **answer)
            message = row.message.replace(str(path), _FILE).replace(path.name, _FILE)
            row = replace(row, message=without_secrets(message))
            if is_final:
                row = replace(row, unkept=without_secrets(cache.keep_row(key, row), task.cache))
        if stamp and not weight_files(path):
            cache.keep_digest(stamp, digest)
    return row
