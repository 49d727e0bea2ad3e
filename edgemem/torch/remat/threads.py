"""Threads that a program starts within a context: their operators are seen, too."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from edgemem.torch.remat.ends import Ends

__all__ = ["follow_threads"]


def follow_threads(mode: Callable[[], AbstractContextManager[Any]], ends: Ends) -> None:
    """A thread that starts from now on runs within a mode of its own to its end, until `ends` is closed.

    Args:
        mode: makes one.
        ends: gets the way back before anything is changed, so that no exception comes between.
    """
    start = threading.Thread.start

    def started(self: threading.Thread) -> None:
        run = self.run

        def followed() -> None:
            del self.run  # which names the thread
            with mode():
                run()

        self.run = followed  # type: ignore[method-assign]
        start(self)

    ends.callback(setattr, threading.Thread, "start", start)
    threading.Thread.start = started  # type: ignore[method-assign]
