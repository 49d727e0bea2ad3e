"""The page of `edgemem report` in a browser: what is drawn, found, pinned, switched, sorted, copied and saved."""

from __future__ import annotations

import csv
import time
from typing import TYPE_CHECKING, Any

import pytest

import edgemem
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


def test_tables_sort_and_are_saved(page: Browser, tmp_path: Path) -> None:
    page.call("Page.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path))
    page.run("[...document.querySelectorAll('#layers th button')].find(b => b.textContent === 'Weights').click()")
    first = page.run("[...document.querySelectorAll('#layers tbody tr')][0].cells[6].textContent")
    assert first == f"{8 * 8 * 9 * 4:,}"
    assert page.run("document.querySelector('#layers th:nth-child(7)').getAttribute('aria-sort')") == "descending"
    page.run("document.querySelector('#layers [aria-label$=CSV]').click()")
    saved = tmp_path / "layers.csv"
    for _ in range(200):
        if saved.exists():
            break
        time.sleep(0.05)
    rows = list(csv.reader(saved.read_text().splitlines()))
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
