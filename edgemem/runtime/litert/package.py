"""The interpreter that is installed: ai-edge-litert's, or that of its predecessor tflite-runtime."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from edgemem.errors import MissingDependencyError

if TYPE_CHECKING:
    from types import ModuleType

__all__ = ["interpreter_class", "op_resolvers"]


def interpreter_class() -> Any:
    """The class `Interpreter`. Raises MissingDependencyError if neither package is installed."""
    return _module().Interpreter


def op_resolvers() -> Any:
    """The enumeration `OpResolverType`. Raises MissingDependencyError if neither package is installed."""
    return _module().OpResolverType


def _module() -> ModuleType:
    for package in ("ai_edge_litert", "tflite_runtime"):
        try:
            return import_module(f"{package}.interpreter")
        except ImportError:
            continue
    raise MissingDependencyError("ai-edge-litert", extra="tflite", purpose="running LiteRT")
