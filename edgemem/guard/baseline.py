"""What models took when they were last looked at: a JSON file that is committed beside them."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from edgemem.errors import PlanFileError
from edgemem.system.files import atomic_write
from edgemem.system.regular_files import read_bounded

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from edgemem.report.planned_memory import PlannedMemory

__all__ = ["BaselineRow", "baseline_row", "read_baseline", "write_baseline"]

_VERSION: Final = 1
_LARGEST: Final = 1 << 26


@dataclass(frozen=True, slots=True)
class BaselineRow:
    """Bytes of one model.

    Attributes:
        memory: what the runtime needs.
        arena, lower_bound: of the graph's plan.
        operators: of the graph.
        peak: the operator at which most is alive.
        counts: what `memory` is of: a `session`, as recorded, or a `plan`.
    """

    memory: int
    arena: int
    lower_bound: int
    operators: int
    peak: str
    counts: str = "plan"


def baseline_row(memory: PlannedMemory) -> BaselineRow:
    """What is kept of a plan."""
    return BaselineRow(
        memory.memory,
        memory.arena,
        memory.lower_bound,
        len(memory.operators),
        memory.label(memory.peak_op),
        memory.counts,
    )


def read_baseline(path: Path) -> dict[str, BaselineRow] | None:
    """Rows by model; None where there is no file. Raises PlanFileError for a file that holds none."""
    if not path.exists():
        return None
    try:
        return _rows(json.loads(read_bounded(path, _LARGEST)))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as e:
        raise PlanFileError(
            f"{path.name} holds no baselines ({e}); write it again with `edgemem check --update`"
        ) from None


def _rows(data: Any) -> dict[str, BaselineRow]:
    if data["schema_version"] != _VERSION:
        raise ValueError(f"its version is {data['schema_version']!r}, not {_VERSION}")
    rows = {str(name): BaselineRow(**row) for name, row in data["models"].items()}
    numbers = [n for row in rows.values() for n in (row.memory, row.arena, row.lower_bound, row.operators)]
    if not all(type(n) is int and 0 <= n < 1 << 63 for n in numbers):
        raise ValueError("a size is no number of bytes")
    if not all(isinstance(row.peak, str) for row in rows.values()):
        raise ValueError("a peak is no operator's name")
    return rows


def write_baseline(path: Path, rows: Mapping[str, BaselineRow]) -> None:
    """Write the file: a line a model, in the order of their names, so that merges are easy."""
    lines = ",\n".join(f"  {json.dumps(name)}: {json.dumps(asdict(rows[name]))}" for name in sorted(rows))
    text = f'{{"schema_version": {_VERSION}, "models": {{\n{lines}\n}}}}\n'
    with atomic_write(path) as file:
        file.write(text.encode())
