"""Finds where a program gets at the memory of a tensor without an operator, so that it is there and stays there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import torch
from torch.overrides import TorchFunctionMode

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from edgemem.torch.remat.operators import Operators

__all__ = ["RawAccessMode"]

_READING: Final = ("tolist", "__repr__", "__format__", "__deepcopy__")
_SHARING: Final = ("numpy", "__array__", "__dlpack__")  # somebody may write it
_LOCATING: Final = (
    *("data_ptr", "const_data_ptr", "mutable_data_ptr", "untyped_storage", "storage", "_typed_storage"),
    *("__reduce_ex__", "share_memory_"),
)


class RawAccessMode(TorchFunctionMode):
    """Lets functions of PyTorch that read the memory of a tensor, or give it away, find what is evicted.

    Args:
        operators: of the program.
    """

    def __init__(self, operators: Operators) -> None:
        super().__init__()
        self._operators = operators

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        name = getattr(func, "__name__", "")
        if args and isinstance(args[0], torch.Tensor):
            if name in _READING:
                with self._operators.reading(args[0]):
                    return func(*args, **(kwargs or {}))
            if name in _SHARING or name in _LOCATING:
                self._operators.expose(args[0], is_writable=name in _SHARING)
        return func(*args, **(kwargs or {}))
