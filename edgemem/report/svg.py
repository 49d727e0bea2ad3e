"""A picture of the best offset plan: operators to the right, the arena's bytes upwards, a rectangle a record."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from edgemem.report.offsets import best_offsets
from edgemem.report.peak import find_peak
from edgemem.report.picture import dashed_level, labelled_level, picture, xml_text
from edgemem.report.sizes import size_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from edgemem.plans import OffsetPlan, PlanSet
    from edgemem.records.problem import Problem

__all__ = ["as_svg"]

_WIDTH, _HEIGHT = 900, 420  # of the plot, in SVG units
_LEFT, _TOP, _RIGHT, _BOTTOM = 90, 66, 20, 44  # margins
_TICKS = 6  # on an axis, about
_LETTER = 6.3  # the width of one, about

# What a record is to the model -> its colour, and the one of every second record.
_COLOURS = {
    "tensor": ("#8fb0e8", "#a9c3ee"),
    "input": ("#93cfa0", "#a8d9b3"),
    "output": ("#f0d27a", "#f3dc96"),
    "variable": ("#c8a6dc", "#d3b8e4"),
    "state": ("#c8a6dc", "#d3b8e4"),
    "scratch": ("#f4b183", "#f7c29e"),
}


def _stacked(plan: OffsetPlan) -> list[int]:
    """The offsets from the start of the first region's arena, where those of others begin at the end of the last."""
    if plan.regions is None:
        return [int(offset) for offset in plan.offsets]
    begins = np.cumsum((0, *plan.region_sizes[:-1]))
    return [int(offset) for offset in plan.offsets + begins[plan.regions]]


def as_svg(planset: PlanSet) -> str:
    """The picture as SVG text; a rectangle's title has the tensor's name, offset, size and operators.

    The arenas of several regions lie one above the other. Raises PlanError without an offset plan.
    """
    plan, problem = best_offsets(planset), planset.problem
    steps = int(problem.last_op.max(initial=0)) + 1
    arena = max(plan.size, 1)
    bound = planset.bounds.offsets
    heading = f"{plan.strategy}: arena of {plan.size:,} bytes, lower bound {bound:,}"
    peak = find_peak(planset)
    column, width = _LEFT + peak.op / steps * _WIDTH, max(_WIDTH / steps, 1)
    below = _TOP + _HEIGHT
    shapes = [
        f'<text x="{_LEFT}" y="24" font-size="14" font-weight="bold">{xml_text(heading)}</text>',
        *_legend([r.kind for r in problem.records], bound),
        *_levels(arena),
        *_operators(steps),
        *_rectangles(problem, _stacked(plan), steps, arena),
        (
            f'<rect x="{column:.2f}" y="{_TOP}" width="{width:.2f}" height="{_HEIGHT}" fill="#e8590c" '
            f'fill-opacity="0.15"><title>{xml_text(f"peak at {peak.label}: {peak.size:,} bytes")}</title></rect>'
        ),
        dashed_level(_LEFT, _LEFT + _WIDTH, below - bound / arena * _HEIGHT, f"lower bound {bound:,}"),
        f'<text x="{_LEFT + _WIDTH / 2}" y="{below + 38}" text-anchor="middle" fill="#555">operator</text>',
    ]
    return picture(_LEFT + _WIDTH + _RIGHT, below + _BOTTOM, shapes)


def _legend(kinds: list[str], bound: int) -> Iterator[str]:
    x = _LEFT
    for kind, (colour, _) in _COLOURS.items():
        if kind in kinds:
            yield f'<rect x="{x}" y="40" width="12" height="12" fill="{colour}"/>'
            yield f'<text x="{x + 17}" y="50">{kind}</text>'
            x += 34 + int(len(kind) * _LETTER)
    yield f'<rect x="{x}" y="40" width="12" height="12" fill="#e8590c" fill-opacity="0.25"/>'
    yield f'<text x="{x + 17}" y="50">peak</text>'
    x += 64
    yield f'<line x1="{x}" x2="{x + 18}" y1="46" y2="46" stroke="crimson" stroke-dasharray="6 4"/>'
    yield f'<text x="{x + 24}" y="50">lower bound {size_text(bound)}</text>'


def _levels(arena: int) -> Iterator[str]:
    """Lines at sizes that people know: powers of two."""
    step = 1
    while arena / step > _TICKS:
        step *= 2
    for size in range(0, arena + 1, step):
        yield labelled_level(_LEFT, _LEFT + _WIDTH, _TOP + _HEIGHT * (1 - size / arena), _short(size))


def _short(size: int) -> str:
    return size_text(size).replace(".00 ", " ")


def _operators(steps: int) -> Iterator[str]:
    step, factors = 1, (2.0, 2.5, 2.0)
    turn = 0
    while steps / step > 2 * _TICKS:
        step = int(step * factors[turn % 3])
        turn += 1
    for op in range(0, steps, step):
        x = _LEFT + (op + 0.5) / steps * _WIDTH
        yield f'<text x="{x:.1f}" y="{_TOP + _HEIGHT + 18}" text-anchor="middle">{op:,}</text>'


def _rectangles(problem: Problem, offsets: list[int], steps: int, arena: int) -> Iterator[str]:
    rows = zip(
        problem.names,
        problem.first_op.tolist(),
        problem.last_op.tolist(),
        problem.size.tolist(),
        (r.kind for r in problem.records),
        offsets,
        strict=True,
    )
    for number, (name, first, last, size, kind, offset) in enumerate(rows):
        if not size:
            continue
        x, width = _LEFT + first / steps * _WIDTH, (last - first + 1) / steps * _WIDTH
        height = size / arena * _HEIGHT
        y = _TOP + _HEIGHT - offset / arena * _HEIGHT - height
        title = f"{name}: offset {offset:,}, {size:,} bytes, operators {first} to {last}"
        yield (
            f'<rect x="{x:.2f}" y="{y:.2f}" width="{width:.2f}" height="{height:.2f}" '
            f'fill="{_COLOURS[kind][number % 2]}" stroke="white" stroke-width="0.5">'
            f"<title>{xml_text(title)}</title></rect>"
        )
        room = int((width - 8) / _LETTER)
        if height >= 14 and room >= 6:
            shown = name if len(name) <= room else f"…{name[1 - room :]}"
            yield f'<text x="{x + 4:.1f}" y="{y + 12:.1f}" font-size="11" fill="#222">{xml_text(shown)}</text>'
