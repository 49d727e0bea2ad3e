"""What a file of budgets says: which models, planned how, and what each may take.

    baseline = "all.baseline.json"       # beside this file; the default is its name with .baseline.json

    [defaults]                           # of all models
    tolerance = "2%"

    [[model]]
    path = "models/*.tflite"             # one or more files, in the folder of this file or in folders in it
    target = "tflm"
    budget = "256KiB"

In `pyproject.toml` it is the table `tool.edgemem`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final

from edgemem.errors import ModelError, PlanError
from edgemem.system.found_files import is_inside
from edgemem.system.text import short_repr
from edgemem.system.toml_file import read_toml
from edgemem.targets import parse_size

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

__all__ = ["GuardSettings", "GuardedModel", "Tolerance", "read_settings"]

_KEYS: Final = frozenset(("path", "target", "budget", "tolerance", "dims", "input_shapes"))
_MOST_SIZE: Final = (1 << 63) - 1  # of memory
_BASELINE: Final = ".baseline.json"  # ends the names of files that may be written
_MOST_LEVELS: Final = 2  # at which a glob searches whole folders; each multiplies the steps
_MOST_VALUES: Final = 1 << 20  # that models take over from the defaults


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
        target: as for `edgemem.plan`, own ones as a path; "" for the plan in the model, or the format's own target.
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
        table = read_toml(path)
    except ValueError as e:
        raise ModelError(f"{path.name} is no TOML file: {e}") from None
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
    baseline = table.get("baseline", f"{path.stem}{_BASELINE}")
    if not isinstance(baseline, str) or not baseline.endswith(_BASELINE) or set(baseline) & set("/\\:\0"):
        raise ModelError(
            f"{path.name}: baseline is the name of a file beside it that ends with {_BASELINE}; "
            "name one that lies elsewhere with --baseline"
        )
    inherited = sum(len(value) if isinstance(value, (dict, list)) else 1 for value in defaults.values())
    if len(entries) * inherited > _MOST_VALUES:
        raise ModelError(f"{path.name}: {len(entries):,} models take over more than {_MOST_VALUES:,} default values")
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
    if not is_inside(values["path"]) or values["path"].count("**") > _MOST_LEVELS:
        raise ModelError(
            f"{where}: its path {short_repr(values['path'])} is no path from the folder of {path.name} to what is in "
            f"it: without .., drives and a / at its beginning, and with ** {_MOST_LEVELS} times at most"
        )
    try:
        return GuardedModel(
            values["path"],
            _target(path.parent, _text(values.get("target", ""))),
            _size(values["budget"]) if "budget" in values else None,
            _tolerance(values.get("tolerance", 0)),
            {str(k): v if isinstance(v, int) else _text(v) for k, v in dict(values.get("dims", {})).items()},
            {str(k): tuple(map(int, v)) for k, v in dict(values.get("input_shapes", {})).items()},
        )
    except (TypeError, ValueError, OverflowError, PlanError) as e:
        raise ModelError(f"{where}: {e}") from None


def _target(folder: Path, name: str) -> str:
    """A built-in target, or the path of the user's own, which lies in the folder of the settings or below it."""
    if not name.endswith(".toml"):
        return name
    if not is_inside(name) or not (folder / name).resolve().is_relative_to(folder.resolve()):
        raise ValueError(f"target {short_repr(name)} is no file in the folder of the settings")
    return str(folder / name)


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
