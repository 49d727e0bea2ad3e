"""Writing files so that a failure loses nothing."""

from __future__ import annotations

import os
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["atomic_write"]


@contextmanager
def atomic_write(path: Path) -> Iterator[IO[bytes]]:
    """A binary file that takes the name `path` when the block ends, and vanishes if it fails.

    An existing file keeps its permissions; a symbolic link keeps pointing where it did.
    """
    path = path.resolve()
    try:
        opened = tempfile.NamedTemporaryFile(prefix=f".{path.name}.", dir=path.parent, delete=False)  # noqa: SIM115
    except OSError as e:
        raise OSError(e.errno, e.strerror, str(path)) from None  # the user knows this name, not the temporary one
    with opened as file:
        temporary = Path(file.name)
        try:
            yield file
            file.flush()
            os.fsync(file.fileno())
            temporary.chmod(path.stat().st_mode & 0o7777 if path.exists() else 0o666 & ~_umask())
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
