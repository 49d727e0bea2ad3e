"""What plan.fbs says: the fields of each table with their places and defaults, the codes, the file identifiers.

As a table of our own, because the code that flatc generates takes half a MiB of every process that stores a plan. A
test compares the two.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final, get_args

from edgemem.records.problem import Kind

if TYPE_CHECKING:
    from collections.abc import Mapping

    from edgemem.plans import OptionValue

__all__ = ["DEFAULTS", "KINDS", "PLAN_FILE", "PLAN_SET", "VALUE_TYPES", "slots"]

PLAN_SET = b"EMPL"  # file identifier of a payload whose root is one PlanSet: versions 1 to 3
PLAN_FILE = b"EMPF"  # and of one whose root is a PlanFile: version 4

KINDS: tuple[Kind, ...] = get_args(Kind)  # by their codes
VALUE_TYPES: tuple[type[OptionValue], ...] = (int, bool, str, float)  # by their codes

# The fields of each table, in the order of their slots.
_FIELDS: Final[Mapping[str, str]] = {
    "Strings": "text ends",
    "Values": "keys types integers texts reals",
    "Problem": "names first_op last_op rank sizes kinds tensors tensor_ends alignment pinned reserved overlap within "
    "regions traffic",
    "Search": "bound stopped work seed",
    "OffsetPlan": "strategy options offsets size optimal search regions region_sizes",
    "SharedObjectsPlan": "strategy options assignment objects size optimal search",
    "Settings": "strategies effort seed time_limit threads alignment",
    "Signature": "call inputs types dims dim_ends outputs bound shared",
    "Recording": "runtime version model options signature events heap_events heap_sizes heap_ends",
    "Cycle": "length sizes starts ends lanes sections free_sections dynamic names phases dynamic_sections device",
    "PlanSet": "problem naive offsets_bound shared_objects_bound offsets shared_objects target regions digest steps "
    "unplanned unplanned_reasons order dims inputs input_dims input_ends versions pins states settings recording "
    "ranges cycle",
    "PlanFile": "plan_sets",
}

# The default of each field that is a number: long, bool or double, by its type. All others are offsets.
DEFAULTS: Final[Mapping[str, Mapping[str, float]]] = {
    "Problem": {"rank": 1, "alignment": 1},
    "Search": {"bound": 0, "work": 0, "seed": -1},
    "OffsetPlan": {"size": 0, "optimal": False},
    "SharedObjectsPlan": {"size": 0, "optimal": False},
    "Settings": {"seed": -1, "time_limit": -1.0, "threads": 0, "alignment": 0},
    "Signature": {"bound": False, "shared": False},
    "Recording": {"events": 0},
    "Cycle": {"length": 0},
    "PlanSet": {"naive": 0, "offsets_bound": 0, "shared_objects_bound": 0},
}


@cache
def slots(table: str) -> Mapping[str, int]:
    """The slot of each field of a table, by the field's name in the schema."""
    return {field: slot for slot, field in enumerate(_FIELDS[table].split())}
