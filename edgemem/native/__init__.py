"""The C++ kernels, or where this edgemem was built without a compiler, their slow transcription in Python.

Everything that plans calls a kernel as `native.kernels.NAME`. Without the extension the first import of `kernels`
warns; the strategies that need a kernel with no transcription fail with PlanError, and `auto` does without them.
What plans nothing, as the proof, asks `COMPILED` first and is not warned.
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
        from edgemem.native import pure

        COMPILED = False

        def __getattr__(name: str) -> object:
            if name != "kernels":
                raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
            warnings.warn(
                "this edgemem has no compiled kernels: it plans slowly and with fewer strategies; "
                "install a wheel that has them for the rest",
                RuntimeWarning,
                stacklevel=2,
            )
            globals()["kernels"] = pure
            return pure
