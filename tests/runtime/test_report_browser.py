"""The page of `edgemem report` in a browser: what is drawn, found, pinned, switched, sorted, copied and saved."""

from __future__ import annotations

import base64
import csv
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import edgemem
from edgemem.formats import Model
from edgemem.report.peak import find_peak
from edgemem.report.planned_memory import planned_memory
from edgemem.report.report_page import PageProof, PageRow, ReportPage, page_html
from tests.chromium import Browser, need_chromium
from tests.difference_models import Layers
from tests.unit.test_difference import hostile
from tests.unit.test_hostile_names import HOSTILE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.full

LEFT, RIGHT, TOP, BOTTOM = 76, 12, 10, 24  # of the map's axes, in pixels
ABOVE = 1.04  # the map shows so much of the arena

Plan = tuple[edgemem.PlanSet, Any]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("pages")
    old, new = Layers().save(made / "old.onnx"), Layers(skip=(1, 4), size=32).save(made / "new.onnx")
    edgemem.save_report(new, made / "r.html", against=old)
    return made


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(need_chromium(), tmp_path_factory.mktemp("profile")) as opened:
        yield opened


@pytest.fixture
def page(browser: Browser, folder: Path) -> Iterator[Browser]:
    browser.events.clear()
    browser.size(1280, 1400)
    browser.open(folder / "r.html")
    yield browser
    assert not browser.problems()


def middle(page: Browser, planset: edgemem.PlanSet, name: str) -> tuple[float, float]:
    """Where a record's rectangle has its middle in the window, by the plan and the sizes of the map's axes."""
    best, problem = planset.best_offsets, planset.problem
    assert best is not None
    k = problem.names.index(name)
    page.run("document.querySelector('canvas.over').scrollIntoView({block: 'center'})")
    page.frame()
    x, y, width, height = page.run(
        "(() => { const r = document.querySelector('canvas.over').getBoundingClientRect();"
        " return [r.left, r.top, r.width, r.height]; })()"
    )
    steps = len(planset.steps)
    across = (int(problem.first_op[k]) + int(problem.last_op[k]) + 1) / 2 / steps
    up = (int(best.offsets[k]) + int(problem.size[k]) / 2) / (best.size * ABOVE)
    return x + LEFT + across * (width - LEFT - RIGHT), y + TOP + (1 - up) * (height - TOP - BOTTOM)


def plot(page: Browser) -> np.ndarray[Any, Any]:
    """The pixels of the map within its axes: rows of red, green, blue, alpha."""
    page.frame()
    width, height, data = page.run(
        "(() => { const c = document.querySelector('.stage canvas'), w = c.width - 88, h = c.height - 34;"
        " const copy = document.createElement('canvas'); Object.assign(copy, {width: c.width, height: c.height});"
        " const pen = copy.getContext('2d', {willReadFrequently: true}); pen.drawImage(c, 0, 0);"
        " const d = pen.getImageData(76, 10, w, h).data; let s = '';"
        " for (let k = 0; k < d.length; k += 8192) s += String.fromCharCode(...d.subarray(k, k + 8192));"
        " return [w, h, btoa(s)]; })()"
    )
    return np.frombuffer(base64.b64decode(data), np.uint8).reshape(height, width, 4).astype(int)


