"""Stand-alone plan files."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from edgemem.errors import PlanFileError
from edgemem.planfile.container import HEADER_SIZE, check_header
from edgemem.planfile.decoding import decode, decode_all
from edgemem.planfile.encoding import encode_all
from edgemem.system.files import atomic_write
from edgemem.system.regular_files import open_regular

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from edgemem.plans import PlanSet

__all__ = ["load", "load_all", "save", "save_all"]

_Contents = TypeVar("_Contents")


def save(planset: PlanSet, path: Path) -> None:
    """Write one plan set to `path`; as `save_all`."""
    save_all((planset,), path)


def save_all(plansets: Sequence[PlanSet], path: Path) -> None:
    """Write plan sets to `path`, whole or not at all: an existing file survives a failure.

    Raises PlanFileError if they cannot be encoded or the file cannot be written.
    """
    data = encode_all(plansets)
    try:
        with atomic_write(path) as file:
            file.write(data)
    except (OSError, ValueError) as e:  # ValueError: a NUL in the path
        raise PlanFileError(f"cannot write plan file {path}: {e}") from None


def load(path: Path) -> PlanSet:
    """The plan set in `path`, chosen among several as by `decode`; raises PlanFileError as `load_all`."""
    return _loaded(path, decode)


def load_all(path: Path) -> tuple[PlanSet, ...]:
    """All plan sets in `path`. Raises PlanFileError, with the path, if it cannot be read or is not well-formed."""
    return _loaded(path, decode_all)


def _loaded(path: Path, read: Callable[[bytes], _Contents]) -> _Contents:
    try:
        with open_regular(path) as (file, size):
            # A large file that is no plan is not read at all.
            check_header(file.read(HEADER_SIZE), size)
            file.seek(0)
            return read(file.read(size))
    except PlanFileError as e:
        raise PlanFileError(f"{path}: {e}") from None
    except (OSError, ValueError) as e:
        raise PlanFileError(f"cannot read plan file {path}: {e}") from None
