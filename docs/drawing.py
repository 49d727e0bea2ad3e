"""Shapes of an SVG picture, for the scripts that draw the pictures of these pages."""

from __future__ import annotations

from dataclasses import dataclass, field
from html import escape
from pathlib import Path

__all__ = ["EDGE", "Drawing"]

EDGE, TEXT = "#555", "#222"


@dataclass
class Drawing:
    """Shapes of an SVG picture."""

    width: int
    height: int
    label: str
    parts: list[str] = field(default_factory=list)

    def rect(self, x: float, y: float, width: float, height: float, colour: str, *, opacity: float = 1) -> None:
        """A rectangle with a thin edge."""
        self.parts.append(
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" fill="{colour}" '
            f'fill-opacity="{opacity:g}" stroke="{EDGE}" stroke-width="0.5"/>'
        )

    def line(self, points: list[tuple[float, float]], colour: str = EDGE, *, dash: str = "", width: float = 1) -> None:
        """A line through points."""
        at = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        dashes = f' stroke-dasharray="{dash}"' if dash else ""
        self.parts.append(f'<polyline points="{at}" fill="none" stroke="{colour}" stroke-width="{width:g}"{dashes}/>')

    def text(self, x: float, y: float, text: str, *, anchor: str = "middle", size: int = 12) -> None:
        """A line of text."""
        where = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}"'
        self.parts.append(f'<text {where} fill="{TEXT}">{escape(text)}</text>')

    def svg(self) -> str:
        """The picture's text."""
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {self.height}" '
            f'font-family="sans-serif" role="img" aria-label="{escape(self.label)}">'
            f'<rect width="{self.width}" height="{self.height}" fill="#fff"/>'
        )
        return "\n".join([head, *self.parts, "</svg>\n"])

    def save(self, name: str) -> None:
        """Write it beside this file."""
        Path(__file__).with_name(name).write_text(self.svg(), encoding="utf-8")