@pytest.mark.parametrize("steps_in", [0, 7])
def test_pixels_have_the_colours_of_the_records_there(browser: Browser, tmp_path: Path, steps_in: int) -> None:
    # 3,000 records, many thinner than a pixel, and one that lives alone for a moment at the end.
    rng = np.random.default_rng(1)
    first, lengths = rng.integers(0, 20_000, 3_000), rng.integers(0, 900, 3_000)
    first, last = np.append(first, 30_000), np.append(first + lengths, 30_000)
    size = np.append(rng.integers(1, 40, 3_000) ** 3 * 64, 1_000_000)
    planset = edgemem.plan(edgemem.Problem.from_arrays(first, last, size), strategy="greedy_by_size")
    best, peak, steps = planset.best_offsets, find_peak(planset).op, 30_001
    assert best is not None
    (tmp_path / "p.html").write_text(page_html(ReportPage(planned_memory(planset), PageProof(True))), "utf-8")
    browser.size(1280, 1400)
    browser.open(tmp_path / "p.html")
    browser.run("document.querySelector('select').value = 'peak'")
    browser.run("document.querySelector('select').dispatchEvent(new Event('change'))")
    for _ in range(steps_in):
        browser.run("document.querySelector('[aria-label=\"Zoom in\"]').click()")
    shown = plot(browser)
    height, width, _ = shown.shape
    span = steps * 0.6**steps_in
    x = (np.array([first, last + 1]) - (steps - span) / 2) / span * width
    y = (1 - np.array([best.offsets + size, best.offsets]) / (best.size * ABOVE)) * height
    warm, seen = shown[..., 0] - shown[..., 2], shown[..., 3]  # orange is alive at the peak, grey is not
    lines = [(1 - level / (best.size * ABOVE)) * height for level in (best.size, planset.bounds.offsets)]
    found = {True: 0, False: 0}
    for k in np.flatnonzero((x[0] > 0) & (x[1] < width) & (x[1] - x[0] > 6) & (y[1] - y[0] > 6)):
        at = int(y[:, k].mean()), int(x[:, k].mean())
        if min(abs(at[0] - line) for line in lines) > 18:  # where names of lines are
            is_alive = bool(first[k] <= peak <= last[k])
            found[is_alive] += 1
            assert seen[at] > 200
            assert (warm[at] > 60) == is_alive
    assert found[False] > 10
    assert found[True] > 0 or steps_in
    empty = 0
    for column, row in zip(rng.integers(0, width, 4_000), rng.integers(0, height, 4_000), strict=True):
        near = (x[0] < column + 3) & (x[1] > column - 2) & (y[0] < row + 3) & (y[1] > row - 2)
        if not near.any() and min(abs(row - line) for line in lines) > 18:
            empty += 1
            # Only lines of the axes, and the shade of the peak's column, run there.
            assert warm[row, column] < 60 or abs(column - (peak - (steps - span) / 2) / span * width) < 4
            assert seen[row, column] < 100 or row in {int(v) for v in np.unique(np.argwhere(seen[:, 0] > 0))}
    assert empty > 100
    if not steps_in:  # a thirtieth of a pixel wide, and yet to be seen
        assert (seen[:, -2:] > 200).any(axis=1).sum() > 0.9 * 1_000_000 / (best.size * ABOVE) * height


def test_what_is_searched_for_is_seen_however_thin_it_is(browser: Browser, tmp_path: Path) -> None:
    # One operator of 20,001, between two records that have the middles of all pixels.
    problem = edgemem.Problem.from_arrays([0, 10_000, 10_001], [9_999, 10_000, 20_000], [64, 64, 64])
    memory = planned_memory(edgemem.plan(problem, strategy="greedy_by_size"))
    records = tuple(replace(r, name=name) for r, name in zip(memory.records, ("before", "thin", "behind"), strict=True))
    page = page_html(ReportPage(replace(memory, records=records, tensors=()), PageProof(True)))
    (tmp_path / "p.html").write_text(page, "utf-8")
    browser.size(1280, 1400)
    browser.open(tmp_path / "p.html")
    browser.run("document.getElementById('search').value = 'thin'")
    browser.run("document.getElementById('search').dispatchEvent(new Event('input'))")
    opaque = plot(browser)[150, :, 3] > 200
    assert 1 <= opaque.sum() <= 2
    assert abs(int(opaque.argmax()) - opaque.size / 2) < 3


