"""Whether tests look at every case, which takes an hour; by default `--full` looks at a sample of these."""

from __future__ import annotations

import os
from typing import Final

__all__ = ["EXHAUSTIVE"]

EXHAUSTIVE: Final = bool(os.environ.get("EDGEMEM_EXHAUSTIVE"))
