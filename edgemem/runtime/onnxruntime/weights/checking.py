"""Whether packed weights are what packing the model beside them gives here.

Nothing in the files is believed. They are compared with those that ONNX Runtime makes of the model on this machine: the
weights byte by byte, the graph by what it computes (`OnnxEditor.computation_digest`). The answer is kept in the user's
folder for caches by two keys:

content     the SHA-256 of the model and of the packed files, for a place: ONNX Runtime's version, processor and so on
identity    device, inode, size and times of these files, so that the next session reads none of them again

That files are wrong is kept as well, so that no session packs them again.

Whoever can write into that folder, or change a file without a change of its times (the administrator), is trusted.
"""

from __future__ import annotations

import json
import os
import stat
import time
from contextlib import suppress
from dataclasses import astuple, dataclass
from typing import TYPE_CHECKING, Final

from edgemem.errors import EdgememError
from edgemem.replay.digest import sha256
from edgemem.runtime.onnxruntime.file import model_digest, opened, weight_files
from edgemem.system.caches import cache_folder, prune
from edgemem.system.file_bytes import FileBytes
from edgemem.system.files import temporary_folder, write_entry
from edgemem.system.regular_files import open_regular, read_bounded

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from edgemem.runtime.onnxruntime.weights.note import Note

__all__ = [
    "CheckedWeights",
    "UnusableError",
    "check",
    "checks_folder",
    "digests_of",
    "identity_of",
    "plain_digests",
    "remember_packed",
]

_MOST_ENTRIES: Final = 512
_MOST_BYTES: Final = 1 << 20  # of all entries
_ENTRY_BYTES: Final = 256
_SUFFIX: Final = ".checked"
_WRONG: Final = "wrong"  # in place of the model's digest, where packing gives something else
_TICK_NS: Final = 20_000_000  # a file that changes twice within the clock's tick has the same time


class UnusableError(Exception):
    """Packed weights are not used; the message says why.

    `packing_helps`: other ones can be packed that would be used; else the session itself is in the way.
    """

    def __init__(self, why: str, *, packing_helps: bool = True) -> None:
        super().__init__(why)
        self.packing_helps = packing_helps


@dataclass(frozen=True, slots=True)
class CheckedWeights:
    """Packed weights that are right.

    Attributes:
        model: the digest of the plain model, as `model_digest` has it.
        identity: of the files that were compared.
        compared: they were packed again now, and not remembered.
    """

    model: str
    identity: str
    compared: bool


def checks_folder() -> Path | None:
    """Where checks are remembered: beside the user's recorded plans; None if the user has no folder for caches."""
    plans = cache_folder()
    return plans.with_name("weights") if plans is not None else None


def check(model: Path, note: Note, folder: Path | None, *, afresh: bool = False) -> CheckedWeights:
    """Compare the packed weights of a model with what packing it gives here.

    Args:
        model: the file with the note.
        note: for this very place; the caller has compared it.
        folder: where checks are remembered; None for nowhere.
        afresh: pack again whatever is remembered.

    Raises UnusableError where they differ, or where they cannot be compared.
    """
    try:
        identity = identity_of(model, note)
        if not afresh and (known := _recall(folder, identity)):
            return CheckedWeights(_right(known), identity, compared=False)
        _wait_a_tick()
        if digests_of(*note.files(model)) != (note.graph, note.weights):
            raise UnusableError("the packed files are not those that were written with the model")
        plain = plain_digests(model)
        content = _key("content", note, plain)
        known = "" if afresh else _recall(folder, content)
        found = known or (plain[0] if _is_as_packed_here(model, note) else _WRONG)
        if identity_of(model, note) != identity:
            raise UnusableError("files changed while they were compared")
        _remember(folder, content, found)
        _remember(folder, identity, found)
    except (OSError, ValueError) as e:
        raise UnusableError(str(e)) from None
    return CheckedWeights(_right(found), identity, compared=not known)


def _right(found: str) -> str:
    """The digest of the model that was found; raises UnusableError for files that were found wrong."""
    if found == _WRONG:
        raise UnusableError("they are not what packing the model gives here")
    return found


def identity_of(model: Path, note: Note) -> str:
    """Which files these are now, in one digest. Raises OSError or UnusableError where one is missing or a link."""
    with opened(model) as (data, _):
        plain = [model, *(model.parent / name for name in weight_files(data))]
    statuses = [path.stat() for path in plain]
    for path in note.files(model):
        status = path.lstat()
        if not stat.S_ISREG(status.st_mode):
            raise UnusableError(f"{path.name} is no regular file")
        statuses.append(status)
    return _key("identity", note, [(s.st_dev, s.st_ino, s.st_size, s.st_mtime_ns, s.st_ctime_ns) for s in statuses])


def plain_digests(model: Path) -> list[str]:
    """The digest of a model, as `model_digest` has it, and of each file with its weights.

    Raises OSError for files that cannot be read.
    """
    with opened(model) as (data, parent):
        return [model_digest(data, parent), *(sha256(_blocks(model.parent / name)) for name in weight_files(data))]


def digests_of(graph: Path, weights: Path) -> tuple[str, str]:
    """The digests of two packed files as a note has them. Raises OSError for what is no regular file, or a link."""
    with open_regular(graph, follow=False) as (file, size):
        return model_digest(FileBytes(file.fileno(), size)), sha256(_blocks(weights, follow=False))


def remember_packed(note: Note, plain: Sequence[str], folder: Path | None) -> None:
    """Remember that the files of a note were made here, of the model with these `plain_digests`."""
    _remember(folder, _key("content", note, plain), plain[0])


def _is_as_packed_here(model: Path, note: Note) -> bool:
    """Whether the files are what packing the model gives here. Raises UnusableError where it cannot be packed."""
    from edgemem.runtime.onnxruntime.weights.packing import pack  # starts a process: seldom needed

    with temporary_folder() as folder:
        try:
            made = pack(model, folder, note.name, note.files(model)[0])
            return made.is_same and digests_of(made.graph, made.weights)[1] == note.weights
        except EdgememError as e:
            raise UnusableError(f"they cannot be compared: {e}") from None


def _blocks(path: Path, *, follow: bool = True) -> Iterator[bytes]:
    with open_regular(path, follow=follow) as (file, size):
        yield from FileBytes(file.fileno(), size).blocks(0, size)


def _wait_a_tick() -> None:
    """So that a change from now on gives a file another time than it has."""
    time.sleep(_TICK_NS / 1e9)


def _key(kind: str, note: Note, values: Sequence[object]) -> str:
    return sha256([json.dumps([kind, note.graph, note.weights, note.name, astuple(note.place), values]).encode()])


def _recall(folder: Path | None, key: str) -> str:
    """What was remembered for a key, or "". Entries that others could have written count as absent."""
    if folder is None:
        return ""
    path = folder / f"{key}{_SUFFIX}"
    with suppress(OSError, ValueError):
        status = path.lstat()
        if not hasattr(os, "geteuid") or (status.st_uid == os.geteuid() and not status.st_mode & 0o022):
            return read_bounded(path, _ENTRY_BYTES, follow=False).decode("ascii")
    return ""


def _remember(folder: Path | None, key: str, digest: str) -> None:
    if folder is None:
        return
    path = folder / f"{key}{_SUFFIX}"
    with suppress(OSError):
        path.unlink(missing_ok=True)  # one that is not believed, whose permissions a new one would keep
        write_entry(path, digest.encode("ascii"))
        prune(folder, f"*{_SUFFIX}", _MOST_ENTRIES, _MOST_BYTES)
