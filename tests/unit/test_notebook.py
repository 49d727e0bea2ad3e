"""How results look in a notebook: the figures of the result, names as text, and one line where a line is asked for."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest

import edgemem
from edgemem.errors import MissingDependencyError
from edgemem.notebook.card import html_card, html_table, svg_map
from edgemem.runtime.memory import MemoryReport, Origin
from edgemem.trace import Trace
from tests.branchy import BUNDLE_BEST, BUNDLE_GIVEN, bundle
from tests.unit.test_difference import hostile
from tests.unit.test_hostile_names import HOSTILE

ELEMENTS = set("div table tr td th svg rect title line".split())  # noqa: SIM905


class Reader(HTMLParser):
    """Texts by element; elements and attributes that do more than show are refused."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.texts: list[str] = []
        self.elements: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in ELEMENTS
        assert not [name for name, _ in attrs if name.startswith("on") or name in ("src", "href")]
        self.elements.append(tag)

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def shown(result: object) -> Reader:
    html = result._repr_html_()  # type: ignore[attr-defined]
    assert isinstance(html, str)
    return Reader(html)


def test_a_plan_shows_its_figures_and_every_record() -> None:
    planset = hostile()
    best = planset.best_offsets
    assert best is not None
    read = shown(planset)
    assert f"{best.size:,} bytes, greedy_by_size" in read.texts
    assert f"{planset.naive:,}" in read.texts
    assert read.elements.count("rect") == len(HOSTILE)
    assert "\n" not in repr(planset)


def test_textures_have_no_arena() -> None:
    problem = edgemem.Problem([edgemem.UsageRecord("a", 0, 1, (4, 4)), edgemem.UsageRecord("b", 1, 2, (4, 8))])
    read = shown(edgemem.plan(problem, strategy="shared_objects/greedy_by_size"))
    assert "48 texels, greedy_by_size" in read.texts
    assert "rect" not in read.elements


def test_an_order_shows_what_it_saves() -> None:
    from edgemem import formats

    graph = formats.open_bytes(bundle(), ".tflite").graph()
    found = edgemem.order(graph, target="generic")
    read = shown(found)
    assert (found.peak, found.given_peak) == (BUNDLE_BEST, BUNDLE_GIVEN)
    assert f"{BUNDLE_BEST:,} (optimal)" in read.texts
    assert any(text.startswith(f"{BUNDLE_GIVEN:,}, ") for text in read.texts)


def test_a_trace_is_one_line_and_shows_its_peak() -> None:
    trace = Trace.from_stream([100, 200, -1, 90, 40, -2, -3])
    assert repr(trace) == "Trace(7 events, 4 requests, peak 330 bytes)"
    assert "330 bytes" in shown(trace).texts


def test_a_memory_report_is_one_line() -> None:
    origin = Origin("file", "graph under tflm", "search effort=max")
    report = MemoryReport("tflm", "planned", origin, 4096, 4096, 8192, details={"tail": 512})
    line = "arena 4.00 KiB = lower bound, search effort=max, plan of the graph under tflm, from the file"
    assert repr(report) == f"MemoryReport(tflm: {line})"
    assert {"4,096", "8,192", "512"} <= set(shown(report).texts)


def test_what_is_shown_is_text() -> None:
    read = Reader(html_card(HOSTILE[12], [(n, n) for n in HOSTILE], html_table(("a", "b"), [(n, n) for n in HOSTILE])))
    assert sum("<script>alert(1)</script>" in text for text in read.texts) == 5
    assert svg_map([("a", 0, 0, 0, 1)] * 4000, 1, 1, 1) == ""


def test_records_are_rows_of_pandas() -> None:
    pandas = pytest.importorskip("pandas")
    planset = hostile()
    frame = planset.to_frame()
    assert isinstance(frame, pandas.DataFrame)
    best = planset.best_offsets
    assert best is not None
    assert frame["offset"].tolist() == best.offsets.tolist()
    assert frame["name"].tolist() == list(planset.problem.names)
    assert int(frame["size"].sum()) == int(planset.problem.size.sum())
    shared = planset.best_shared_objects
    assert shared is not None
    assert frame["shared_object"].tolist() == shared.assignment.tolist()


def test_without_pandas_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(MissingDependencyError, match="pip install pandas"):
        hostile().to_frame()
