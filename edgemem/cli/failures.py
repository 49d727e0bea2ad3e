"""Errors as commands report them: the message, and the exit code."""

from __future__ import annotations

from typing import Final

import click

from edgemem.cli.exit_codes import EXIT_BUDGET, EXIT_FAILED, EXIT_INVALID, EXIT_USAGE
from edgemem.cli.signals import received
from edgemem.errors import (
    BudgetExceededError,
    EdgememError,
    InvalidPlanError,
    PlanFileError,
    UnknownAbiError,
    UnknownStrategyError,
)

__all__ = ["REPORTED", "failure_of", "failure_of_one"]

# What a command reports without a traceback, besides what click reports by itself.
REPORTED: Final = (EdgememError, OSError, ImportError, MemoryError)
_STATUSES: Final[dict[type[EdgememError], int]] = {
    UnknownAbiError: EXIT_USAGE,
    UnknownStrategyError: EXIT_USAGE,
    BudgetExceededError: EXIT_BUDGET,
    InvalidPlanError: EXIT_INVALID,
    PlanFileError: EXIT_INVALID,
}


def failure_of(error: Exception) -> tuple[str, int]:
    """The message, with the code of an error of edgemem behind it, and the exit code of one of REPORTED, or click's."""
    if isinstance(error, click.ClickException):
        return error.format_message(), error.exit_code
    if isinstance(error, EdgememError):
        status = next((status for kind, status in _STATUSES.items() if isinstance(error, kind)), EXIT_FAILED)
        return f"{error} [{error.code}]", status
    if isinstance(error, OSError):
        return (f"{error.filename}: {error.strerror}" if error.filename else str(error)), EXIT_FAILED
    if isinstance(error, ImportError):
        name = error.name or "a module"
        return f"cannot load {name} ({error}): install it again, or give the process more memory", EXIT_FAILED
    given = str(error) or "no more was given"
    return f"there is not enough memory ({given}); give smaller sizes, or free some", EXIT_FAILED


def failure_of_one(error: Exception) -> tuple[str, int]:
    """As `failure_of`, for one file of several; raises the error again where a signal or a closed pipe caused it."""
    if received() or isinstance(error, BrokenPipeError):
        raise error
    return failure_of(error)
