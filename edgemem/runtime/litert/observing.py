"""An interpreter whose internal structures can be read, once it is known how the installed LiteRT lays them out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from edgemem.runtime.litert.delegate import make_observed
from edgemem.runtime.litert.package import interpreter_class
from edgemem.runtime.litert.structs_note import is_noted

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from edgemem.runtime.litert.delegate import Delegate

__all__ = ["observe"]


def observe(
    make: Callable[[list[Any]], Any], *, outside: Collection[int] = (), has_delegates: bool = False
) -> tuple[Any, Delegate]:
    """An interpreter, and a delegate that reads its internal structures, whose layout is proved.

    Args:
        make: makes an interpreter with the delegates it is given.
        outside: tensors of the main subgraph that LiteRT does not place; the caller gives them memory.
        has_delegates: whether `make` adds other delegates, which change the operators that are shown.

    Raises as `edgemem.runtime.litert.delegate.make_observed`.
    """
    if not is_noted(interpreter_class().__module__):
        from edgemem.runtime.litert.structs_check import check_structs  # a process that finds a note needs none of it

        check_structs()
    return make_observed(make, outside=outside, is_known=not has_delegates)
