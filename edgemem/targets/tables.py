"""Targets as plain data, and from TOML files."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgemem.errors import ModelError, PlanError
from edgemem.model.aliasing import RULES
from edgemem.model.profiles import PROFILES
from edgemem.system.text import short_repr
from edgemem.system.toml_file import read_toml
from edgemem.targets.builtin import BUILT_IN
from edgemem.targets.rules import Region, Target
from edgemem.targets.units import parse_size

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["find_target", "from_table", "to_table"]

_CHOICES: dict[str, tuple[str, ...]] = {
    "inputs": ("outside", "until_last_use", "whole_run"),
    "outputs": ("outside", "to_end"),
    "unread": ("one_op", "to_end"),
    "variables": ("outside", "whole_run"),
    "aliasing": tuple(RULES),
    "bodies": ("inline", "outside"),
    "sub_byte": ("packed", "unpacked"),
    "scratch": ("unknown", "litert", "tflm"),
    "kernels": PROFILES,
    "storage": ("plain", "phwc4"),
    "precision": ("fp32", "fp16"),
}

# A region's index is a bit of a record's mask.
_MOST_REGIONS = 62
_MOST = 2**63 - 1
_MOST_ALIGNMENT = 2**62
_MOST_COST = 10**6  # of a byte, so that sums over a model stay far within int64


def find_target(name: str) -> Target:
    """A built-in target by name, or the user's own from a TOML file.

    The file has the attributes of `Target` as keys (those not given are as in `generic`); one or more `[[region]]`
    with `name`, `capacity` ("256KiB" or bytes), `reserved` (["0..4KiB"]), `cost` and `alignment`; a table `[pins]` of
    tensors and offsets ("4KiB" or bytes); and a table `[states]` of graph inputs and the values that they are in the
    next run. Raises ModelError for a file that cannot be read, is larger than 1 MiB, or has a key or value that is
    none of these.
    """
    if name in BUILT_IN:
        return BUILT_IN[name]
    path = Path(name)
    if path.suffix != ".toml":
        raise ModelError(f"no target {name!r}; there are {', '.join(BUILT_IN)}, or the name of a .toml file")
    try:
        table = read_toml(path)
    except (OSError, ValueError) as e:  # ValueError: no UTF-8, no TOML, a number of thousands of digits
        raise ModelError(f"cannot read target {path}: {e}") from None
    return from_table({"name": path.stem, **table}, where=str(path))


def from_table(table: Mapping[str, Any], *, where: str) -> Target:
    """A target from plain data, as TOML and plan files hold it. Raises ModelError naming what is wrong."""
    fields = dict(table)
    regions, pins, states = fields.pop("region", []), fields.pop("pins", {}), fields.pop("states", {})
    known = [f.name for f in dataclasses.fields(Target) if f.name not in ("regions", "pins", "states")]
    for key, value in fields.items():
        if key not in known:
            raise ModelError(
                f"{where}: unknown key {short_repr(key)}; there are {', '.join(known)}, region, pins, states"
            )
        default = getattr(BUILT_IN["generic"], key)
        choices = _CHOICES.get(key)
        if type(value) is not type(default) or (choices and value not in choices):
            expected = f"one of {', '.join(choices)}" if choices else type(default).__name__
            raise ModelError(f"{where}: {key} is {expected}, not {short_repr(value)}")
    _check_alignment(fields.get("alignment", 64), where)
    if not isinstance(regions, list) or len(regions) > _MOST_REGIONS:
        raise ModelError(f"{where}: regions are written as [[region]], {_MOST_REGIONS} at most")
    if regions:
        fields["regions"] = tuple(_region(region, where) for region in regions)
        names = [region.name for region in fields["regions"]]
        if len(set(names)) < len(names):
            raise ModelError(f"{where}: two regions have one name; give each its own")
    return Target(**fields, pins=_pins(pins, where), states=_states(states, where))


def to_table(target: Target) -> dict[str, Any]:
    """The target as plain data; `from_table` reads it back. `pins` and `states` are there if there are any."""
    table = {f.name: getattr(target, f.name) for f in dataclasses.fields(target)}
    regions = []
    for region in table.pop("regions"):
        entry: dict[str, Any] = {"name": region.name}
        if region.capacity is not None:
            entry["capacity"] = region.capacity
        if region.reserved:
            entry["reserved"] = [f"{begin}..{end}" for begin, end in region.reserved]
        entry |= {key: value for key in ("cost", "alignment") if (value := getattr(region, key)) != 1}
        regions.append(entry)
    for name in ("pins", "states"):
        mapping = dict(table.pop(name))
        if mapping:
            table[name] = mapping
    return {**table, "region": regions}


def _check_alignment(alignment: int, where: str) -> None:
    if not 0 < alignment <= _MOST_ALIGNMENT or alignment & (alignment - 1):
        raise ModelError(f"{where}: alignment {short_repr(alignment)} is not a power of two up to 2**62")


def _region(table: object, where: str) -> Region:
    if not isinstance(table, dict) or set(table) - {"name", "capacity", "reserved", "cost", "alignment"}:
        raise ModelError(f"{where}: a region has a name, a capacity, reserved ranges, a cost, and an alignment")
    name, capacity = table.get("name", "arena"), table.get("capacity")
    cost, alignment = table.get("cost", 1), table.get("alignment", 1)
    if type(cost) is not int or not 0 <= cost <= _MOST_COST:
        raise ModelError(f"{where}: the cost of a byte is a whole number, 0 to {_MOST_COST}, not {short_repr(cost)}")
    _check_alignment(alignment if type(alignment) is int else 0, where)
    return Region(
        name if isinstance(name, str) else short_repr(name),
        None if capacity is None else _bytes(capacity, f"{where}: capacity {short_repr(capacity)}"),
        _ranges(table.get("reserved", []), where),
        cost,
        alignment,
    )


def _bytes(value: object, what: str) -> int:
    """A size from a text such as "4KiB", or a number of bytes. Raises ModelError, which begins with `what`."""
    try:
        size = parse_size(value) if isinstance(value, str) else value
    except PlanError as e:
        raise ModelError(f"{what}: {e}") from None
    if not isinstance(size, int) or isinstance(size, bool) or size < 0:
        raise ModelError(f"{what}, which is no number of bytes")
    if size > _MOST:
        raise ModelError(f"{what}, beyond int64")
    return size


def _ranges(listed: object, where: str) -> tuple[tuple[int, int], ...]:
    """Ranges of bytes from texts such as "64KiB..65KiB"."""
    if not isinstance(listed, list):
        raise ModelError(f'{where}: reserved is a list of ranges such as "0..4KiB", not {short_repr(listed)}')
    ranges = []
    for text in listed:
        begin, dots, end = text.partition("..") if isinstance(text, str) else ("", "", "")
        try:
            low, high = parse_size(begin), parse_size(end)
        except PlanError as e:
            raise ModelError(f'{where}: reserved {short_repr(text)} is no range such as "0..4KiB": {e}') from None
        if not dots or high < low or high > _MOST:
            raise ModelError(f"{where}: reserved {short_repr(text)} is no range of bytes within int64")
        ranges.append((low, high))
    return tuple(ranges)


def _pins(table: object, where: str) -> dict[str, int]:
    if not isinstance(table, dict):
        raise ModelError(f'{where}: pins is a table such as "tensor" = "4KiB", not {short_repr(table)}')
    return {
        tensor: _bytes(offset, f"{where}: tensor {short_repr(tensor)} is pinned at {short_repr(offset)}")
        for tensor, offset in table.items()
    }


def _states(table: object, where: str) -> dict[str, str]:
    if not isinstance(table, dict) or not all(isinstance(value, str) for value in table.values()):
        raise ModelError(f'{where}: states is a table such as "past.*" = "present.*", not {short_repr(table)}')
    return dict(table)
