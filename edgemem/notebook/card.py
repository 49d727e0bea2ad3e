"""A heading, figures and a picture, as HTML for notebooks: no script, no address, all names as text.

Colours are the notebook's own, so that dark themes stay dark.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["html_card", "html_table", "svg_map"]

_CELL: Final = "padding:1px 14px 1px 0;text-align:"
_TABLE: Final = '<table style="font-size:inherit">'
_WIDTH, _HEIGHT = 640, 180
_MOST_RECORDS: Final = 3000  # in a picture
_COLOURS: Final = ("#5b86d6", "#7ea3e3", "#9dbaec")


def html_card(title: str, facts: Iterable[tuple[str, str]], *parts: str) -> str:
    """A title, names with their values below it, and more HTML that the caller made of escaped texts."""
    rows = "".join(
        f'<tr><td style="{_CELL}left;opacity:.65">{_text(name)}</td><td style="{_CELL}left">{_text(value)}</td></tr>'
        for name, value in facts
    )
    head = f'<div style="font-weight:600;margin-bottom:4px">{_text(title)}</div>'
    table = f"{_TABLE}{rows}</table>"
    return f'<div style="font-family:sans-serif;font-size:13px">{head}{table}{"".join(parts)}</div>'


def html_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; the first column stands on the left, the others on the right."""
    sides = ["left", *["right"] * (len(columns) - 1)]

    def line(cells: Sequence[str], tag: str) -> str:
        made = (f'<{tag} style="{_CELL}{side}">{_text(c)}</{tag}>' for side, c in zip(sides, cells, strict=True))
        return f"<tr>{''.join(made)}</tr>"

    return f"{_TABLE}{line(columns, 'th')}{''.join(line(row, 'td') for row in rows)}</table>"


def svg_map(rows: Sequence[tuple[str, int, int, int, int]], steps: int, height: int, bound: int) -> str:
    """Rectangles in time and memory, and the bound as a dashed line; "" for more than can be told apart.

    Args:
        rows: name, first and last operator (inclusive), offset and size in bytes.
        steps: operators.
        height: bytes of the arena.
        bound: bytes.
    """
    if not rows or len(rows) > _MOST_RECORDS or not steps or not height:
        return ""
    across, up = _WIDTH / steps, _HEIGHT / height
    shapes = [
        f'<rect x="{first * across:.1f}" y="{_HEIGHT - (offset + size) * up:.1f}" '
        f'width="{(last - first + 1) * across:.1f}" height="{size * up:.1f}" fill="{_COLOURS[k % len(_COLOURS)]}">'
        f"<title>{_text(f'{name}: {size:,} bytes at {offset:,}, operators {first} to {last}')}</title></rect>"
        for k, (name, first, last, offset, size) in enumerate(rows)
        if size
    ]
    level = _HEIGHT - bound * up
    line = f'<line x1="0" x2="{_WIDTH}" y1="{level:.1f}" y2="{level:.1f}" stroke="crimson" stroke-dasharray="5 4"/>'
    size = f'width="{_WIDTH}" height="{_HEIGHT}" viewBox="0 0 {_WIDTH} {_HEIGHT}"'
    return f'<svg {size} role="img" aria-label="tensors in time and memory">{"".join(shapes)}{line}</svg>'


def _text(text: str) -> str:
    from html import escape  # for notebooks alone: its table of entities takes 0.5 MiB

    return escape("".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text))
