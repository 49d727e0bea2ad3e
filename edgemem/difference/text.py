"""A difference as lines for people, as Markdown for a pull request, and as data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from edgemem.report.markdown import escaped, table
from edgemem.report.sizes import size_text

if TYPE_CHECKING:
    from edgemem.difference.comparison import Difference, Figure
    from edgemem.difference.tensors import TensorChange

__all__ = ["change_text", "difference_data", "difference_markdown", "figure_text", "headline", "peak_line"]

_VERBS: Final = {
    "appeared": "is new",
    "vanished": "is gone",
    "grew": "grew",
    "shrank": "shrank",
    "longer": "lives longer",
    "shorter": "lives shorter",
}


def headline(difference: Difference) -> str:
    """`arena 136.00 KiB -> 154.00 KiB (+18,432 bytes, +13.2 %)`."""
    arena, unit = difference.arena, difference.after.unit
    sizes = [size_text(size, texels=unit == "texels") for size in (arena.before, arena.after)]
    if arena.before == arena.after:
        return f"arena {sizes[1]}, the same as before"
    return f"arena {sizes[0]} -> {sizes[1]} ({figure_text(arena, unit)})"


def figure_text(figure: Figure, unit: str = "") -> str:
    """`+18,432 bytes, +13.2 %`; "" where nothing changed."""
    if figure.before == figure.after:
        return ""
    change = f"{figure.after - figure.before:+,}{unit and ' ' + unit}"
    return f"{change}, {figure.growth:+.1%}".replace("%", " %") if figure.before else change


def peak_line(difference: Difference) -> str:
    """Where the most is alive, and where it was."""
    before, after = difference.before, difference.after
    now, was = after.label(after.peak_op), before.label(before.peak_op)
    sizes = f"{after.peak:,} {after.unit} alive, {before.peak:,} before"
    return f"peak at {now}: {sizes}" if now == was else f"peak at {now} instead of {was}: {sizes}"


def change_text(change: TensorChange) -> str:
    """`add_3 lives longer (16,384): Concat now reads it`."""
    sizes = f"{change.before:,} -> {change.after:,}" if change.before and change.after else ""
    size = sizes if change.before != change.after and sizes else f"{change.after or change.before:,}"
    return f"{change.name} {_VERBS[change.kind]} ({size}): {change.reason}"


def difference_data(difference: Difference) -> dict[str, Any]:
    """JSON-ready: docs/json.md describes it."""
    before, after = difference.before, difference.after
    return {
        "before": before.name,
        "after": after.name,
        "unit": after.unit,
        "figures": {f.name.replace(" ", "_"): [f.before, f.after] for f in difference.figures},
        "growth": difference.arena.growth if difference.arena.before else None,
        "peak": {
            side: {"op": memory.peak_op, "label": memory.label(memory.peak_op), "size": memory.peak}
            for side, memory in (("before", before), ("after", after))
        },
        "edits": [{"kind": e.kind, "text": e.text, "operators": list(e.operators)} for e in difference.edits],
        "tensors": [
            {
                "kind": c.kind,
                "name": c.name,
                "before": c.before,
                "after": c.after,
                "reason": c.reason,
                "at_peak": c.at_peak,
            }
            for c in difference.tensors
        ],
    }


def difference_markdown(difference: Difference, *, top: int = 10) -> str:
    """A section for a pull request; `top` edits and tensors are listed."""
    figures = [(f.name, f"{f.before:,}", f"{f.after:,}", figure_text(f) or "same") for f in difference.figures]
    lines = [
        f"**{escaped(headline(difference))}**",
        "",
        *table(("", difference.before.name, difference.after.name, "change"), figures),
        "",
        escaped(peak_line(difference)),
    ]
    for title, texts in (
        ("Changed in the model", [edit.text for edit in difference.edits]),
        ("Tensors", [change_text(change) for change in difference.tensors]),
    ):
        if texts:
            more = len(texts) - top
            lines += ["", f"{title}:", "", *(f"- {escaped(text)}" for text in texts[:top])]
            lines += [f"- and {more:,} more"] if more > 0 else []
    return "\n".join(lines) + "\n"
