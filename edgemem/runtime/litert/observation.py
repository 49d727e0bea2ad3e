"""An interpreter whose internal structures can be read, once the layout of the installed LiteRT is proved."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from edgemem.runtime.litert.delegate import observe_unproved
from edgemem.runtime.litert.package import interpreter_class
from edgemem.runtime.litert.structs_note import is_noted

if TYPE_CHECKING:
    from collections.abc import Callable

    from edgemem.runtime.litert.delegate import Delegate

__all__ = ["observe"]


def observe(make: Callable[[list[Any]], Any]) -> tuple[Any, Delegate]:
    """As `edgemem.runtime.litert.delegate.observe_unproved`, after a proof of the layout, once an installation."""
    if not is_noted(interpreter_class().__module__):
        from edgemem.runtime.litert.structs_check import check_structs  # a process that finds a note needs none of it

        check_structs()
    return observe_unproved(make)
