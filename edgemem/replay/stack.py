"""Which runs are on in this thread, further down its stack."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from types import CodeType, FrameType

__all__ = ["is_on"]


def is_on(codes: Collection[CodeType], is_meant: Callable[[Mapping[str, Any]], bool]) -> bool:
    """Whether a function with one of these codes is on whose local variables are those that are meant."""
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 - the stack alone tells it after any exception
    while frame is not None:
        if frame.f_code in codes and is_meant(frame.f_locals):
            return True
        frame = frame.f_back
    return False
