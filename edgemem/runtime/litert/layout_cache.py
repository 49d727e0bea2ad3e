"""A model's layout from the user's cache, or from another process that plans, so that this one loads no planner.

Reading, planning and proving a model takes modules of several MiB, which stay in the process. So another process does
it, and its answer is stored as a small JSON file, by a checksum of the model as LiteRT runs it. No entry is trusted:
`rehearsal` proves every layout on LiteRT's own operators. A damaged entry counts as absent, the oldest are removed, and
the folder may be deleted at any time.
"""

from __future__ import annotations

import json
import sys
import zlib
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from edgemem.errors import MissingDependencyError
from edgemem.runtime.litert.arena_layout import decode_layout
from edgemem.runtime.litert.rehearsal import wrong_places
from edgemem.runtime.litert.structure import checksum
from edgemem.system.caches import cache_folder
from edgemem.system.regular_files import read_bounded

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from edgemem.runtime.litert.arena_layout import ArenaLayout
    from edgemem.runtime.litert.file import ModelSource
    from edgemem.runtime.litert.request import PlanRequest, Resized
    from edgemem.runtime.litert.structure import Structure

__all__ = ["can_ask", "find_layout"]

_CHILD: Final = "edgemem.runtime.litert.layout_child"
_TIMEOUT_S: Final = 600.0
_PLANNER: Final = "edgemem.runtime.litert.layout"
_MOST_BYTES: Final = 1 << 24
_MOST_ENTRIES: Final = 256


def can_ask(request: PlanRequest) -> bool:
    """Whether another process can plan: it can make the same interpreter, and this one has loaded no planner yet."""
    if request.options is None or not (request.plan is None or isinstance(request.plan, str)):
        return False
    can_start = bool(sys.executable) and not getattr(sys, "frozen", False)
    return can_start and _PLANNER not in sys.modules


def find_layout(
    structure: Structure, source: ModelSource, request: PlanRequest, resized: Resized
) -> ArenaLayout | None:
    """The layout that is asked for, proved; None where this system starts no process, or its answer is not right.

    Args:
        structure: the model as LiteRT runs it.
        source: the model.
        request: which plan is wanted; not a plan set.
        resized: tensor index of an input -> the shape that the caller gave it.

    Raises RuntimeBindError if the model cannot run in an arena, InvalidPlanError if the plan is wrong.
    """
    path = _path(structure, source, request, resized)
    layout = decode_layout(_read(path))
    if layout is not None and not _wrong(structure, layout, request):
        return layout
    answer = _ask(source, request, resized)
    layout = decode_layout(answer)
    if layout is None or _wrong(structure, layout, request):
        return None
    assert answer is not None
    _write(path, answer)
    return layout


def _wrong(structure: Structure, layout: ArenaLayout, request: PlanRequest) -> str:
    if request.inputs == "keep" and not layout.keeps_inputs:
        return "the memory of inputs is used again"
    return wrong_places(structure, layout.places, layout.size, inputs_kept=layout.keeps_inputs)


def _path(structure: Structure, source: ModelSource, request: PlanRequest, resized: Resized) -> Path | None:
    """Where the entry is, by a checksum of what the places depend on; a collision does no harm: places are proved."""
    from edgemem.system.distribution import VERSION

    plan = b"" if request.plan == "make" or request.strategies else source.plan() or b""
    asked = (request.plan, request.strategies, request.inputs, request.is_strict, sorted(resized))
    settings = (VERSION, asked, len(plan), zlib.crc32(plan))
    key = f"{checksum(structure)}{zlib.crc32(repr(settings).encode()):08x}"
    folder = cache_folder()
    return None if folder is None else folder.parent / "litert-layouts" / f"{key}.json"


def _read(path: Path | None) -> dict[str, Any] | None:
    try:
        entry = None if path is None else json.loads(read_bounded(path, _MOST_BYTES, follow=False))
    except (OSError, ValueError, RecursionError):
        return None
    return entry if isinstance(entry, dict) else None


def _write(path: Path | None, data: Mapping[str, Any]) -> None:
    from edgemem.system.files import write_entry  # a process that finds its entry needs none of it

    if path is None:
        return
    with suppress(OSError, ValueError):
        write_entry(path, json.dumps(dict(data)).encode())
        entries = sorted(path.parent.glob("*.json"), key=lambda entry: entry.stat().st_mtime_ns)
        for entry in entries[:-_MOST_ENTRIES]:
            entry.unlink()


def _ask(source: ModelSource, request: PlanRequest, resized: Resized) -> Mapping[str, Any] | None:
    """What another process answers; None where none can be started."""
    from edgemem.runtime.litert.process import ask
    from edgemem.system.child_call import Message

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
        question = Message(data, content=source.content or b"")
        return ask(_CHILD, question, doing="planning the model", timeout_s=_TIMEOUT_S).data
    return None
