"""What memory costs in operators: the points of a curve as plain data, and as a picture."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from math import log2
from typing import TYPE_CHECKING, Any, Final

from edgemem.report.picture import labelled_level, picture, point, xml_text

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["CurvePoint", "curve_data", "curve_svg"]

_WIDTH, _HEIGHT = 760, 380  # of the plot, in SVG units
_LEFT, _TOP, _RIGHT, _BOTTOM = 100, 44, 30, 56  # margins
_HEAD, _TAIL = "#4c78a8", "#f58518"
_TICKS: Final = 4


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """A way to run a model, and what it takes; sizes in bytes.

    Attributes:
        stages: FIRST:LAST:STRIPES, separated by commas; "" for the model as it is.
        operators: of the model.
        file: size of the file, without the plan.
        head: planned bytes of the head of TensorFlow Lite Micro's arena.
        tail: bytes of its tail: predicted, or measured.
        macs_ratio: multiply-accumulate operations / those of the model as it is.
        latency_ratio: time of a run / that of the model as it is in TensorFlow Lite Micro; None if not measured.
        is_measured: head and tail are those of the installed TensorFlow Lite Micro.
        exact: the outputs are those of the model as it is, bit for bit; None if not measured.
    """

    stages: str
    operators: int
    file: int
    head: int
    tail: int
    macs_ratio: float = 1.0
    latency_ratio: float | None = None
    is_measured: bool = False
    exact: bool | None = None

    @property
    def arena(self) -> int:
        """Head and tail."""
        return self.head + self.tail


def curve_data(points: Sequence[CurvePoint]) -> list[dict[str, Any]]:
    """The points as plain data, with what they take beside the first one."""
    first = points[0]
    return [
        {
            **asdict(point),
            "arena": point.arena,
            "extra_operators": point.operators - first.operators,
            "file_ratio": point.file / first.file,
            "arena_ratio": point.arena / first.arena,
        }
        for point in points
    ]


def curve_svg(points: Sequence[CurvePoint], title: str) -> str:
    """A picture: operators to the right on a logarithmic scale, bytes upwards; the head below, the tail on top of it.

    Args:
        points: one or more, with ascending operators.
        title: the heading.
    """
    low, high = log2(points[0].operators), log2(max(points[-1].operators, points[0].operators + 1))
    most = max(point.arena for point in points)

    def x(operators: int) -> float:
        return _LEFT + (log2(operators) - low) / (high - low) * _WIDTH

    def y(size: float) -> float:
        return _TOP + _HEIGHT * (1 - size / most)

    heads = [(x(p.operators), y(p.head)) for p in points]
    arenas = [(x(p.operators), y(p.arena)) for p in points]
    bottom = [(heads[-1][0], y(0)), (heads[0][0], y(0))]
    shapes = [_area([*heads, *bottom], _HEAD), _area([*arenas, *reversed(heads)], _TAIL)]
    for tick in range(_TICKS + 1):
        size = most * tick // _TICKS
        shapes.append(labelled_level(_LEFT, _LEFT + _WIDTH, y(size), f"{size:,}"))
    for made, (across, up) in zip(points, arenas, strict=True):
        told = f"{made.stages or 'as it is'}: head {made.head:,} + tail {made.tail:,} = {made.arena:,} bytes, "
        shapes.append(point(across, up, f"{told}{made.operators:,} operators"))
    labelled = {0: points[0], len(points) - 1: points[-1]}
    below = _TOP + _HEIGHT + 18
    shapes += [
        f'<text x="{x(p.operators):.1f}" y="{below}" text-anchor="middle">{p.operators:,}</text>'
        for p in labelled.values()
    ]
    height = _TOP + _HEIGHT + _BOTTOM
    parts = f'<tspan fill="{_HEAD}">head</tspan> and <tspan fill="{_TAIL}">tail</tspan>'
    shapes += [
        f'<text x="{_LEFT}" y="26">{xml_text(title)}</text>',
        f'<text x="{_LEFT}" y="{height - 12}">operators; {parts} of the arena in bytes</text>',
    ]
    return picture(_LEFT + _WIDTH + _RIGHT, height, shapes)


def _area(corners: Sequence[tuple[float, float]], colour: str) -> str:
    path = " ".join(f"{across:.1f},{up:.1f}" for across, up in corners)
    return f'<polygon points="{path}" fill="{colour}" fill-opacity="0.35" stroke="{colour}"/>'
