"""Stand-alone plan files."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from edgemem.errors import PlanFileError
from edgemem.files import atomic_write
from edgemem.planfile.container import HEADER_SIZE, check_header
from edgemem.planfile.decode import decode
from edgemem.planfile.encode import encode

if TYPE_CHECKING:
    from pathlib import Path

    from edgemem.plans import PlanSet

__all__ = ["load", "save"]


def save(planset: PlanSet, path: Path) -> None:
    """Write the plans to `path`, whole or not at all: an existing file survives a failure.

    Raises PlanFileError if they cannot be encoded or the file cannot be written.
    """
    data = encode(planset)
    try:
        with atomic_write(path) as file:
            file.write(data)
    except (OSError, ValueError) as e:  # ValueError: a NUL in the path
        raise PlanFileError(f"cannot write plan file {path}: {e}") from None


def load(path: Path) -> PlanSet:
    """Read the plans from `path`. Raises PlanFileError, with the path, if it cannot be read or is not well-formed."""
    try:
        with path.open("rb") as file:
            # A large file that is no plan is not read at all.
            check_header(file.read(HEADER_SIZE), os.fstat(file.fileno()).st_size)
            file.seek(0)
            return decode(file.read())
    except PlanFileError as e:
        raise PlanFileError(f"{path}: {e}") from None
    except (OSError, ValueError) as e:
        raise PlanFileError(f"cannot read plan file {path}: {e}") from None
