"""A target as maps of plain values, which is how a plan file holds it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from edgemem.errors import PlanFileError
from edgemem.targets import from_table, to_table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from edgemem.plans import OptionValue
    from edgemem.targets import Target

__all__ = ["target_from", "target_values"]


def target_values(target: Target) -> tuple[dict[str, OptionValue], list[dict[str, OptionValue]]]:
    """The target's own attributes, and a map for each of its regions."""
    table = to_table(target)
    regions = table.pop("region")
    return table, [{k: " ".join(v) if k == "reserved" else v for k, v in region.items()} for region in regions]


def target_from(values: Mapping[str, OptionValue], regions: Sequence[Mapping[str, OptionValue]]) -> Target:
    """The target that `target_values` took apart.

    Raises PlanFileError or ModelError for values that are no target's.
    """
    # What `from_table` takes from TOML is wider than what `to_table` gives: sizes with units, names of any type.
    for region in regions:
        capacity, reserved = region.get("capacity", 0), region.get("reserved", "0..0")
        if type(region.get("name")) is not str or type(capacity) is not int or capacity < 0:
            raise PlanFileError("a region is not a name and a capacity in bytes")
        if type(reserved) is not str or not all(re.fullmatch(r"\d+\.\.\d+", r) for r in reserved.split(" ")):
            raise PlanFileError("what a region reserves is not ranges of bytes")
    if "name" not in values or "region" in values:
        raise PlanFileError("the target is not the attributes of one")
    lists = [{k: str(v).split(" ") if k == "reserved" else v for k, v in region.items()} for region in regions]
    return from_table({**values, "region": lists}, where="target")
