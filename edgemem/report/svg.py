"""A picture of the best offset plan: operators to the right, the arena's bytes upwards, a rectangle a record."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgemem.report.offsets import best_offsets
from edgemem.report.picture import dashed_level, picture, xml_text

if TYPE_CHECKING:
    from edgemem.plans import PlanSet

__all__ = ["as_svg"]

_WIDTH, _HEIGHT = 900, 420  # of the plot, in SVG units
_LEFT, _TOP, _RIGHT, _BOTTOM = 90, 40, 20, 40  # margins
_COLOURS = ("#4c78a8", "#72b7b2", "#54a24b", "#eeca3b", "#f58518", "#b279a2", "#9d755d", "#79706e")


def as_svg(planset: PlanSet) -> str:
    """The picture as SVG text; a rectangle's title has the tensor's name, offset, size and operators.

    Raises PlanError without an offset plan.
    """
    plan, problem = best_offsets(planset), planset.problem
    steps = int(problem.last_op.max(initial=0)) + 1
    arena = max(plan.size, 1)
    rows = zip(
        problem.names,
        problem.first_op.tolist(),
        problem.last_op.tolist(),
        problem.size.tolist(),
        plan.offsets.tolist(),
        strict=True,
    )
    shapes = []
    for number, (name, first, last, size, offset) in enumerate(rows):
        if not size:
            continue
        x, width = _LEFT + first / steps * _WIDTH, (last - first + 1) / steps * _WIDTH
        height = size / arena * _HEIGHT
        y = _TOP + _HEIGHT - offset / arena * _HEIGHT - height
        title = f"{name}: offset {offset:,}, {size:,} bytes, operators {first} to {last}"
        shapes.append(
            f'<rect x="{x:.2f}" y="{y:.2f}" width="{width:.2f}" height="{height:.2f}" '
            f'fill="{_COLOURS[number % len(_COLOURS)]}" stroke="white" stroke-width="0.5">'
            f"<title>{xml_text(title)}</title></rect>"
        )
    bound = _TOP + _HEIGHT - planset.bounds.offsets / arena * _HEIGHT
    heading = f"{plan.strategy}: arena of {plan.size:,} bytes, lower bound {planset.bounds.offsets:,}"
    return picture(
        _LEFT + _WIDTH + _RIGHT,
        _TOP + _HEIGHT + _BOTTOM,
        [
            f'<text x="{_LEFT}" y="24">{xml_text(heading)}</text>',
            f'<text x="{_LEFT - 8}" y="{_TOP + 12}" text-anchor="end">{plan.size:,}</text>',
            f'<text x="{_LEFT - 8}" y="{_TOP + _HEIGHT}" text-anchor="end">0</text>',
            f'<text x="{_LEFT}" y="{_TOP + _HEIGHT + 24}">operator 0</text>',
            f'<text x="{_LEFT + _WIDTH}" y="{_TOP + _HEIGHT + 24}" text-anchor="end">operator {steps - 1}</text>',
            *shapes,
            dashed_level(_LEFT, _LEFT + _WIDTH, bound),
        ],
    )