def test_the_mouse_finds_what_is_drawn(browser: Browser, tmp_path: Path) -> None:
    # The second record lies inside the first one; the third one is a thousandth of a pixel high.
    problem = edgemem.Problem.from_arrays([0, 3, 0], [9, 6, 9], [1_000_000, 400_000, 1])
    memory = planned_memory(edgemem.plan(problem, strategy="greedy_by_size"))
    placed = zip(memory.records, (("below", 0), ("inside", 300_000), ("flat", 1_300_000)), strict=True)
    records = tuple(replace(r, name=name, offset=offset) for r, (name, offset) in placed)
    (tmp_path / "p.html").write_text(
        page_html(ReportPage(replace(memory, records=records, tensors=()), PageProof(True))), "utf-8"
    )
    browser.size(1280, 1400)
    browser.open(tmp_path / "p.html")
    browser.run("document.querySelector('canvas.over').scrollIntoView({block: 'center'})")
    browser.frame()
    left, top, width, height = browser.run(
        "(() => { const r = document.querySelector('canvas.over').getBoundingClientRect();"
        " return [r.left, r.top, r.width, r.height]; })()"
    )
    for name, op, byte in (("below", 1.5, 500_000), ("inside", 5.5, 500_000), ("flat", 1.5, 1_300_000)):
        x = left + LEFT + op / 10 * (width - LEFT - RIGHT)
        y = top + TOP + (1 - byte / (max(memory.arena, 1_300_001) * ABOVE)) * (height - TOP - BOTTOM)
        for beside in (0, 1):
            browser.mouse("mouseMoved", x, y + beside)
            browser.frame()
            assert browser.run("document.querySelector('.tip strong').textContent") == name
            assert not browser.run("document.querySelector('.tip').hidden")
    shades = [
        int(plot(browser)[round((1 - 500_000 / (1_300_001 * ABOVE)) * (height - TOP - BOTTOM)), x, 3])
        for x in (round(op / 10 * (width - LEFT - RIGHT)) for op in (1.5, 5.5))
    ]
    assert shades[0] != shades[1]  # the inner one is seen: neighbours differ in their shade


def test_times_of_layers_are_a_column_where_they_were_measured(browser: Browser, folder: Path, tmp_path: Path) -> None:
    planset = edgemem.plan(folder / "new.onnx")
    loaded = edgemem.load(folder / "new.onnx")
    assert isinstance(loaded, Model)
    memory = planned_memory(planset, loaded.graph())
    times = (*(1_000 * (k + 1) for k in range(len(memory.operators) - 1)), None)
    page = ReportPage(memory, PageProof(True), times=times, timed="As a test says.")
    (tmp_path / "p.html").write_text(page_html(page), "utf-8")
    browser.events.clear()
    browser.open(tmp_path / "p.html")
    heads = "[...document.querySelectorAll('#layers th')].map(head => head.textContent)"
    assert browser.run(heads)[-1] == "Time, \N{MICRO SIGN}s"
    cells = "[...document.querySelectorAll('#layers tbody tr')].map(row => row.lastChild.textContent)"
    assert browser.run(cells) == [*(str(k + 1) for k in range(len(times) - 1)), "\N{EN DASH}"]
    assert [row[-1] for row in saved_rows(browser, tmp_path)] == [
        "Time, \N{MICRO SIGN}s",
        *(str(k + 1) for k in range(len(times) - 1)),
        "0",
    ]
    assert "As a test says." in browser.run("document.querySelector('#layers .note').textContent")
    browser.open(folder / "r.html")
    assert browser.run(heads)[-1] == "MACs"
    assert not browser.problems()


def test_the_peak_says_what_holds_each_tensor(page: Browser) -> None:
    notes = page.run(
        "[...document.querySelectorAll('#peak .row')].map(row => row.textContent.replaceAll('\u200b', ''))"
    )
    assert notes
    conv1 = next(note for note in notes if note.startswith("conv1"))
    assert conv1.endswith("tensor, made by conv1, read last by add")


@pytest.mark.parametrize(
    ("whole", "texts"),
    [
        (2_000, ["at most \N{MINUS SIGN}1.46 KiB \N{MIDDLE DOT} 75 %", "\N{MINUS SIGN}500 B \N{MIDDLE DOT} 25 %"]),
        (None, ["\N{GREATER-THAN OR EQUAL TO} 500 B", "1.46 KiB"]),
    ],
)
def test_ways_to_need_less_say_what_they_remove(
    browser: Browser, tmp_path: Path, whole: int | None, texts: list[str]
) -> None:
    rows = (
        PageRow(1_990, 1.0, 3, "", "", False, False),
        PageRow(500, 1.1, 4, "order", "edgemem order", False, False),
        PageRow(1_500, 1.0, 4, "fold", "edgemem fold", True, True),
    )
    page = ReportPage(planned_memory(hostile()), PageProof(True), front=rows, whole=whole)
    (tmp_path / "p.html").write_text(page_html(page), "utf-8")
    browser.events.clear()
    browser.open(tmp_path / "p.html")
    assert browser.run("[...document.querySelectorAll('#peak .commands .value')].map(e => e.textContent)") == texts
    commands = "[...document.querySelectorAll('#peak .commands code')].map(e => e.textContent)"
    assert browser.run(commands) == ["edgemem order", "edgemem fold"]
    assert not browser.problems()


