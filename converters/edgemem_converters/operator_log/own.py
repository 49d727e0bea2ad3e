"""Operator logs as edgemem writes them (`edgemem.trace.operator_log_file`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Self

from edgemem.trace.operator_log_file import load_operator_log

if TYPE_CHECKING:
    from pathlib import Path

    from edgemem.trace import OperatorLog

__all__ = ["OwnLogConverter"]


class OwnLogConverter:
    """An operator log in NumPy columns."""

    suffixes: ClassVar[tuple[str, ...]] = (".npz",)

    def __init__(self, log: OperatorLog) -> None:
        self._log = log

    def operator_log(self) -> OperatorLog:
        """What the program ran."""
        return self._log

    @classmethod
    def open(cls, path: Path) -> Self:
        """Read a file. Raises ModelError if it is no operator log that edgemem wrote."""
        return cls(load_operator_log(path))
