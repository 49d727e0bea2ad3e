"""Targets: the rules of the memory that a plan is made for. Built-in ones, and the user's own from TOML."""

from __future__ import annotations

from edgemem.targets.builtin import BUILT_IN
from edgemem.targets.rules import Inputs, Region, Target
from edgemem.targets.states import match_states
from edgemem.targets.tables import find_target, from_table, to_table
from edgemem.targets.units import parse_size, size_of

__all__ = [
    "BUILT_IN",
    "Inputs",
    "Region",
    "Target",
    "find_target",
    "from_table",
    "match_states",
    "parse_size",
    "size_of",
    "to_table",
]
