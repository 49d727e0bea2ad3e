"""What plan.fbs says, taken from the code that flatc generated from it: the place of each field, and the codes."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any, get_args

from edgemem.planfile import plan_fbs
from edgemem.records.problem import Kind

if TYPE_CHECKING:
    from collections.abc import Mapping

    from edgemem.plans import OptionValue

__all__ = ["KINDS", "PLAN_FILE", "PLAN_SET", "VALUE_TYPES", "slots"]

PLAN_SET = b"EMPL"  # file identifier of a payload whose root is one PlanSet: versions 1 to 3
PLAN_FILE = b"EMPF"  # and of one whose root is a PlanFile: version 4

KINDS: tuple[Kind, ...] = get_args(Kind)  # by their codes
VALUE_TYPES: tuple[type[OptionValue], ...] = (int, bool, str, float)  # by their codes


class _SlotRecorder:
    """A builder that notes the slot of the field it is asked to add, and writes nothing."""

    def __init__(self) -> None:
        self.slot = -1

    def __getattr__(self, method: str) -> Any:
        def note(slot: int, *_: object) -> None:
            self.slot = slot

        return note


@cache
def slots(table: str) -> Mapping[str, int]:
    """The slot of each field of a table, by the field's name in the schema."""
    prefix = f"{table}Add"
    found = {}
    for name in dir(plan_fbs):
        if name.startswith(prefix):
            recorder = _SlotRecorder()
            getattr(plan_fbs, name)(recorder, 0)
            found[re.sub(r"(?<!^)(?=[A-Z])", "_", name.removeprefix(prefix)).lower()] = recorder.slot
    return dict(sorted(found.items(), key=lambda item: item[1]))
