"""What a program is, and the list of all."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["PROGRAMS", "Keep", "program"]


class Keep:
    """What a program is given: the context that it runs in, and a list of what it can reach.

    Attributes:
        reached: by name, everything that the program has named: tensors, modules, optimizers and containers of them.
            When the program ends, and when it is refused, they are compared.
    """

    def __init__(self, context: Callable[[], Any] = contextlib.nullcontext) -> None:
        self.reached: dict[str, Any] = {}
        self._context = context

    def __call__(self, **named: Any) -> None:
        """Name things that the program goes on to hold."""
        self.reached.update(named)

    def context(self) -> Any:
        """The context of `rematerialize`, or what stands in its place; a program may open several, one by one."""
        return self._context()


Program = "Callable[[Keep], Any]"

PROGRAMS: dict[str, Any] = {}


def program(function: Callable[[Keep], Any]) -> Callable[[Keep], Any]:
    """Register a program, named after its family and its function.

    It makes everything from the seed that is set before it, opens `keep.context()` by itself, and returns what is to be
    compared besides what it has named to `keep`.
    """
    family = function.__module__.rsplit(".", 1)[-1]
    name = f"{family}.{function.__name__}"
    assert name not in PROGRAMS, name
    PROGRAMS[name] = function
    return function