def caption(page: Browser) -> str:
    page.frame()
    return str(page.run("document.querySelector('.axis').textContent"))


def test_the_rectangle_under_the_mouse_is_that_of_the_plan(page: Browser, folder: Path) -> None:
    planset = edgemem.plan(folder / "new.onnx")
    for name in planset.problem.names:
        x, y = middle(page, planset, name)
        page.mouse("mouseMoved", x, y)
        page.frame()
        assert page.run("document.querySelector('.tip strong').textContent") == name
        page.click(x, y)
        assert page.run("document.querySelector('.details h3').textContent").replace("\u200b", "") == name
        assert f"{planset.problem.size[planset.problem.names.index(name)]:,}" in page.run(
            "document.querySelector('.details').textContent"
        )


def test_what_is_searched_for_is_found_and_pinned(page: Browser) -> None:
    page.key("/", "/")
    for letter in "conv3":
        page.key(letter, letter)
    assert page.run("document.getElementById('search').value") == "conv3"
    assert page.run("document.querySelector('#map .note[role=status]').textContent") == "1 found"
    page.key("Enter", "\r")
    assert page.run("document.querySelector('.details h3').textContent") == "conv3"
    # In the older plan it is searched for, too.
    page.run("[...document.querySelectorAll('#map button')].find(b => b.textContent === 'Before').click()")
    assert page.run("document.querySelector('#map .note[role=status]').textContent") == "1 found"
    one = (plot(page)[..., 3] > 200).mean()
    page.run("document.getElementById('search').value = ''")
    page.run("document.getElementById('search').dispatchEvent(new Event('input'))")
    assert 0 < one < (plot(page)[..., 3] > 200).mean() / 2


def test_the_map_zooms_by_wheel_drag_and_keys(page: Browser, folder: Path) -> None:
    planset = edgemem.plan(folder / "new.onnx")
    steps = len(planset.steps)
    whole = caption(page)
    assert f"operators 0 to {steps - 1}:" in whole
    x, y = middle(page, planset, "conv3")
    page.mouse("mouseWheel", x, y, deltaX=0, deltaY=-120)
    assert caption(page) != whole
    page.run("document.querySelector('canvas.over').focus()")
    page.key("0", "0")
    assert caption(page) == whole
    page.mouse("mousePressed", x, y, button="left", clickCount=1)
    for far in (20, 150, 260):
        page.mouse("mouseMoved", x + far, y, button="left", buttons=1)
    page.mouse("mouseReleased", x + 260, y, button="left", clickCount=1)
    assert caption(page) != whole
    page.key("Escape")
    page.run("document.querySelector('[aria-label=\"Show all\"]').click()")
    assert caption(page) == whole


def test_the_older_plan_is_a_switch_away(page: Browser, folder: Path) -> None:
    old = edgemem.plan(folder / "old.onnx")
    page.run("[...document.querySelectorAll('#map button')].find(b => b.textContent === 'Before').click()")
    assert f"{old.naive / 1024:.2f} KiB without sharing" in caption(page)
    name = old.problem.names[2]
    page.mouse("mouseMoved", *middle(page, old, name))
    page.frame()
    assert page.run("document.querySelector('.tip strong').textContent") == name


def saved_rows(page: Browser, folder: Path) -> list[list[str]]:
    """The rows of the layers' table as a click on CSV saves them."""
    page.call("Page.setDownloadBehavior", behavior="allow", downloadPath=str(folder))
    page.run("document.querySelector('#layers [aria-label$=CSV]').click()")
    saved = folder / "layers.csv"
    for _ in range(200):
        if saved.exists():
            break
        time.sleep(0.05)
    return list(csv.reader(saved.read_text("utf-8").splitlines()))


