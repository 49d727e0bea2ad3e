"""The interpreter that is installed: ai-edge-litert's, or that of its predecessor tflite-runtime."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

from edgemem.errors import MissingDependencyError

if TYPE_CHECKING:
    from types import ModuleType

__all__ = ["builtin_interpreter", "interpreter_class", "op_resolvers", "require_package"]

_PACKAGES: Final = ("ai_edge_litert", "tflite_runtime")


def interpreter_class() -> Any:
    """The class `Interpreter`. Raises MissingDependencyError if neither package is installed."""
    return _module().Interpreter


def op_resolvers() -> Any:
    """The enumeration `OpResolverType`. Raises MissingDependencyError if neither package is installed."""
    return _module().OpResolverType


def builtin_interpreter(content: bytes, **others: Any) -> Any:
    """An interpreter of a file in memory that runs LiteRT's builtin kernels alone. Errors as LiteRT's."""
    kernels = op_resolvers().BUILTIN_WITHOUT_DEFAULT_DELEGATES
    return interpreter_class()(model_content=content, experimental_op_resolver_type=kernels, **others)


def require_package() -> None:
    """Raise MissingDependencyError if neither package is installed. Loads none of them."""
    if not any(find_spec(package) for package in _PACKAGES):
        raise _missing()


def _module() -> ModuleType:
    for package in _PACKAGES:
        try:
            return import_module(f"{package}.interpreter")
        except ImportError:
            continue
    raise _missing()


def _missing() -> MissingDependencyError:
    return MissingDependencyError("ai-edge-litert", purpose="running LiteRT")
