"""The picture of fragmentation has the heights and widths of what it shows."""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

import numpy as np
import pytest

from edgemem.report.memory_svg import memory_svg
from edgemem.trace import Trace
from edgemem.trace.caching import simulate

if TYPE_CHECKING:
    from edgemem.trace.caching import Simulation

MIB = 1 << 20
SVG = "{http://www.w3.org/2000/svg}"


def _simulation() -> Simulation:
    """Requests of 12 MiB and 4 x 5 MiB, of which every second is freed."""
    sizes = [12 * MIB, *[5 * MIB] * 4]
    return simulate(Trace.from_stream([*sizes, -2, -4]))


def _heights(path: str) -> list[float]:
    """Of the points of a path, in shares of the plot, without its corners on the ground."""
    points = [point.split(",") for point in path.replace("M", "").replace("L", "").replace("Z", "").split()]
    return [(384 - float(y)) / 320 for _, y in points[1:-2]]


def test_the_lines_are_the_bytes_of_each_event() -> None:
    simulation = _simulation()
    held = np.full(7, 64 * MIB, np.int64)
    root = ET.fromstring(memory_svg(simulation, title="<run>", measured=held, planned=32 * MIB))
    reserved, requested = root.findall(f"{SVG}path")
    assert _heights(reserved.attrib["d"]) == [1.0] * 7
    expected = [12, 17, 22, 27, 32, 27, 22]
    assert _heights(requested.attrib["d"]) == pytest.approx([m / 64 for m in expected], abs=1e-3)
    (planned,) = root.findall(f"{SVG}line")
    assert (384 - float(planned.attrib["y1"])) / 320 == pytest.approx(0.5)
    (line,) = root.findall(f"{SVG}polyline")
    assert len(line.attrib["points"].split()) == 7
    texts = [element.text for element in root.iter(f"{SVG}text")]
    assert texts[0] == "<run>"
    assert {"requested 32.00 MiB", "reserved 64.00 MiB", "planned 32.00 MiB"} <= set(texts)


def test_the_blocks_are_those_of_the_moment_with_the_most_reserved() -> None:
    simulation = _simulation()
    root = ET.fromstring(memory_svg(simulation))
    titled = {
        title.text: float(rect.attrib["width"])
        for rect in root.iter(f"{SVG}rect")
        if (title := rect.find(f"{SVG}title")) is not None
    }
    blocks = simulation.blocks()
    assert len([r for r in root.iter(f"{SVG}rect") if r.find(f"{SVG}title") is not None]) == len(blocks.size)
    assert titled[f"{12 * MIB:,} bytes in a block of {12 * MIB:,} bytes"] == pytest.approx(900 * 12 / 20)
    assert titled[f"{5 * MIB:,} bytes in a block of {5 * MIB:,} bytes"] == pytest.approx(900 * 5 / 20)


def test_long_traces_keep_their_peaks() -> None:
    stream = []
    for k in range(20_000):
        stream += [50 * MIB if k == 7_777 else MIB, -k - 1]
    text = memory_svg(simulate(Trace.from_stream(stream)))
    _, requested = ET.fromstring(text).findall(f"{SVG}path")
    heights = _heights(requested.attrib["d"])
    assert len(heights) <= 900
    assert max(heights) == pytest.approx(50 / 52, abs=0.02)
    assert len(text) < 1 << 20


def test_nothing_at_all_is_a_picture() -> None:
    root = ET.fromstring(memory_svg(simulate(Trace.from_stream([])), planned=0, title="\x1bnothing"))
    assert next(root.iter(f"{SVG}text")).text == "?nothing"
