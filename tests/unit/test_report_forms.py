"""Reports for other tools: read by the tools' own schemas, they say what the plan says."""

from __future__ import annotations

import io
import json
import sys
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

import numpy as np
import pytest
from click.testing import CliRunner

import edgemem
from edgemem.cli.main import main
from edgemem.errors import MissingDependencyError, PlanError
from edgemem.report.markdown_summary import as_markdown
from edgemem.report.model_explorer import as_node_data
from edgemem.report.peak import find_peak
from edgemem.report.perfetto import STEP_NS, as_perfetto
from edgemem.report.planned_memory import planned_memory
from tests.difference_models import Layers
from tests.unit.test_difference import hostile
from tests.unit.test_hostile_names import HOSTILE

if TYPE_CHECKING:
    from pathlib import Path

Slice = tuple[int, int, str, dict[str, Any]]  # begin, end (ns), name, notes


def read_trace(data: bytes) -> tuple[dict[str, list[Slice]], list[tuple[int, int]]]:
    """Slices by track and the counter's values, read by Perfetto's published schema."""
    schema = pytest.importorskip("perfetto.protos.perfetto.trace.perfetto_trace_pb2")
    trace = schema.Trace.FromString(data)
    unknown = pytest.importorskip("google.protobuf.unknown_fields").UnknownFieldSet
    for packet in trace.packet:
        event = packet.track_event
        assert not any(map(len, map(unknown, (packet, packet.track_descriptor, event, *event.debug_annotations))))
    names: dict[int, str] = {}
    open_slices: dict[int, list[Slice]] = {}
    slices: dict[str, list[Slice]] = {}
    counter, before = [], 0
    for packet in trace.packet:
        if packet.HasField("track_descriptor"):
            names[packet.track_descriptor.uuid] = packet.track_descriptor.name
            continue
        event = packet.track_event
        assert packet.timestamp >= before
        before = packet.timestamp
        if event.type == event.TYPE_COUNTER:
            assert names[event.track_uuid] == "bytes alive"
            counter.append((packet.timestamp, event.counter_value))
        elif event.type == event.TYPE_SLICE_BEGIN:
            notes = {n.name: getattr(n, n.WhichOneof("value")) for n in event.debug_annotations}
            open_slices.setdefault(event.track_uuid, []).append((packet.timestamp, -1, event.name, notes))
        else:
            begin, _, name, notes = open_slices[event.track_uuid].pop()
            slices.setdefault(names[event.track_uuid], []).append((begin, packet.timestamp, name, notes))
    assert not any(open_slices.values())
    return slices, counter


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return Layers(skip=(1, 4), extra=(2,)).save(tmp_path / "m.onnx")


def write(model: Path, name: str) -> bytes:
    done = CliRunner().invoke(main, ["report", str(model), "-o", str(model.with_name(name))])
    assert done.exit_code == 0, done.output
    return model.with_name(name).read_bytes()


