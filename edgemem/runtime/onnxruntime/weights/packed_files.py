"""Writes packed weights beside a model, and the note into it.

A file that a process may have mapped is never changed: each is written under another name, and renamed. Writers into
one folder take turns (`writing_into`), because a graph that is packed twice has other names in it.
"""

from __future__ import annotations

import os
import re
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from edgemem.errors import ModelError
from edgemem.replay.digest import sha256
from edgemem.report.sizes import size_text
from edgemem.runtime.onnxruntime.baked_file import onnxruntime
from edgemem.runtime.onnxruntime.file import WEIGHTS_KEY, opened, weight_files, with_entry
from edgemem.runtime.onnxruntime.file_options import options_for_file
from edgemem.runtime.onnxruntime.weights.checking import (
    UnusableError,
    check,
    checks_folder,
    digests_of,
    plain_digests,
    remember_packed,
)
from edgemem.runtime.onnxruntime.weights.note import CPU, Note, place_here, stem_of
from edgemem.runtime.onnxruntime.weights.packing import pack
from edgemem.system.files import atomic_write, known_as, temporary_folder

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["PackedSize", "pack_beside", "settle_packed", "write_packed", "writing_into"]

_DIGITS: Final = 16  # of the key in a name


@dataclass(frozen=True, slots=True)
class PackedSize:
    """Bytes on disk.

    Attributes:
        packed: of the packed weights and their graph.
        plain: of the model and of the files with its plain weights.
    """

    packed: int
    plain: int

    def __str__(self) -> str:
        return f"weights packed: {size_text(self.packed)} on disk beside {size_text(self.plain)} with the plain ones"


@contextmanager
def writing_into(folder: Path) -> Iterator[None]:
    """A block in which no other process that writes packed weights is in its block of this folder.

    Without effect where folders have no locks, and for a folder that cannot be opened: writing into it says why.
    """
    try:
        import fcntl  # not on Windows

        descriptor = os.open(folder, os.O_RDONLY)
    except (ImportError, OSError):
        yield
        return
    try:
        with suppress(OSError):  # a file system without locks
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def pack_beside(model: Path) -> PackedSize:
    """Write the packed weights of a model beside it, and then the note into it, each atomically.

    Packed weights of the same model for another place are removed; processes that have mapped them keep them.

    Raises as `write_packed` and `settle_packed`.
    """
    return settle_packed(model, write_packed(model))


def write_packed(model: Path) -> Note:
    """Write the packed weights of a model beside it, and then the note into it; the note is returned.

    The model may be an unfinished file. Packed weights that are there already stay: another model may name them.

    Raises RuntimeLoadError and ModelError as `pack`, and ModelError where the files cannot be written.
    """
    with _saying(model):
        plain = plain_digests(model)
        ort = onnxruntime()
        options = ort.SessionOptions()
        with opened(model) as (data, _), options_for_file(data, options):
            place = place_here(ort.__version__, options.graph_optimization_level.name, [CPU])
        name = f"{stem_of(known_as(model))}.{sha256([repr((place, plain)).encode()])[:_DIGITS]}"
        with temporary_folder(model.parent) as folder:
            made = pack(model, folder, name)
            note = Note(name, place, *digests_of(made.graph, made.weights))
            with _removed_on_failure(note.files(model)) as (graph, weights):
                for source, target in ((made.weights, weights), (made.graph, graph)):
                    _sync(source)
                    source.replace(target)
                with atomic_write(model) as file:
                    file.write(with_entry(model.read_bytes(), WEIGHTS_KEY, note.encode()))
                remember_packed(note, plain, checks_folder())
        return note


def settle_packed(model: Path, note: Note) -> PackedSize:
    """Remember that the packed weights of a finished model are right, and remove those of other places.

    Raises ModelError where the files are no longer those that were written.
    """
    with _saying(model):
        check(model, note, checks_folder())
        _remove_others(model, note)
        with opened(model) as (data, _):
            outside = [model.parent / name for name in weight_files(data)]
        return PackedSize(*(sum(f.stat().st_size for f in files) for files in (note.files(model), [model, *outside])))


@contextmanager
def _saying(model: Path) -> Iterator[None]:
    """Let errors of files name the model."""
    try:
        yield
    except (OSError, UnusableError) as e:
        raise ModelError(f"cannot write the packed weights of {model}: {e}") from None


@contextmanager
def _removed_on_failure(files: tuple[Path, Path]) -> Iterator[tuple[Path, Path]]:
    """A block that writes these files: if it fails, those are removed that were not there before."""
    new = [file for file in files if not file.exists()]
    try:
        yield files
    except BaseException:
        for file in new:
            file.unlink(missing_ok=True)
        raise


def _sync(path: Path) -> None:
    """Write a file through to the disk, before it has the name that others read."""
    with path.open("rb") as file:
        os.fsync(file.fileno())


def _remove_others(model: Path, note: Note) -> None:
    pattern = re.compile(rf"{re.escape(stem_of(model))}\.[0-9a-f]{{{_DIGITS}}}\.(graph|weights)")
    for path in model.parent.iterdir():
        if pattern.fullmatch(path.name) and path not in note.files(model):
            with suppress(OSError):
                path.unlink()
