"""Sees the operators of a program."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from edgemem.torch.remat.effects import effect_of, is_accumulating
from edgemem.torch.remat.recipes import tensors_of
from edgemem.torch.remat.results import is_plain, is_seen_whole

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from edgemem.torch.remat.operators import Operators

__all__ = ["OperatorMode"]


class OperatorMode(TorchDispatchMode):
    """Hands the operators of a program to `Operators`."""

    def __init__(self, operators: Operators) -> None:
        super().__init__()
        self._operators = operators

    def __torch_dispatch__(
        self, func: Callable[..., Any], types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if not all(map(is_seen_whole, types)):
            if not self._operators.is_closed:
                self._operators.give_away(func, args, kwargs)
            return NotImplemented  # a class of tensors comes first, and runs others, which come here
        effect = effect_of(func)
        if self._operators.is_closed or (effect.is_view and all(map(is_plain, tensors_of(args, kwargs)))):
            if effect.is_detached and is_accumulating():
                self._operators.spare_gradient(args[0])
            return func(*args, **kwargs)
        with torch._C.DisableTorchFunction():  # noqa: SLF001 - what follows is not the program's
            return self._operators.run(func, effect, args, kwargs)
