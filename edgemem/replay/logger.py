"""Where sessions report what a user should know, and no exception tells: `logging.getLogger("edgemem")`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from logging import Logger

__all__ = ["logger"]


def logger() -> Logger:
    """The logger of edgemem."""
    import logging  # only where there is something to report: it takes 0.6 MiB of a process

    return logging.getLogger("edgemem")
