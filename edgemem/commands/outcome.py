"""What a run gave and took."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from edgemem.runtime.memory import as_data
from edgemem.system.files import atomic_write

if TYPE_CHECKING:
    from collections.abc import Mapping

    from edgemem.runtime.memory import MemoryReport

__all__ = ["Outcome", "outcome_data", "write_outputs"]


_LONGEST_NAME: Final = 200  # characters of a file's name; most systems take 255


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """What a model gave and took.

    Attributes:
        outputs: of the last run, by name.
        report: the memory of the runs and the plan that they kept to.
        memory: what the executor says of itself, a dataclass of its own.
        identical: every output of every run is that of a plain session, bit for bit; None if not compared.
        different: the outputs that are not.
        compared: what the plain run was, in words.
    """

    outputs: Mapping[str, Any]
    report: MemoryReport
    memory: Any
    identical: bool | None
    different: tuple[str, ...]
    compared: str = ""


def outcome_data(outcome: Outcome) -> dict[str, Any]:
    """The outcome as plain data for JSON, without the outputs."""
    return {
        "report": as_data(outcome.report),
        "memory": asdict(outcome.memory),
        "identical": outcome.identical,
        "different": list(outcome.different),
        "compared": outcome.compared,
    }


def write_outputs(outcome: Outcome, folder: str | Path) -> None:
    """Write every output that is an array to FOLDER/NAME.npy.

    Other characters than letters and digits become `_`, long names are cut, and names that become the same, with or
    without regard to case, get a number.
    """
    Path(folder).mkdir(parents=True, exist_ok=True)
    used: set[str] = set()
    for name, value in outcome.outputs.items():
        if isinstance(value, np.ndarray):
            with atomic_write(Path(folder) / f"{_file_name(name, used)}.npy") as file:
                np.save(file, value, allow_pickle=False)


def _file_name(name: str, used: set[str]) -> str:
    base = made = re.sub(r"[^A-Za-z0-9.-]", "_", name)[:_LONGEST_NAME] or "_"
    number = 1
    while made.lower() in used:
        number += 1
        made = f"{base}_{number}"
    used.add(made.lower())
    return made
