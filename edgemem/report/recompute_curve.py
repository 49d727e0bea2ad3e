"""What memory costs in arithmetic: the points of a curve as plain data, and as a picture."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from edgemem.report.picture import dashed_level, labelled_level, picture, point, xml_text

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["RecomputeCurve", "RecomputePoint", "recompute_curve_data", "recompute_curve_svg"]

_WIDTH, _HEIGHT = 760, 380  # of the plot, in SVG units
_LEFT, _TOP, _RIGHT, _BOTTOM = 100, 44, 30, 56  # margins
_TICKS: Final = 4


@dataclass(frozen=True, slots=True)
class RecomputePoint:
    """A way to run a model.

    Attributes:
        peak: the lower bound of its arena, in bytes.
        macs: multiply-accumulate operations of a run.
        macs_ratio: those / those of the model without recomputation.
        operators: that a run takes.
    """

    peak: int
    macs: int
    macs_ratio: float
    operators: int


@dataclass(frozen=True, slots=True)
class RecomputeCurve:
    """Ways to run a model.

    Attributes:
        points: from the model's own arithmetic to the lowest peak.
        lower_bound: bytes; no order has a lower peak, however often operators run.
        given_peak: bytes, of the order in the file.
        widest: the operator that alone needs most; "" if none does.
    """

    points: tuple[RecomputePoint, ...]
    lower_bound: int
    given_peak: int
    widest: str = ""


def recompute_curve_data(curve: RecomputeCurve) -> dict[str, Any]:
    """The curve as plain data."""
    points = [{**asdict(p), "peak_ratio": p.peak / curve.points[0].peak if p.peak else 1.0} for p in curve.points]
    return {"points": points, "lower_bound": curve.lower_bound, "given_peak": curve.given_peak, "widest": curve.widest}


def recompute_curve_svg(curve: RecomputeCurve, title: str) -> str:
    """A picture: arithmetic to the right, bytes upwards, and the lower bound as a dashed line.

    Args:
        curve: with one point or more.
        title: the heading.
    """
    points = curve.points
    most = max(points[0].peak, curve.lower_bound, 1)
    high = max(points[-1].macs_ratio, 1.01)

    def x(ratio: float) -> float:
        return _LEFT + (ratio - 1) / (high - 1) * _WIDTH

    def y(size: float) -> float:
        return _TOP + _HEIGHT * (1 - size / most)

    shapes = []
    for tick in range(_TICKS + 1):
        size, ratio = most * tick // _TICKS, 1 + (high - 1) * tick / _TICKS
        shapes += [
            labelled_level(_LEFT, _LEFT + _WIDTH, y(size), f"{size:,}"),
            f'<text x="{x(ratio):.1f}" y="{_TOP + _HEIGHT + 18}" text-anchor="middle">{ratio:.3f}x</text>',
        ]
    shapes.append(f'<polyline points="{_steps([(x(p.macs_ratio), y(p.peak)) for p in points])}" {_LINE}/>')
    for p in points:
        told = f"{p.peak:,} bytes, {p.macs_ratio:.3f}x multiply-accumulates, {p.operators:,} operators"
        shapes.append(point(x(p.macs_ratio), y(p.peak), told))
    height = _TOP + _HEIGHT + _BOTTOM
    shapes += [
        dashed_level(_LEFT, _LEFT + _WIDTH, y(curve.lower_bound), f"lower bound: {curve.lower_bound:,} bytes"),
        f'<text x="{_LEFT}" y="26">{xml_text(title)}</text>',
        f'<text x="{_LEFT}" y="{height - 12}">multiply-accumulates; peak in bytes, dashed: lower bound</text>',
    ]
    return picture(_LEFT + _WIDTH + _RIGHT, height, shapes)


_LINE: Final = 'fill="none" stroke="#4c78a8" stroke-width="2"'


def _steps(corners: Sequence[tuple[float, float]]) -> str:
    """A staircase: between two points the one with less arithmetic is the best."""
    path = [corners[0]]
    for (_, before), (across, up) in pairwise(corners):
        path += [(across, before), (across, up)]
    return " ".join(f"{across:.1f},{up:.1f}" for across, up in path)
