"""What a file of budgets says: which models, planned how, and what each may take.

    baseline = "models.baseline.json"    # beside this file; the default is its name with .baseline.json

    [defaults]                           # of all models
    tolerance = "2%"

    [[model]]
    path = "models/*.tflite"             # one or more files, from the folder of this file
    target = "tflm"
    budget = "256KiB"

In `pyproject.toml` it is the table `tool.edgemem`.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final

from edgemem.errors import ModelError, PlanError
from edgemem.system.regular_files import read_bounded
from edgemem.targets import parse_size

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

__all__ = ["GuardSettings", "GuardedModel", "Tolerance", "read_settings"]

_KEYS: Final = frozenset(("path", "target", "budget", "tolerance", "dims", "input_shapes"))
_LARGEST: Final = 1 << 20  # bytes of a file of budgets
_MOST_SIZE: Final = (1 << 63) - 1  # of memory


@dataclass(frozen=True, slots=True)
class Tolerance:
    """By how much memory may grow: a share of the baseline, and bytes; both are 0 by default."""

    share: float | Fraction = 0.0
    size: int = 0

    def allows(self, memory: int, baseline: int) -> bool:
        """Whether the memory is no further above the baseline."""
        share = Fraction(str(self.share)) if isinstance(self.share, float) else self.share
        return memory <= baseline * (1 + share) + self.size

    def __str__(self) -> str:
        return f"{float(self.share):.4%}".rstrip("0%").rstrip(".") + " %" if self.share else f"{self.size:,} bytes"


@dataclass(frozen=True, slots=True)
class GuardedModel:
    """One entry.

    Attributes:
        pattern: a path or a glob, from the folder of the file.
        target: as for `edgemem.plan`; "" for the plan in the model, or the format's own target.
        budget: bytes that the model may take; None for any number.
        tolerance: by how much it may grow beyond the baseline.
        dims, input_shapes: as for `edgemem.load`.
    """

    pattern: str
    target: str = ""
    budget: int | None = None
    tolerance: Tolerance = field(default_factory=Tolerance)
    dims: Mapping[str, int | str] = field(default_factory=dict)
    input_shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class GuardSettings:
    """All entries, the folder that their paths are in, and the file of baselines."""

    folder: Path
    baseline: Path
    models: tuple[GuardedModel, ...]


def read_settings(path: Path) -> GuardSettings:
    """The settings in a TOML file. Raises ModelError for what is none, naming the entry and the key."""
    try:
        table = tomllib.loads(read_bounded(path, _LARGEST).decode())
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as e:
        raise ModelError(f"{path.name} is no TOML file: {e}") from None
    except ValueError:  # Python reads no integer of thousands of digits
        raise ModelError(f"{path.name} has a number with more digits than any size") from None
    except OSError as e:
        raise ModelError(f"cannot read {path}: {e.strerror or e}") from None
    if path.name == "pyproject.toml":
        tool = table.get("tool", {})
        table = tool.get("edgemem", {}) if isinstance(tool, dict) else {}
    if not isinstance(table, dict):
        raise ModelError(f"{path.name}: tool.edgemem is a table of budgets")
    unknown = sorted(table.keys() - {"baseline", "defaults", "model"})
    if unknown:
        raise ModelError(f"{path.name}: unknown key {unknown[0]!r}; there are baseline, defaults and [[model]]")
    entries, defaults = table.get("model", []), table.get("defaults", {})
    if not isinstance(entries, list) or not entries or not isinstance(defaults, dict) or "path" in defaults:
        raise ModelError(f"{path.name} names no models: each is a table [[model]] with a path")
    baseline = table.get("baseline", f"{path.stem}.baseline.json")
    if not isinstance(baseline, str) or not baseline:
        raise ModelError(f"{path.name}: baseline is the name of a file")
    models = tuple(_entry(path, k, defaults, entry) for k, entry in enumerate(entries, 1))
    return GuardSettings(path.parent, path.parent / baseline, models)


def _entry(path: Path, number: int, defaults: dict[str, Any], entry: object) -> GuardedModel:
    where = f"{path.name}, model {number}"
    if not isinstance(entry, dict) or not isinstance(entry.get("path"), str) or not entry["path"]:
        raise ModelError(f"{where}: it needs a path, such as path = 'models/*.onnx'")
    values = {**defaults, **entry}
    unknown = sorted(values.keys() - _KEYS)
    if unknown:
        raise ModelError(f"{where}: unknown key {unknown[0]!r}; there are {', '.join(sorted(_KEYS))}")
    try:
        return GuardedModel(
            values["path"],
            _text(values.get("target", "")),
            _size(values["budget"]) if "budget" in values else None,
            _tolerance(values.get("tolerance", 0)),
            {str(k): v if isinstance(v, int) else _text(v) for k, v in dict(values.get("dims", {})).items()},
            {str(k): tuple(map(int, v)) for k, v in dict(values.get("input_shapes", {})).items()},
        )
    except (TypeError, ValueError, OverflowError, PlanError) as e:
        raise ModelError(f"{where}: {e}") from None


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value


def _size(value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        if value > _MOST_SIZE:
            raise ValueError(f"a size is at most {_MOST_SIZE:,} bytes")
        return value
    return parse_size(_text(value))


def _tolerance(value: object) -> Tolerance:
    if isinstance(value, str) and (match := re.fullmatch(r"\s*(\d{1,6}(?:\.\d{1,6})?)\s*%\s*", value)):
        return Tolerance(share=Fraction(match[1]) / 100)
    return Tolerance(size=_size(value))
