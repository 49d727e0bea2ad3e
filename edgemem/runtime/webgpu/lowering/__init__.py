"""Tensor operations as dispatches of kernels: `lower(op, context)`. Each module of this package registers some."""

from importlib import import_module
from pkgutil import iter_modules

from edgemem.runtime.webgpu.lowering.registry import Lowering, lower, lowers

__all__ = ["Lowering", "lower", "lowers"]

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")
