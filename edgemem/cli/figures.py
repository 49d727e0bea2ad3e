"""What a row has of what a command prints as JSON (docs/json.md), and how a table shows it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from edgemem.fleet.task import OK
from edgemem.report.sizes import ratio_text, size_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from edgemem.fleet.task import Figure

__all__ = ["COLUMNS", "cells_of", "figures_of", "text_of"]

# Command -> heading and figure of the columns of its table, which are bytes unless the figure is a count.
COLUMNS: Final[Mapping[str, tuple[tuple[str, str], ...]]] = {
    "plan": (("arena", "arena"), ("lower bound", "lower_bound")),
    "shrink": (("before", "before"), ("memory", "memory")),
    "verify": (("plans", "plans"), ("arena", "arena")),
    "check": (("models", "models"), ("failing", "failing")),
    "measure": (("default", "default_activation"), ("edgemem", "edgemem_activation")),
    "trace": (("requested", "requested_peak"), ("arena", "arena")),
}
_COUNTS: Final = ("plans", "models", "failing")
_MEASURED: Final = ("activation", "planned", "arena", "tail", "anonymous", "peak", "load_ms", "latency_ms", "exact")


def figures_of(command: str, document: Any) -> tuple[dict[str, Figure], str, str]:
    """The figures in what a command printed as JSON, and the status and the message of the row."""
    return _FIGURES[command](document)


def cells_of(command: str, figures: Mapping[str, Figure]) -> tuple[str, ...]:
    """The cells of the command's columns; "" for what is not known."""
    return tuple(_cell(name, figures) for _, name in COLUMNS[command])


def text_of(command: str, figures: Mapping[str, Figure]) -> str:
    """What a table says besides of a model that did not fail."""
    arena, bound = figures.get("arena"), figures.get("lower_bound")
    if command == "plan" and isinstance(arena, int) and isinstance(bound, int):
        return "optimal" if figures.get("optimal") else f"{ratio_text(arena, bound)} of the bound"
    if command == "shrink":
        return f"{figures.get('steps', '')}" or "as it is"
    if command == "trace":
        return f"{figures.get('planned', '')} planned"
    if command == "measure":
        return ", ".join(f"{k.removesuffix('_latency_ms')} {v:.3g} ms" for k, v in _latencies(figures))
    return "right"


def _latencies(figures: Mapping[str, Figure]) -> list[tuple[str, float]]:
    return [(k, v) for k, v in figures.items() if k.endswith("_latency_ms") and isinstance(v, float)]


def _cell(name: str, figures: Mapping[str, Figure]) -> str:
    value = figures.get(name)
    if not isinstance(value, int):
        return ""
    return f"{value:,}" if name in _COUNTS else size_text(value, texels=figures.get("unit") == "texels")


def _plan(document: Any) -> tuple[dict[str, Figure], str, str]:
    family = "offsets" if "offsets" in document["chosen"] else "shared_objects"
    best = document["plans"][document["chosen"][family]]
    records = (document.get("model") or {}).get("records")
    texels = any(isinstance(size, list) for plan in document["plans"] for size in plan.get("objects", ()))
    figures = {
        "arena": best["size"],
        "lower_bound": document["proved"][family],
        "optimal": best["optimal"],
        "family": family,
        "strategy": best["strategy"],
        "naive": document["naive"],
        "records": None if records is None else len(records),
        "unit": "texels" if texels else "bytes",
    }
    return figures, OK, ""


def _shrink(document: Any) -> tuple[dict[str, Figure], str, str]:
    best = document["best"]
    before = next((c["memory"] for c in document["front"] if not c["steps"]), None)
    names = ("memory", "arena", "tail", "macs", "latency", "operators", "outputs", "runtime", "steps")
    return {"before": before, **{name: best[name] for name in names}}, OK, ""


def _verify(document: Any) -> tuple[dict[str, Figure], str, str]:
    plans, violations = document["plans"], document["violations"]
    figures: dict[str, Figure] = {
        "plans": len(plans),
        "arena": plans[0]["size"] if plans else None,
        "unit": plans[0]["unit"] if plans else None,
        "violations": len(violations),
        "run_by": ", ".join(run["executor"] for run in document["runs"] if run["report"]),
    }
    if not violations:
        return figures, OK, ""
    more = f", and {len(violations) - 1} more" if len(violations) > 1 else ""
    return figures, violations[0]["cause"], f"{violations[0]['message']}{more}"


def _check(document: Any) -> tuple[dict[str, Figure], str, str]:
    wrong = [model for model in document["models"] if model["status"] != OK]
    figures: dict[str, Figure] = {"models": len(document["models"]), "failing": len(wrong)}
    if document["right"]:
        return figures, OK, ""
    more = f", and {len(wrong) - 1} more" if len(wrong) > 1 else ""
    return figures, wrong[0]["status"], f"{wrong[0]['name']}: {wrong[0]['text']}{more}"


def _measure(document: Any) -> tuple[dict[str, Figure], str, str]:
    rows = [row for row in document if row.get("number", 1) == 1]
    figures = {f"{row['configuration']}_{name}": row[name] for row in rows for name in _MEASURED if name in row}
    if rows and all(row["unavailable"] for row in rows):
        return figures, "unavailable", rows[0]["unavailable"]
    return figures, OK, ""


def _trace(document: Any) -> tuple[dict[str, Figure], str, str]:
    names = ("requests", "requested_peak", "reserved_peak", "planned", "strategy", "arena", "lower_bound", "optimal")
    return {name: document[name] for name in (*names, "outside")}, OK, ""


_FIGURES: Final[Mapping[str, Callable[[Any], tuple[dict[str, Figure], str, str]]]] = {
    "plan": _plan,
    "shrink": _shrink,
    "verify": _verify,
    "check": _check,
    "measure": _measure,
    "trace": _trace,
}
