"""The C++ kernels, or where this edgemem was built without a compiler, their slow transcription in Python.

Everything that calls a kernel calls it as `native.kernels.NAME`. Without the extension the strategies that need a
kernel with no transcription fail with PlanError, and `auto` does without them.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

__all__ = ["COMPILED", "kernels"]

COMPILED = True

if TYPE_CHECKING:
    from edgemem import _kernels as kernels
else:
    try:
        from edgemem import _kernels as kernels
    except ImportError:
        from edgemem.native import pure as kernels

        COMPILED = False
        warnings.warn(
            "this edgemem has no compiled kernels: it plans slowly and with fewer strategies; "
            "install a wheel that has them for the rest",
            RuntimeWarning,
            stacklevel=2,
        )
