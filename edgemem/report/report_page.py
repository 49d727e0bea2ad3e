"""One HTML page about a plan: data, style and script in it, and a policy that keeps it from loading anything else.

The page's own files are in `page/`; the data are those of `memory_data`, with `report` beside them. Names out of models
reach the page as JSON alone, and its script sets them as text.
"""

from __future__ import annotations

import hashlib
import re
from base64 import b64encode
from dataclasses import asdict, dataclass, field
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from edgemem.report.memory_data import memory_data, script_json
from edgemem.report.sizes import size_text

if TYPE_CHECKING:
    from edgemem.report.planned_memory import PlannedMemory

__all__ = ["PageProof", "PageRow", "ReportPage", "page_html"]

_FOLDER: Final = Path(__file__).parent / "page"
_SCRIPTS: Final = ("data", "dom", "tables", "paint", "raster", "map", "sections", "page")


@dataclass(frozen=True, slots=True)
class PageProof:
    """What was checked, what was not, and what runs the plan; sentences."""

    right: bool
    checked: tuple[str, ...] = ()
    not_checked: tuple[str, ...] = ()
    runtimes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PageRow:
    """A way to need less memory.

    Attributes:
        memory: bytes. macs: arithmetic, as a multiple of the model's. operators: of the graph that runs.
        steps: the changes; "" for the model as it is. command: what makes it.
        planned: whether a plan has this size; else it is a lower bound. chosen: whether `edgemem shrink` takes it.
    """

    memory: int
    macs: float
    operators: int
    steps: str
    command: str
    planned: bool
    chosen: bool


@dataclass(frozen=True, slots=True)
class ReportPage:
    """What a page shows.

    Attributes:
        memory: the plan.
        proof: what is known of it.
        budget: bytes; None without one.
        others: plans to switch to, by the text of their button, such as "Before" and "Recording".
        label: the text of this plan's button.
        difference: from an older plan, as JSON-ready data.
        front: ways to need less; None where they were not looked for. explanation: what the search says besides.
        whole: bytes that the model takes as it is, which ways to need less are compared with; None if no plan says it.
        times: of each operator, nanoseconds, or None for one that was not timed; () where nothing was.
        timed: how they were measured, as a sentence.
    """

    memory: PlannedMemory
    proof: PageProof
    budget: int | None = None
    others: tuple[tuple[str, PlannedMemory], ...] = ()
    label: str = "Graph"
    difference: dict[str, Any] | None = None
    front: tuple[PageRow, ...] | None = None
    explanation: str = field(default="")
    whole: int | None = None
    times: tuple[int | None, ...] = ()
    timed: str = ""


def page_html(page: ReportPage) -> str:
    """The page as text. The same plan gives the same text."""
    memory = page.memory
    style = (_FOLDER / "page.css").read_text(encoding="utf-8")
    parts = [(_FOLDER / f"{name}.js").read_text(encoding="utf-8") for name in _SCRIPTS]
    script = '"use strict";\n(() => {\n' + "\n".join(parts) + "\n})();\n"
    data = {
        **memory_data(memory),
        "report": {
            "budget": page.budget,
            "proof": asdict(page.proof),
            "label": page.label,
            "others": [{"label": label, "data": memory_data(other)} for label, other in page.others],
            "difference": page.difference,
            "front": None
            if page.front is None
            else {
                "rows": [asdict(row) for row in page.front],
                "explanation": page.explanation,
                "whole": page.whole,
            },
            "times": {"ns": page.times, "about": page.timed} if page.times else None,
        },
    }
    size = size_text(memory.memory, texels=memory.unit == "texels")
    graph = f"lower bound {memory.lower_bound:,} {memory.unit}, {memory.strategy}"
    if memory.recorded is not None:
        graph = f"recorded, of a session; the graph's plan takes {memory.planned:,} {memory.unit}, {graph}"
    summary = f"{memory.name}: {size}, {graph}"
    values = {
        "policy": _policy(style, script),
        "title": escape(_plain(f"{memory.name} · edgemem report")),
        "style": style,
        "summary": escape(_plain(summary)),
        "data": script_json(data),
        "script": script,
    }
    template = (_FOLDER / "page.html").read_text(encoding="utf-8")
    return re.sub(r"\{\{(\w+)\}\}", lambda found: values[found[1]], template)


def _policy(style: str, script: str) -> str:
    """Nothing is loaded, and nothing runs but this style and this script."""
    hashed = [f"'sha256-{b64encode(hashlib.sha256(text.encode()).digest()).decode()}'" for text in (style, script)]
    return (
        f"default-src 'none'; style-src {hashed[0]}; script-src {hashed[1]}; "
        "base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
    )


def _plain(text: str) -> str:
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
