"""Rows by what they depend on: the model, the options and what is installed.

A second run reads them, and a run that was ended goes on where it stopped.

Entries are files of JSON in a folder or a bucket, written whole or not at all; what cannot be read is made again.
"""

from __future__ import annotations

import hashlib
import json
import platform
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from edgemem.commands.versions import versions
from edgemem.fleet.secrets import is_url
from edgemem.fleet.sources import file_system, write_url
from edgemem.fleet.task import FleetRow
from edgemem.system.files import write_entry
from edgemem.system.regular_files import read_bounded

if TYPE_CHECKING:
    from edgemem.fleet.task import Task

__all__ = ["RowCache", "key_of"]

_ON_MACHINE: Final = ("measure", "shrink")  # commands whose results depend on the machine
_MOST: Final = 1 << 28  # bytes of an entry that are read
_EMPTY: Final = FleetRow("")
_installed: Final = cache(versions)
_CONTENT: Final = ("digest", "status", "message", "code", "figures", "cpu_s", "peak", "document")  # of a row


def key_of(digest: str, task: Task) -> str:
    """The key of a task whose model has this digest; files that the arguments name count by their content."""
    of_machine = () if task.command in _ON_MACHINE else ("system", "processor")
    installed = {name: version for name, version in _installed().items() if name not in of_machine}
    machine = platform.node() if task.command == "measure" else ""
    files = [_file_digest(Path(task.folder), text) for text in task.arguments]
    what = [digest, task.command, task.arguments, files, task.with_document, installed, machine, _code_digest()]
    return hashlib.sha256(json.dumps(what, sort_keys=True).encode()).hexdigest()


def _file_digest(folder: Path, argument: str) -> str:
    for text in (argument, argument.partition("=")[2]):
        path = folder / text
        if text and path.is_file():
            return hashlib.sha256(path.read_bytes()).hexdigest()
    return ""


@cache
def _code_digest() -> str:
    """Of edgemem itself, which a checkout has under one version in many states."""
    digest = hashlib.sha256()
    for name in ("edgemem", "edgemem_converters", "edgemem._kernels"):
        spec = find_spec(name)
        assert spec is not None
        assert spec.origin is not None
        origin = Path(spec.origin)
        for path in sorted(origin.parent.rglob("*.py")) if origin.name == "__init__.py" else [origin]:
            digest.update(path.read_bytes())
    return digest.hexdigest()


class RowCache:
    """Rows, and digests of files, by keys, in a folder or at a URL."""

    def __init__(self, location: str) -> None:
        """Nothing is made before the first entry. A cache at "" keeps nothing."""
        self._system: Any = None
        self._root = location
        if is_url(location):
            self._system, self._root = file_system(location)

    def row(self, key: str) -> FleetRow | None:
        """The row of a key, as of no task; None if there is none."""
        entry = self._read(key)
        if not isinstance(entry, dict) or entry.keys() != set(_CONTENT):
            return None
        is_right = all(isinstance(entry[name], type(getattr(_EMPTY, name))) for name in _CONTENT[:-1])
        if not is_right or not all(isinstance(value, int | float | str | None) for value in entry["figures"].values()):
            return None
        return FleetRow("", **entry, is_cached=True)

    def keep_row(self, key: str, row: FleetRow) -> str:
        """Keep a row. Returns why it could not be written, "" if it was."""
        return self._write(key, {name: getattr(row, name) for name in _CONTENT})

    def digest(self, stamp: str) -> str | None:
        """The digest of the file that had this stamp; None if it is not known."""
        entry = self._read(stamp)
        return entry if isinstance(entry, str) else None

    def keep_digest(self, stamp: str, digest: str) -> None:
        """Keep the digest of a file, if it can be written."""
        self._write(stamp, digest)

    def _place(self, key: str) -> str:
        return f"{self._root.rstrip('/')}/{key[:2]}/{key}.json"

    def _read(self, key: str) -> Any:
        try:
            if not self._root:
                return None
            if self._system is None:
                return json.loads(read_bounded(Path(self._place(key)), _MOST))
            return json.loads(self._system.cat_file(self._place(key)))
        except Exception:  # noqa: BLE001 - each back end has errors of its own; without the entry the row is made again
            return None

    def _write(self, key: str, entry: object) -> str:
        content = json.dumps(entry).encode()
        try:
            if self._system is not None:
                write_url(self._system, self._place(key), content)
            elif self._root:
                write_entry(Path(self._place(key)), content)
        except OSError as e:
            return e.strerror or str(e)
        return ""
