"""The compiled C++ kernels: everything that plans or proves calls one as `native.kernels.NAME`."""

from __future__ import annotations

__all__ = ["kernels"]

try:
    from edgemem import _kernels as kernels
except ImportError as e:
    raise ImportError(
        "edgemem's compiled kernels (edgemem._kernels) are missing or cannot be loaded: "
        "install edgemem again, from a wheel or with a C++20 compiler"
    ) from e
