"""Operator logs from files: those of DTR's prototype (`.log`, `.log.gz`), and recorded ones (`.npz`)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from edgemem.errors import ModelError
from tests.bench.remat import operator_log_file
from tests.bench.remat.dtr_log import load_dtr_log

if TYPE_CHECKING:
    from tests.bench.remat.operator_log import OperatorLog

__all__ = ["load_operator_log"]


def load_operator_log(path: str | Path) -> OperatorLog:
    """What a program ran, from a file. Raises ModelError if it is no operator log."""
    path = Path(path)
    if path.name.lower().endswith((".log", ".log.gz")):
        return load_dtr_log(path)
    if path.suffix.lower() == ".npz":
        return operator_log_file.load_operator_log(path)
    raise ModelError(f"{path.name}: an operator log ends in .log, .log.gz or .npz")
