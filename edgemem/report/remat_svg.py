"""A picture of what a program costs under memory budgets: overhead over budget, a line a policy (Coop, Figure 4)."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["OverheadCurve", "overhead_svg"]

_WIDTH, _HEIGHT = 640, 360  # of the plot, in SVG units
_LEFT, _TOP, _RIGHT, _BOTTOM = 70, 50, 160, 60
_COLOURS: Final = ("#1b7837", "#b03a2e", "#4c78a8", "#f58518", "#b279a2", "#72b7b2", "#9d755d", "#79706e", "#222222")
_TICKS: Final = 5


@dataclass(frozen=True, slots=True)
class OverheadCurve:
    """One policy.

    Attributes:
        name: of the policy.
        points: budget as a part of the peak, and overhead as a part of the program's time, None where the program did
            not run to its end.
        minimum: least budget as a part of the peak, or None if it is not known.
    """

    name: str
    points: tuple[tuple[float, float | None], ...]
    minimum: float | None = None


def overhead_svg(curves: Sequence[OverheadCurve], title: str) -> str:
    """The picture as SVG text; a cross is a budget under which the program did not run to its end."""
    budgets = [budget for curve in curves for budget, _ in curve.points]
    budgets += [curve.minimum for curve in curves if curve.minimum is not None]
    low, high = min(budgets, default=0.0), max(budgets, default=1.0)
    margin = max((high - low) * 0.05, 0.01)
    axes = _Axes(low - margin, high + margin, _rounded_up(_highest(curves)))
    width, height = _LEFT + _WIDTH + _RIGHT, _TOP + _HEIGHT + _BOTTOM
    lines = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
            f'viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12">'
        ),
        f'<rect width="{width}" height="{height}" fill="white"/>',
        f'<text x="{_LEFT}" y="20" font-weight="bold">{_text(title)}</text>',
        f'<text x="{_LEFT}" y="38">overhead, % of the time without a budget</text>',
        *axes.grid(),
    ]
    for number, curve in enumerate(curves):
        lines += _drawn(curve, number, axes)
    middle = _LEFT + _WIDTH // 2
    lines += [
        (
            f'<text x="{middle}" y="{height - 14}" text-anchor="middle">'
            "budget / peak of the program; x: does not run to its end, |: minimum budget</text>"
        ),
        "</svg>",
        "",
    ]
    return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class _Axes:
    low: float
    high: float
    most: float

    def x(self, budget: float) -> float:
        return _LEFT + (budget - self.low) / (self.high - self.low) * _WIDTH

    def y(self, overhead: float) -> float:
        return _TOP + _HEIGHT * (1 - overhead / self.most)

    def grid(self) -> Iterator[str]:
        for tick in range(_TICKS + 1):
            value = self.most * tick / _TICKS
            y = self.y(value)
            yield f'<line x1="{_LEFT}" x2="{_LEFT + _WIDTH}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>'
            yield f'<text x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{value * 100:.4g}</text>'
            budget = self.low + (self.high - self.low) * tick / _TICKS
            yield (f'<text x="{self.x(budget):.1f}" y="{_TOP + _HEIGHT + 18}" text-anchor="middle">{budget:.2f}</text>')


def _drawn(curve: OverheadCurve, number: int, axes: _Axes) -> Iterator[str]:
    """The line of a policy, its points, and its name to the right of the plot."""
    colour = _COLOURS[number % len(_COLOURS)]
    done = [(axes.x(budget), axes.y(overhead)) for budget, overhead in sorted(curve.points) if overhead is not None]
    if len(done) > 1:
        corners = " ".join(f"{x:.1f},{y:.1f}" for x, y in done)
        yield f'<polyline points="{corners}" fill="none" stroke="{colour}" stroke-width="2"/>'
    for budget, overhead in curve.points:
        x = axes.x(budget)
        if overhead is None:
            y = _TOP + 10 + number * 12
            yield (
                f'<path d="M{x - 4:.1f} {y - 4} l8 8 m0 -8 l-8 8" stroke="{colour}" stroke-width="2">'
                f"<title>{_text(curve.name)} at {budget:.3f}: does not run to its end</title></path>"
            )
        else:
            told = f"{curve.name} at {budget:.3f}: {overhead * 100:.2f} %"
            yield (
                f'<circle cx="{x:.1f}" cy="{axes.y(overhead):.1f}" r="3.5" fill="{colour}">'
                f"<title>{_text(told)}</title></circle>"
            )
    if curve.minimum is not None:
        x, base = axes.x(curve.minimum), _TOP + _HEIGHT
        yield (
            f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{base - 12}" y2="{base}" stroke="{colour}" stroke-width="3">'
            f"<title>{_text(curve.name)}: minimum budget {curve.minimum:.3f}</title></line>"
        )
    y = _TOP + 8 + number * 20
    x = _LEFT + _WIDTH + 14
    yield f'<rect x="{x}" y="{y}" width="12" height="12" fill="{colour}"/>'
    yield f'<text x="{x + 18}" y="{y + 11}">{_text(curve.name)}</text>'


def _highest(curves: Sequence[OverheadCurve]) -> float:
    return max((overhead for curve in curves for _, overhead in curve.points if overhead is not None), default=0.0)


def _rounded_up(value: float) -> float:
    """The least of 1, 2, 5, 10, 20, ... per cent that is not below it."""
    step = 0.01
    while True:
        for factor in (1, 2, 5):
            if step * factor >= value:
                return step * factor
        step *= 10


def _text(text: str) -> str:
    """The text as it may stand in XML, which takes no control characters."""
    return escape("".join(c if c.isprintable() else "?" for c in text))
