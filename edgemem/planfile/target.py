"""A target as maps of plain values, which is how a plan file holds it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from edgemem.errors import PlanFileError
from edgemem.targets import BUILT_IN, from_table, to_table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from edgemem.plans import OptionValue
    from edgemem.targets import Target

__all__ = ["TargetMaps", "target_from", "target_maps"]

# Absent in older files, where they have their defaults.
_LATER: Final = (
    "pointer_bytes",
    "kernels",
    "slots",
    "storage",
    "precision",
    "texel_row",
    "layer_rows",
    "texture_side",
    "binding",
)


@dataclass(frozen=True, slots=True)
class TargetMaps:
    """A target taken apart.

    Attributes:
        values: its own attributes.
        regions: a map for each of its regions.
        pins, states: what it says of single tensors.
    """

    values: Mapping[str, OptionValue]
    regions: Sequence[Mapping[str, OptionValue]]
    pins: Mapping[str, OptionValue]
    states: Mapping[str, OptionValue]


def target_maps(target: Target) -> TargetMaps:
    """The maps that a plan file holds.

    Files are older than some attributes. Those are left out where reading adds them, so that old files stay as they
    are.
    """
    table = to_table(target)
    for name in _LATER:
        if table[name] == getattr(BUILT_IN["generic"], name):
            del table[name]
    if target.sub_byte == _sub_byte(target.name):
        del table["sub_byte"]
    regions, pins, states = table.pop("region"), table.pop("pins", {}), table.pop("states", {})
    listed = [{k: " ".join(v) if k == "reserved" else v for k, v in region.items()} for region in regions]
    return TargetMaps(table, listed, pins, states)


def target_from(maps: TargetMaps) -> Target:
    """The target that `target_maps` took apart.

    Raises PlanFileError or ModelError for values that are no target's.
    """
    values, regions = maps.values, maps.regions
    # What `from_table` takes from TOML is wider than what `to_table` gives: sizes with units, names of any type.
    for region in regions:
        capacity, reserved = region.get("capacity", 0), region.get("reserved", "0..0")
        if type(region.get("name")) is not str or type(capacity) is not int or capacity < 0:
            raise PlanFileError("a region is not a name and a capacity in bytes")
        if type(reserved) is not str or not all(re.fullmatch(r"\d+\.\.\d+", r) for r in reserved.split(" ")):
            raise PlanFileError("what a region reserves is not ranges of bytes")
    if any(type(offset) is not int or offset < 0 for offset in maps.pins.values()):
        raise PlanFileError("a tensor is pinned at what is no number of bytes")
    if any(type(value) is not str for value in maps.states.values()):
        raise PlanFileError("a state is not the name of a value")
    if "name" not in values or values.keys() & {"region", "pins", "states"}:
        raise PlanFileError("the target is not the attributes of one")
    lists = [{k: str(v).split(" ") if k == "reserved" else v for k, v in region.items()} for region in regions]
    tables = {"region": lists, "pins": dict(maps.pins), "states": dict(maps.states)}
    return from_table({"sub_byte": _sub_byte(values["name"]), **values, **tables}, where="target")


def _sub_byte(name: OptionValue) -> str:
    """What a file means that does not say it: the rule of the built-in target of that name, or of `generic`."""
    return BUILT_IN.get(str(name), BUILT_IN["generic"]).sub_byte