def test_perfetto_counts_the_same_peak(model: Path) -> None:
    planset = edgemem.plan(model)
    slices, counter = read_trace(write(model, "r.pftrace"))
    operators = slices.pop("operators")
    assert [name for _, _, name, _ in operators] == list(planset.steps)
    assert [(begin, end) for begin, end, _, _ in operators] == [
        (k * STEP_NS, (k + 1) * STEP_NS) for k in range(len(planset.steps))
    ]
    alive = [0] * len(planset.steps)
    for begin, end, _, notes in (row for lane in slices.values() for row in lane):
        for op in range(begin // STEP_NS, end // STEP_NS):
            alive[op] += notes["size"]
    peak = find_peak(planset)
    assert (max(alive), alive.index(max(alive))) == (peak.size, peak.op)
    assert max(value for _, value in counter) == peak.size
    assert counter[-1][1] == 0
    best = planset.best_offsets
    assert best is not None
    placed = {name: notes["offset"] for lane in slices.values() for _, _, name, notes in lane}
    assert placed == dict(zip(planset.problem.names, best.offsets.tolist(), strict=True))


@pytest.mark.parametrize("seed", range(4))
def test_slices_of_a_lane_follow_each_other(seed: int) -> None:
    rng = np.random.default_rng(seed)
    first = rng.integers(0, 50, 200)
    problem = edgemem.Problem.from_arrays(first, first + rng.integers(0, 9, 200), rng.integers(0, 100, 200))
    slices, counter = read_trace(as_perfetto(planned_memory(edgemem.plan(problem, strategy="greedy_by_size"))))
    assert sum(map(len, slices.values())) == np.count_nonzero(problem.size)
    for lane in slices.values():
        assert all(a[1] <= b[0] for a, b in pairwise(sorted(lane, key=lambda row: row[0])))
    for time, value in counter:
        op = time // STEP_NS
        assert value == int(problem.size[(problem.first_op <= op) & (op <= problem.last_op)].sum())


def test_names_of_strangers_are_whole_in_a_trace() -> None:
    slices, _ = read_trace(as_perfetto(planned_memory(hostile())))
    names = {name for lane in slices.values() for _, _, name, _ in lane}
    assert names == {name.encode(errors="replace").decode() for name in HOSTILE}


def test_model_explorer_has_what_is_alive_at_each_node(model: Path) -> None:
    planset = edgemem.plan(model)
    data = json.loads(write(model, "r.json"))
    first, last, size = planset.problem.first_op, planset.problem.last_op, planset.problem.size
    alive = [int(size[(first <= k) & (k <= last)].sum()) for k in range(len(planset.steps))]
    assert list(data) == ["layers"]  # the name of the graph in the file
    # In these models an operator is named as the tensor that it writes.
    assert {name: node["value"] for name, node in data["layers"]["results"].items()} == dict(
        zip(planset.steps, alive, strict=True)
    )
    with pytest.raises(PlanError, match="names no tensors that operators write"):
        as_node_data(planned_memory(planset), "")


def test_a_png_has_the_rectangles_of_the_plan_and_texts(model: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    picture = np.asarray(image.open(io.BytesIO(write(model, "r.png"))).convert("RGB")).astype(int)
    assert picture.shape == (2 * (66 + 420 + 44), 2 * (90 + 900 + 20), 3)  # twice the SVG: margins and the plot
    planset = edgemem.plan(model)
    best, problem, peak = planset.best_offsets, planset.problem, find_peak(planset)
    assert best is not None
    for k, record in enumerate(problem.records):
        op = next(op for op in range(record.first_op, record.last_op + 1) if op != peak.op)
        x = 2 * (90 + (op + 0.25) / (int(problem.last_op.max()) + 1) * 900)
        y = 2 * (66 + 420 - (int(best.offsets[k]) + int(problem.size[k]) / 4) / best.size * 420)
        assert tuple(picture[round(y), round(x)]) in ((0x8F, 0xB0, 0xE8), (0xA9, 0xC3, 0xEE)), record.name
    dark = picture.sum(axis=2) < 200
    assert dark[:120, 180:1200].sum() > 500  # the heading and the legend
    assert dark[120:1000, :170].any()  # sizes
    assert dark[980:1020].any()  # operators


def test_png_needs_a_package(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "resvg_py", None)
    with pytest.raises(MissingDependencyError, match=r"drawing a PNG needs resvg-py: pip install 'resvg-py>="):
        edgemem.save_report(model, model.with_name("r.png"))
    assert not model.with_name("r.png").exists()


def test_a_png_without_names_is_refused(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    resvg = pytest.importorskip("resvg_py")
    monkeypatch.setattr(resvg, "svg_to_bytes", partial(resvg.svg_to_bytes, skip_system_fonts=True))
    with pytest.raises(PlanError, match="no font is installed"):
        edgemem.save_report(model, model.with_name("r.png"))
    assert not model.with_name("r.png").exists()


def test_a_picture_has_every_record_with_axes_and_the_peak(model: Path) -> None:
    planset = edgemem.plan(model)
    root = ET.fromstring(write(model, "r.svg"))
    space = "{http://www.w3.org/2000/svg}"
    titles = [title.text or "" for title in root.iter(f"{space}title")]
    assert {name for name in planset.problem.names if any(t.startswith(f"{name}: offset") for t in titles)} == set(
        planset.problem.names
    )
    peak = find_peak(planset)
    assert f"peak at {peak.label}: {peak.size:,} bytes" in titles
    texts = [text.text for text in root.iter(f"{space}text")]
    assert {"operator", "0 B", "peak", "tensor", "0"} <= set(texts)


def test_markdown_has_the_answer_and_the_peak(model: Path) -> None:
    planset = edgemem.plan(model)
    text = write(model, "r.md").decode()
    best, peak = planset.best_offsets, find_peak(planset)
    assert best is not None
    assert f"| arena | {best.size:,} |" in text
    assert f"are alive at the peak, {peak.label}:" in text
    assert f"| {peak.alive[0][0]} | {peak.alive[0][1]:,} |" in text
    assert "<script" not in as_markdown(planned_memory(hostile(), name="<script>")).replace("\\<", "")


def test_a_form_that_there_is_not_is_named(model: Path) -> None:
    with pytest.raises(PlanError, match=r"r\.txt: a report ends in \.html"):
        edgemem.save_report(model, model.with_name("r.txt"))
    done = CliRunner().invoke(main, ["report", str(model), "-o", "r.md", "--budget", "1KiB"])
    assert done.exit_code == 2
