"""What Python's zipfile raises for a damaged archive, whatever the damage is."""

from __future__ import annotations

import zipfile
import zlib
from typing import Final

__all__ = ["ZIP_ERRORS"]

ZIP_ERRORS: Final = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError)
