"""A picture of fragmentation: bytes over time, and the blocks of a caching allocator when it holds the most.

Above, events go to the right and bytes upwards: what was asked for lies in front of what the allocator held, so that
what remains visible of the latter is fragments, rounding and cache. Below, each bar is a segment of the simulated
allocator, the largest first, with its blocks in the order of their addresses.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Final

import numpy as np

from edgemem.report.sizes import size_text

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from edgemem.trace.caching import CachedBlocks, Simulation

__all__ = ["memory_svg"]

_LEFT, _WIDTH, _RIGHT = 90, 900, 20  # in SVG units
_TOP, _HEIGHT, _GAP, _BAR, _BOTTOM = 64, 320, 56, 14, 24
_COLUMNS: Final = 900  # points of a line
_MOST_SEGMENTS: Final = 24
_MOST_BLOCKS: Final = 4_000
_REQUESTED, _HELD, _SIMULATED, _PLANNED = "#4c78a8", "#f2b5a7", "#b03a2e", "#1b7837"
_FREE, _UNMAPPED = "#f2b5a7", "#eeeeee"


def memory_svg(
    simulation: Simulation, *, title: str = "", measured: NDArray[np.int64] | None = None, planned: int | None = None
) -> str:
    """The picture as SVG text.

    Args:
        simulation: of the trace.
        title: of the picture.
        measured: bytes that the real allocator held after each event; int64 [events]. None: only the simulated one's.
        planned: bytes that a plan takes.
    """
    held = simulation.reserved if measured is None else measured
    most = max(int(held.max(initial=0)), simulation.reserved_peak, planned or 0, 1)
    bars, bars_height = _bars(simulation.blocks())
    height = _TOP + _HEIGHT + _GAP + bars_height + _BOTTOM
    width = _LEFT + _WIDTH + _RIGHT
    lines = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
            'font-family="sans-serif" font-size="12">'
        ),
        f'<rect width="{width}" height="{height}" fill="white"/>',
        f'<text x="{_LEFT}" y="20" font-weight="bold">{_text(title)}</text>',
        *_legend(simulation, held, planned, is_measured=measured is not None),
        f'<text x="{_LEFT - 8}" y="{_TOP + 12}" text-anchor="end">{size_text(most)}</text>',
        f'<text x="{_LEFT - 8}" y="{_TOP + _HEIGHT}" text-anchor="end">0</text>',
        f'<text x="{_LEFT}" y="{_TOP + _HEIGHT + 18}">event 0</text>',
        f'<text x="{_LEFT + _WIDTH}" y="{_TOP + _HEIGHT + 18}" text-anchor="end">event {len(held):,}</text>',
        f'<path d="{_area(held, len(held), most)}" fill="{_HELD}"/>',
        f'<path d="{_area(simulation.requested, len(held), most)}" fill="{_REQUESTED}"/>',
    ]
    if measured is not None:
        points = _points(simulation.reserved, len(held), most)
        lines.append(f'<polyline points="{points}" fill="none" stroke="{_SIMULATED}" stroke-dasharray="3 3"/>')
    if planned is not None:
        y = _TOP + _HEIGHT - planned / most * _HEIGHT
        lines.append(
            f'<line x1="{_LEFT}" x2="{_LEFT + _WIDTH}" y1="{y:.2f}" y2="{y:.2f}" stroke="{_PLANNED}" '
            'stroke-width="2" stroke-dasharray="8 4"/>'
        )
    return "\n".join([*lines, *bars, "</svg>", ""])


def _legend(simulation: Simulation, held: NDArray[np.int64], planned: int | None, *, is_measured: bool) -> list[str]:
    simulated = f"simulated {size_text(simulation.reserved_peak)}"
    entries = [
        (_REQUESTED, f"requested {size_text(simulation.requested_peak)}"),
        (_HELD, f"reserved {size_text(int(held.max(initial=0)))}" if is_measured else simulated),
    ]
    if is_measured:
        entries.append((_SIMULATED, simulated))
    if planned is not None:
        entries.append((_PLANNED, f"planned {size_text(planned)}"))
    step = _WIDTH // 4
    return [
        f'<rect x="{_LEFT + k * step}" y="34" width="12" height="12" fill="{colour}"/>'
        f'<text x="{_LEFT + k * step + 18}" y="44">{_text(text)}</text>'
        for k, (colour, text) in enumerate(entries)
    ]


def _points(values: NDArray[np.int64], count: int, most: int) -> str:
    """The values as points of a line, of which there are `count`; the largest of those that share a place."""
    if not len(values):
        return ""
    begins = np.unique(np.linspace(0, len(values), min(len(values), _COLUMNS), endpoint=False).astype(np.int64))
    largest = np.maximum.reduceat(values, begins)
    x = _LEFT + begins / count * _WIDTH
    y = _TOP + _HEIGHT - largest / most * _HEIGHT
    return " ".join(f"{a:.2f},{b:.2f}" for a, b in zip(x.tolist(), y.tolist(), strict=True))


def _area(values: NDArray[np.int64], count: int, most: int) -> str:
    points = _points(values, count, most).split()
    if not points:
        return ""
    base, end = _TOP + _HEIGHT, _LEFT + len(values) / count * _WIDTH
    last = points[-1].partition(",")[2]
    return f"M{_LEFT},{base} L{' L'.join(points)} L{end:.2f},{last} L{end:.2f},{base} Z"


def _bars(blocks: CachedBlocks) -> tuple[list[str], int]:
    """The largest segments as bars, and their height together."""
    if not len(blocks.size):
        return [], 0
    addresses, of = np.unique(blocks.segment, return_inverse=True)
    sizes = np.bincount(of, weights=blocks.size).astype(np.int64)
    order = np.argsort(-sizes, kind="stable")[:_MOST_SEGMENTS]
    top = _TOP + _HEIGHT + _GAP
    more = f", the {len(order)} largest" if len(order) < len(addresses) else ""
    lines = [
        (
            f'<text x="{_LEFT}" y="{top - 8}">blocks when the simulated allocator holds the most: '
            f"{len(addresses):,} segments{more}</text>"
        )
    ]
    left = _MOST_BLOCKS
    for row, segment in enumerate(order.tolist()):
        mine = np.flatnonzero(of == segment)
        mine = mine[np.argsort(blocks.address[mine], kind="stable")][:left]
        left -= len(mine)
        y = top + row * (_BAR + 4)
        lines.append(
            f'<text x="{_LEFT - 8}" y="{y + _BAR - 3}" text-anchor="end">{size_text(int(sizes[segment]))}</text>'
        )
        for k in mine.tolist():
            size, offset = int(blocks.size[k]), int(blocks.address[k] - addresses[segment])
            x, w = _LEFT + offset / sizes[order[0]] * _WIDTH, size / sizes[order[0]] * _WIDTH
            colour, what = _block(int(blocks.state[k]), int(blocks.requested[k]))
            lines.append(
                f'<rect x="{x:.2f}" y="{y}" width="{w:.2f}" height="{_BAR}" fill="{colour}" stroke="white" '
                f'stroke-width="0.4"><title>{_text(f"{what} {size:,} bytes")}</title></rect>'
            )
    return lines, len(order) * (_BAR + 4)


def _block(state: int, requested: int) -> tuple[str, str]:
    """Colour of a block, and what to say of it before its size."""
    names = {0: (_FREE, "free,"), 2: (_UNMAPPED, "without memory,")}
    return names.get(state, (_REQUESTED, f"{requested:,} bytes in a block of"))


def _text(text: str) -> str:
    """The text as it may stand in XML, which takes no control characters."""
    return escape("".join(c if c.isprintable() else "?" for c in text))
