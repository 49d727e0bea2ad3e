"""The place of each tensor of LiteRT in an arena of ours."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from edgemem.runtime.memory import Origin

if TYPE_CHECKING:
    from collections.abc import Mapping

    from edgemem.plans import PlanSet

__all__ = ["ArenaLayout", "decode_layout", "encode_layout"]


@dataclass(frozen=True, slots=True)
class ArenaLayout:
    """Places in the arena.

    Attributes:
        places: (tensor index, offset, bytes) of the main subgraph's tensors, workspace included.
        size: of the arena in bytes.
        planset: the plans it comes from; None for a plan that another process has proved.
        origin: the plan that it is.
        reason: why it is not the plan in the file, where there is one; else "".
        lower_bound: what no plan of the same tensors can go below; None if it is not known.
        keeps_inputs: whether inputs keep their memory for the whole run; else they are to be set before every run.
    """

    places: tuple[tuple[int, int, int], ...]
    size: int
    planset: PlanSet | None
    origin: Origin
    reason: str = ""
    lower_bound: int | None = None
    keeps_inputs: bool = True


def encode_layout(layout: ArenaLayout) -> dict[str, Any]:
    """A layout as plain data for JSON, without its plan set."""
    origin = layout.origin
    return {
        "places": layout.places,
        "size": layout.size,
        "origin": [origin.source, origin.of, origin.strategy],
        "reason": layout.reason,
        "lower_bound": layout.lower_bound,
        "keeps_inputs": layout.keeps_inputs,
    }


def decode_layout(data: Mapping[str, Any] | None) -> ArenaLayout | None:
    """The layout that `encode_layout` has written; None for anything else."""
    try:
        assert data is not None
        places = tuple((int(index), int(offset), int(size)) for index, offset, size in data["places"])
        source, of, strategy = map(str, data["origin"])
        bound = data["lower_bound"]
        origin = Origin(source, of, strategy)  # type: ignore[arg-type]
        bound = None if bound is None else int(bound)
        keeps = data["keeps_inputs"] is not False
        return ArenaLayout(places, int(data["size"]), None, origin, str(data["reason"]), bound, keeps)
    except (AssertionError, KeyError, TypeError, ValueError, OverflowError):
        return None
