"""A plan's places, found by another process or noted from an earlier one, so that this process loads no planner.

Reading, planning and proving a model takes modules of several MiB, which stay in the process. Another process does it,
and answers with the places; they are noted in the user's cache by a checksum of the model as LiteRT runs it. Whether
they come from the process or from a note, they are proved here by rehearsal on LiteRT's own operators.
"""

from __future__ import annotations

import sys
import zlib
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from edgemem.errors import MissingDependencyError
from edgemem.runtime.litert.layout_note import read_layout, write_layout
from edgemem.runtime.litert.places import Layout
from edgemem.runtime.litert.rehearsal import wrong_places
from edgemem.runtime.litert.structure import checksum
from edgemem.runtime.memory import Origin

if TYPE_CHECKING:
    from collections.abc import Mapping

    from edgemem.runtime.litert.file import Source
    from edgemem.runtime.litert.request import PlanRequest, Resized
    from edgemem.runtime.litert.structure import Structure

__all__ = ["can_plan_apart", "layout_data", "layout_of", "plan_apart"]

_CHILD: Final = "edgemem.runtime.litert.plan_child"
_TIMEOUT_S: Final = 600.0
_PLANNER: Final = "edgemem.runtime.litert.planned_here"


def can_plan_apart(request: PlanRequest) -> bool:
    """Whether another process is to plan: it can make the same interpreter, and this one has no planner yet."""
    if request.options is None or not (request.plan is None or isinstance(request.plan, str)):
        return False
    can_start = bool(sys.executable) and not getattr(sys, "frozen", False)
    return can_start and _PLANNER not in sys.modules


def plan_apart(structure: Structure, source: Source, request: PlanRequest, resized: Resized) -> Layout | None:
    """The layout that is asked for, proved; None where this system starts no process, or its answer is not right.

    Args:
        structure: the model as LiteRT runs it.
        source: the model.
        request: which plan is wanted; not a plan set.
        resized: tensor index of an input -> the shape that the caller gave it.

    Raises RuntimeBindError if the model cannot run in an arena, InvalidPlanError if the plan is wrong.
    """
    key = _key(structure, source, request, resized)
    layout = layout_of(read_layout(key))
    if layout is not None and not _wrong(structure, layout, request):
        return layout
    answer = _asked(source, request, resized)
    layout = layout_of(answer)
    if layout is None or _wrong(structure, layout, request):
        return None
    assert answer is not None
    write_layout(key, answer)
    return layout


def _wrong(structure: Structure, layout: Layout, request: PlanRequest) -> str:
    return wrong_places(structure, layout.places, layout.size, inputs_kept=request.inputs == "keep")


def _key(structure: Structure, source: Source, request: PlanRequest, resized: Resized) -> str:
    """What the places depend on, as a checksum. Two models with one checksum do no harm: places are proved."""
    from edgemem.system.distribution import VERSION

    plan = b"" if request.plan == "make" or request.strategies else source.plan() or b""
    asked = (request.plan, request.strategies, request.inputs, request.is_strict, sorted(resized))
    settings = (VERSION, asked, len(plan), zlib.crc32(plan))
    return f"{checksum(structure)}{zlib.crc32(repr(settings).encode()):08x}"


def _asked(source: Source, request: PlanRequest, resized: Resized) -> Mapping[str, Any] | None:
    """What another process answers."""
    from edgemem.runtime.litert.process import Question, ask

    data = {
        "path": source.path,
        "plan": request.plan,
        "strategies": request.strategies,
        "inputs": request.inputs,
        "options": request.options,
        "strict": request.is_strict,
        "shapes": [(int(index), [int(length) for length in shape]) for index, shape in resized.items()],
    }
    with suppress(OSError, MissingDependencyError):
        question = Question(data, source.content or b"")
        return ask(_CHILD, question, doing="planning the model", timeout_s=_TIMEOUT_S).data
    return None


def layout_data(layout: Layout) -> dict[str, Any]:
    """A layout as plain data, which `layout_of` reads."""
    origin = layout.origin
    return {
        "places": layout.places,
        "size": layout.size,
        "origin": [origin.source, origin.of, origin.strategy],
        "reason": layout.reason,
        "lower_bound": layout.lower_bound,
    }


def layout_of(data: Mapping[str, Any] | None) -> Layout | None:
    """The layout that `layout_data` has written; None for anything else."""
    try:
        assert data is not None
        places = tuple((int(index), int(offset), int(size)) for index, offset, size in data["places"])
        source, of, strategy = map(str, data["origin"])
        bound = data["lower_bound"]
        origin = Origin(source, of, strategy)  # type: ignore[arg-type]
        bound = None if bound is None else int(bound)
        return Layout(places, int(data["size"]), None, origin, str(data["reason"]), bound)
    except (AssertionError, KeyError, TypeError, ValueError, OverflowError):
        return None
