"""What begins again in a forked child: locks may be held by threads of its parent, of which it has none."""

from __future__ import annotations

import os
import weakref
from contextlib import ExitStack
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["in_children"]

_Kind = TypeVar("_Kind")
_ALL: weakref.WeakKeyDictionary[object, Callable[[], object]] = weakref.WeakKeyDictionary()


def in_children(what: _Kind, start_again: Callable[[_Kind], object]) -> None:
    """In each forked child, call `start_again(what)` if `what` still exists."""
    reference = weakref.ref(what)
    _ALL[what] = lambda: None if (found := reference()) is None else start_again(found)


def _start_again() -> None:
    with ExitStack() as stack:  # all of them, whatever one raises
        for start_again in reversed(list(_ALL.values())):
            stack.callback(start_again)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_start_again)
