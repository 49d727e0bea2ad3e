"""Threads that a program starts within a context: their operators are seen, too."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

__all__ = ["FollowThreads"]


class FollowThreads:
    """A context: a thread that starts in it runs within a mode of its own to its end.

    Args:
        mode: makes one.
    """

    def __init__(self, mode: Callable[[], AbstractContextManager[Any]]) -> None:
        self._mode = mode
        self._start = threading.Thread.start

    def __enter__(self) -> FollowThreads:  # noqa: PYI034 - subclassing is not meant
        start, mode = self._start, self._mode

        def started(self: threading.Thread) -> None:
            run = self.run

            def followed() -> None:
                del self.run  # which names the thread
                with mode():
                    run()

            self.run = followed  # type: ignore[method-assign]
            start(self)

        threading.Thread.start = started  # type: ignore[method-assign]
        return self

    def __exit__(self, *_: object) -> None:
        threading.Thread.start = self._start  # type: ignore[method-assign]