def test_tables_sort_and_are_saved(page: Browser, tmp_path: Path) -> None:
    page.run("[...document.querySelectorAll('#layers th button')].find(b => b.textContent === 'Weights').click()")
    first = page.run("[...document.querySelectorAll('#layers tbody tr')][0].cells[6].textContent")
    assert first == f"{8 * 8 * 9 * 4:,}"
    assert page.run("document.querySelector('#layers th:nth-child(7)').getAttribute('aria-sort')") == "descending"
    rows = saved_rows(page, tmp_path)
    assert rows[0][:3] == ["#", "Operator", "Type"]
    assert {row[1] for row in rows[1:]} == {"conv0", "conv1", "conv2", "conv3", "conv4", "conv5", "add"}


def test_a_command_is_copied(browser: Browser, tmp_path: Path) -> None:
    command = "edgemem shrink 'a <b>.onnx' --steps order -o x.onnx"
    rows = (PageRow(10, 1.0, 3, "", "", True, False), PageRow(5, 1.1, 4, "order", command, True, True))
    memory = planned_memory(hostile())
    (tmp_path / "p.html").write_text(page_html(ReportPage(memory, PageProof(True), front=rows)), "utf-8")
    browser.events.clear()
    browser.open(tmp_path / "p.html")
    dots = browser.run("[...document.querySelectorAll('.dot')].map(dot => dot.getAttribute('aria-label'))")
    assert sorted(dots) == [
        "10 B, 1.000\N{MULTIPLICATION SIGN} arithmetic, 3 operators: as it is",
        "5 B, 1.100\N{MULTIPLICATION SIGN} arithmetic, 4 operators: order",
    ]
    browser.run("document.querySelector('.chosen').dispatchEvent(new MouseEvent('click'))")
    assert browser.run("document.querySelector('.picked code').textContent") == command
    browser.run("document.querySelector('.commands button').scrollIntoView({block: 'center'})")
    browser.frame()
    x, y = browser.run(
        "(() => { const r = document.querySelector('.commands button').getBoundingClientRect();"
        " return [r.left + 5, r.top + 5]; })()"
    )
    browser.click(x, y)
    for _ in range(100):
        if browser.run("document.querySelector('.commands button').textContent") == "Copied":
            break
        time.sleep(0.02)
    # Pasted by the keyboard's own command, as a user would.
    browser.run("document.getElementById('search').focus()")
    browser.call("Input.dispatchKeyEvent", type="keyDown", key="v", modifiers=2, commands=["paste"])
    assert browser.run("document.getElementById('search').value") == command
    assert not browser.problems()


def test_names_of_strangers_stay_text(browser: Browser, tmp_path: Path) -> None:
    names = ("<img src=x onerror=document.title=1>", "</script><script>document.title=1</script>", *HOSTILE)
    records = [edgemem.UsageRecord(name, k, k + 1, 16, "tensor", (name,)) for k, name in enumerate(names)]
    planset = edgemem.plan(edgemem.Problem(records), strategy="greedy_by_size")
    page = ReportPage(planned_memory(planset, name=names[0]), PageProof(True, names, names, names))
    (tmp_path / "p.html").write_text(page_html(page), "utf-8", "surrogatepass")
    browser.events.clear()
    browser.open(tmp_path / "p.html")
    assert (
        browser.run("document.querySelectorAll('img, iframe, object, body > :not(main):not(script):not(.skip)').length")
        == 0
    )
    assert browser.run("document.querySelector('h1').textContent").replace("\u200b", "") == names[0]
    assert browser.run("document.title") == f"{names[0]} · edgemem report"
    assert not browser.problems()


def test_nothing_is_cut_off_on_a_phone(page: Browser) -> None:
    page.size(390, 844)
    page.frame()
    assert page.run("document.documentElement.scrollWidth") == 390
    assert page.run("document.querySelector('canvas.over').getBoundingClientRect().right <= 390")


def test_controls_have_names(page: Browser) -> None:
    nodes = page.call("Accessibility.getFullAXTree")["nodes"]
    roles = {"button", "searchbox", "textbox", "combobox", "link", "application", "img", "region"}
    nameless = [
        n["role"]["value"]
        for n in nodes
        if not n["ignored"] and n["role"]["value"] in roles and not n.get("name", {}).get("value")
    ]
    assert not nameless
    assert sum(n["role"]["value"] == "button" for n in nodes) > 10
