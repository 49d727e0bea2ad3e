"""What a caching allocator does with memory over time: plain data, and a picture.

Above: bytes reserved and allocated after each event, and on demand what a real allocator held and what a plan takes.
Below: all segments at the moment when the most is reserved, or when memory has run out, one behind the other in lines
of equal length; blocks in use are blue, free ones orange.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from edgemem.report.picture import labelled_level, picture, xml_text
from edgemem.report.sizes import size_text
from edgemem.trace.caching import FREE, UNMAPPED

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from edgemem.trace.caching import CachedBlocks, Simulation

__all__ = ["fragmentation_data", "fragmentation_svg"]

_WIDTH, _HEIGHT = 900, 260  # of the plot, in SVG units
_LEFT, _TOP, _RIGHT, _GAP = 100, 60, 20, 60
_LINES, _LINE_HEIGHT, _LINE_PITCH = 12, 14, 18  # of the map of segments
_RESERVED, _ALLOCATED, _FREE = "#d3dce6", "#4c78a8", "#f58518"
_MEASURED, _PLANNED, _PEAK = "#b03a2e", "#1b7837", "crimson"
_VISIBLE: Final = 0.5  # SVG units
_TICKS: Final = 4


def fragmentation_data(simulation: Simulation) -> dict[str, Any]:
    """Peaks in bytes, shares of them, and what is free at the moment that the picture shows."""
    event = _moment(simulation)
    blocks = simulation.blocks(event)
    free = blocks.state == FREE
    return {
        "events": len(simulation.trace),
        "requested_peak": simulation.requested_peak,
        "allocated_peak": simulation.allocated_peak,
        "reserved_peak": simulation.reserved_peak,
        "efficiency": simulation.efficiency,
        "requested_efficiency": simulation.requested_efficiency,
        "fragmentation": simulation.fragmentation,
        "times_taken": simulation.times_taken,
        "out_of_memory": simulation.out_of_memory,
        "at_peak": {
            "event": event,
            "segments": len(np.unique(blocks.segment[blocks.state != UNMAPPED])),
            "free": int(blocks.size[free].sum()),
            "free_blocks": int(free.sum()),
            "largest_free": blocks.largest_free,
        },
    }


def fragmentation_svg(
    simulation: Simulation,
    title: str,
    *,
    measured: NDArray[np.int64] | None = None,
    planned: int | None = None,
) -> str:
    """The picture as SVG text; titles of blocks have their sizes.

    Args:
        simulation: of the trace.
        title: the heading.
        measured: bytes that the real allocator held after each event, as a line; int64 [events of the trace].
        planned: bytes that a plan takes, as a level line.
    """
    height = _TOP + _HEIGHT + _GAP + _LINES * _LINE_PITCH + 30
    below = _TOP + _HEIGHT + _GAP
    events = max(len(simulation.trace), 1)
    moment = _moment(simulation)
    peak = moment or 0
    across = _LEFT + (peak + 0.5) / events * _WIDTH
    told = title
    if simulation.out_of_memory is not None:
        told += f": out of memory at event {simulation.out_of_memory:,}"
    shapes = [
        f'<text x="{_LEFT}" y="20" font-weight="bold">{xml_text(told)}</text>',
        *_legend(simulation, measured, planned),
        *_over_time(simulation, measured, planned, events),
        (
            f'<line x1="{across:.1f}" x2="{across:.1f}" y1="{_TOP}" y2="{_TOP + _HEIGHT}" stroke="{_PEAK}" '
            'stroke-dasharray="6 4"/>'
        ),
        f'<text x="{_LEFT}" y="{_TOP + _HEIGHT + 18}">event 0</text>',
        (
            f'<text x="{_LEFT + _WIDTH}" y="{_TOP + _HEIGHT + 18}" text-anchor="end">'
            f"event {len(simulation.trace):,}</text>"
        ),
        (
            f'<text x="{_LEFT}" y="{below - 10}">segments after event {peak:,}: '
            f'<tspan fill="{_ALLOCATED}">in use</tspan>, <tspan fill="{_FREE}">free</tspan></text>'
        ),
        *_segments(simulation.blocks(moment), below),
        (
            f'<text x="{_LEFT}" y="{height - 10}">memory efficiency {simulation.efficiency:.1%}: '
            "most bytes allocated / most bytes reserved</text>"
        ),
    ]
    return picture(_LEFT + _WIDTH + _RIGHT, height, shapes)


def _moment(simulation: Simulation) -> int | None:
    """The event that found no memory, else the one at which the most is reserved."""
    return simulation.peak_event if simulation.out_of_memory is None else simulation.out_of_memory


def _legend(simulation: Simulation, measured: NDArray[np.int64] | None, planned: int | None) -> Iterator[str]:
    entries = [
        (_ALLOCATED, f"allocated {size_text(simulation.allocated_peak)}"),
        (_RESERVED, f"reserved {size_text(simulation.reserved_peak)}"),
    ]
    if measured is not None:
        entries.append((_MEASURED, f"measured {size_text(int(measured.max(initial=0)))}"))
    if planned is not None:
        entries.append((_PLANNED, f"planned {size_text(planned)}"))
    for place, (colour, text) in enumerate(entries):
        x = _LEFT + place * _WIDTH // 4
        yield f'<rect x="{x}" y="32" width="12" height="12" fill="{colour}"/><text x="{x + 18}" y="43">{text}</text>'


def _over_time(
    simulation: Simulation, measured: NDArray[np.int64] | None, planned: int | None, events: int
) -> Iterator[str]:
    highest = 0 if measured is None else int(measured.max(initial=0))
    most = max(simulation.reserved_peak, planned or 0, highest, 1)
    for tick in range(_TICKS + 1):
        y = _TOP + _HEIGHT * (1 - tick / _TICKS)
        yield labelled_level(_LEFT, _LEFT + _WIDTH, y, size_text(most * tick // _TICKS), "#eee")
    for values, colour in ((simulation.reserved, _RESERVED), (simulation.allocated, _ALLOCATED)):
        points = _points(values, events, most)
        if points:
            end = points[-1].partition(",")[0]
            base = _TOP + _HEIGHT
            yield f'<polygon points="{_LEFT},{base} {" ".join(points)} {end},{base}" fill="{colour}"/>'
    if measured is not None:
        yield f'<polyline points="{" ".join(_points(measured, events, most))}" fill="none" stroke="{_MEASURED}"/>'
    if planned is not None:
        y = _TOP + _HEIGHT * (1 - planned / most)
        yield (
            f'<line x1="{_LEFT}" x2="{_LEFT + _WIDTH}" y1="{y:.1f}" y2="{y:.1f}" stroke="{_PLANNED}" '
            'stroke-width="2" stroke-dasharray="8 4"/>'
        )


def _points(values: NDArray[np.int64], events: int, most: int) -> list[str]:
    """Corners of a curve of steps; `most` bytes are the height, `events` the width."""
    steps = _largest_of_each(values, _WIDTH)
    step = len(values) / events * _WIDTH / max(len(steps), 1)
    corners = []
    for index, value in enumerate(steps.tolist()):
        y = _TOP + _HEIGHT * (1 - value / most)
        corners += [f"{_LEFT + index * step:.1f},{y:.1f}", f"{_LEFT + (index + 1) * step:.1f},{y:.1f}"]
    return corners


def _largest_of_each(values: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """At most `count` values: the largest one of each part."""
    if len(values) <= count:
        return values
    begins = np.arange(count) * len(values) // count
    return np.maximum.reduceat(values, begins)


def _segments(blocks: CachedBlocks, top: int) -> Iterator[str]:
    """The blocks that have memory, side by side; a block at the end of a line goes on in the next one."""
    place = 0.0
    before = -1
    for segment, length, is_used, told in _blocks(blocks):
        for line, begin, part in _parts(place, place + length):
            yield (
                f'<rect x="{_LEFT + begin:.2f}" y="{top + line * _LINE_PITCH}" width="{part:.2f}" '
                f'height="{_LINE_HEIGHT}" fill="{_ALLOCATED if is_used else _FREE}"><title>{told}</title></rect>'
            )
        if segment != before:
            line, x = min(int(place // _WIDTH), _LINES - 1), _LEFT + place % _WIDTH
            y = top + line * _LINE_PITCH
            yield (
                f'<line x1="{x:.2f}" x2="{x:.2f}" y1="{y - 1}" y2="{y + _LINE_HEIGHT + 1}" '
                'stroke="#222" stroke-width="0.6"/>'
            )
        place, before = place + length, segment


def _blocks(blocks: CachedBlocks) -> Iterator[tuple[int, float, bool, str]]:
    """Segment, length in the map, whether in use, and a title; blocks in use that are too narrow to see are joined."""
    kept = blocks.state != UNMAPPED
    scale = _LINES * _WIDTH / max(int(blocks.size[kept].sum()), 1)
    narrow: list[int] = []  # sizes
    segment = -1
    rows = zip(*(c[kept].tolist() for c in (blocks.segment, blocks.size, blocks.requested, blocks.state)), strict=True)
    for own, size, requested, state in rows:
        if narrow and (own != segment or state == FREE or size * scale >= _VISIBLE):
            yield segment, sum(narrow) * scale, True, f"{len(narrow)} blocks of {sum(narrow):,} bytes in all"
            narrow = []
        segment = own
        if state == FREE:
            yield own, size * scale, False, f"{size:,} bytes free"
        elif size * scale >= _VISIBLE:
            yield own, size * scale, True, f"block of {size:,} bytes, {requested:,} asked for"
        else:
            narrow.append(size)
    if narrow:
        yield segment, sum(narrow) * scale, True, f"{len(narrow)} blocks of {sum(narrow):,} bytes in all"


def _parts(begin: float, end: float) -> Iterator[tuple[int, float, float]]:
    """Line, position in it and length of each part of a stretch that goes over several lines."""
    line = int(begin // _WIDTH)
    while begin < end and line < _LINES:
        stop = min(end, (line + 1) * _WIDTH)
        if stop > begin:
            yield line, begin - line * _WIDTH, stop - begin
        begin, line = max(begin, stop), line + 1
