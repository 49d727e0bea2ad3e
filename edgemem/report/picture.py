"""What all pictures are made of: the frame of an SVG file, lines across a plot, points, and texts."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["dashed_level", "labelled_level", "picture", "point", "xml_text"]


def picture(width: int, height: int, shapes: Iterable[str]) -> str:
    """An SVG file of a size in its units, with shapes on white."""
    lines = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
            f'viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12">'
        ),
        f'<rect width="{width}" height="{height}" fill="white"/>',
        *shapes,
        "</svg>",
        "",
    ]
    return "\n".join(lines)


def labelled_level(left: int, right: int, y: float, label: str, colour: str = "#ddd") -> str:
    """A thin line across a plot, with a label to its left."""
    return (
        f'<line x1="{left}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}" stroke="{colour}"/>'
        f'<text x="{left - 8}" y="{y + 4:.1f}" text-anchor="end">{label}</text>'
    )


def dashed_level(left: int, right: int, y: float, title: str = "") -> str:
    """A dashed line across a plot: a bound."""
    told = f"<title>{xml_text(title)}</title>" if title else ""
    ends = f'x1="{left}" x2="{right}" y1="{y:.2f}" y2="{y:.2f}"'
    return f'<line {ends} stroke="crimson" stroke-dasharray="6 4">{told}</line>'


def point(x: float, y: float, title: str) -> str:
    """A dot, whose title says what it stands for."""
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="#222"><title>{xml_text(title)}</title></circle>'


def xml_text(text: str) -> str:
    """The text as it may stand in XML, which takes no control characters."""
    return escape("".join(c if c.isprintable() else "?" for c in text))
