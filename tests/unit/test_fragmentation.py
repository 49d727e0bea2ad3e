"""The picture of a caching allocator's memory, read back as the numbers that it shows."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from dataclasses import replace

import numpy as np
import pytest

from edgemem.report.fragmentation import fragmentation_data, fragmentation_svg
from edgemem.trace import Trace
from edgemem.trace.caching import CachingSettings, simulate
from tests.training_traces.traces import SETUPS, training_trace

MIB = 1 << 20
SVG = "{http://www.w3.org/2000/svg}"
LINES, WIDTH = 12, 900


def _rectangles(svg: str) -> list[ET.Element]:
    """Those of the map of segments: each has a title."""
    return [r for r in ET.fromstring(svg).iter(f"{SVG}rect") if r.find(f"{SVG}title") is not None]


def _length(rectangles: list[ET.Element]) -> float:
    return sum(float(r.attrib["width"]) for r in rectangles)


@pytest.fixture(scope="module")
def small() -> Trace:
    return training_trace(replace(SETUPS["moe"], layers=4, microbatches=2, iterations=2))


@pytest.mark.parametrize("expandable", [False, True])
def test_the_map_shows_all_bytes_at_the_peak(small: Trace, expandable: bool) -> None:
    simulation = simulate(small, CachingSettings(expandable_segments=expandable))
    rectangles = _rectangles(fragmentation_svg(simulation, "moe"))
    assert _length(rectangles) == pytest.approx(LINES * WIDTH, rel=1e-3)
    free = [r for r in rectangles if "free" in (r.findtext(f"{SVG}title") or "")]
    share = fragmentation_data(simulation)["at_peak"]["free"] / simulation.reserved_peak
    assert _length(free) / (LINES * WIDTH) == pytest.approx(share, abs=1e-3)
    assert len({r.attrib["fill"] for r in free}) == 1
    assert not {r.attrib["fill"] for r in free} & {r.attrib["fill"] for r in rectangles if r not in free}


def test_the_curves_reach_their_peaks(small: Trace) -> None:
    simulation = simulate(small)
    reserved, allocated = ET.fromstring(fragmentation_svg(simulation, "moe")).iter(f"{SVG}polygon")
    heights = []
    for polygon in (reserved, allocated):
        values = [float(pair.split(",")[1]) for pair in polygon.attrib["points"].split()]
        heights.append(max(values) - min(values))
    assert heights[1] / heights[0] == pytest.approx(simulation.efficiency, abs=1e-3)


def test_a_measurement_and_a_plan_have_lines_of_their_own(small: Trace) -> None:
    simulation = simulate(small)
    planned = simulation.reserved_peak * 2  # above all else, so that it is the top of the plot
    root = ET.fromstring(fragmentation_svg(simulation, "moe", measured=simulation.reserved, planned=planned))
    (line,) = root.iter(f"{SVG}polyline")
    polygon = next(root.iter(f"{SVG}polygon"))
    assert line.attrib["points"] in polygon.attrib["points"]
    levels = [x for x in root.iter(f"{SVG}line") if x.attrib.get("stroke-width") == "2"]
    top = min(float(x.attrib["y1"]) for x in root.iter(f"{SVG}line"))
    assert [float(x.attrib["y1"]) for x in levels] == [top]
    told = "".join(root.itertext())
    assert "measured" in told
    assert "planned" in told


def test_data_are_plain_and_add_up(small: Trace) -> None:
    simulation = simulate(small)
    data = json.loads(json.dumps(fragmentation_data(simulation)))
    assert data["fragmentation"] == data["reserved_peak"] - data["allocated_peak"]
    assert data["efficiency"] == data["allocated_peak"] / data["reserved_peak"]
    assert data["at_peak"]["largest_free"] <= data["at_peak"]["free"]
    assert data["out_of_memory"] is None


def test_out_of_memory_and_odd_titles_are_shown() -> None:
    trace = Trace.from_stream([12 * MIB, 30 * MIB, 1 << 41])
    simulation = simulate(trace, CachingSettings(expandable_segments=True))
    svg = fragmentation_svg(simulation, "<a & \x00b>")
    assert "out of memory at event 2" in "".join(ET.fromstring(svg).itertext())
    assert "&lt;a &amp; ?b&gt;" in svg
    data = fragmentation_data(simulation)
    assert data["out_of_memory"] == data["at_peak"]["event"] == 2
    shown = {r.findtext(f"{SVG}title") for r in _rectangles(svg)}
    assert shown >= {f"block of {n * MIB:,} bytes, {n * MIB:,} asked for" for n in (12, 30)}


def test_nothing_reserved_is_drawn_too() -> None:
    simulation = simulate(Trace.from_stream(np.zeros(0, np.int64)))
    assert not _rectangles(fragmentation_svg(simulation, "empty"))
    assert fragmentation_data(simulation)["efficiency"] == 1.0


def test_the_size_of_the_picture_does_not_grow_with_the_trace() -> None:
    simulation = simulate(Trace.from_stream(np.full(50_000, 512, np.int64)))
    assert len(fragmentation_svg(simulation, "many")) < 200_000
