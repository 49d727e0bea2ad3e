"""The exit codes of commands."""

from __future__ import annotations

from typing import Final

__all__ = ["EXIT_BUDGET", "EXIT_FAILED", "EXIT_INTERRUPTED", "EXIT_INVALID", "EXIT_USAGE"]

EXIT_FAILED: Final = 1  # a check failed, or an error
EXIT_USAGE: Final = 2
EXIT_BUDGET: Final = 3  # over budget
EXIT_INVALID: Final = 4  # an invalid plan
EXIT_INTERRUPTED: Final = 130
