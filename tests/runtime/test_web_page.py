"""The page of a bundle as somebody with a phone uses it: 390 pixels, a picture, a camera, memory in one switch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import edgemem
from edgemem.runtime.webgpu.web_bundle import write_bundle
from tests.web_bundles import Page, page
from tests.webgpu_adapters import need_adapter
from tests.webgpu_programs import pyramid

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.chromium import Browser

__all__ = ["page"]  # the fixture

pytest.importorskip("wgpu")

COLOUR = 51, 102, 204
# Before the page's own scripts: its device can be lost, and its camera is what a test makes of it.
_BEFORE = """
const request = GPUAdapter.prototype.requestDevice;
GPUAdapter.prototype.requestDevice = async function (...given) {
  return (window.device = await request.apply(this, given));
};
navigator.mediaDevices.getUserMedia = async () => stream();
window.stream = () => { throw new DOMException("Permission denied", "NotAllowedError"); };
window.at = (id) => document.getElementById(id);
window.coloured = () => {
  const canvas = Object.assign(document.createElement("canvas"), { width: 80, height: 60 });
  const pen = canvas.getContext("2d");
  pen.fillStyle = "rgb(51 102 204)";
  pen.fillRect(0, 0, 80, 60);
  return canvas;
};
window.give = (blob) => {
  const files = new DataTransfer();
  files.items.add(new File([blob], "picture.png"));
  at("file").files = files.files;
  at("file").dispatchEvent(new Event("change"));
};
window.until = (is) => new Promise((done) => {
  const look = () => (is() ? done(true) : setTimeout(look, 20));
  look();
});
"""


@pytest.fixture
def phone(page: Page) -> Iterator[Browser]:
    """The page of a model whose input is a picture."""
    browser = page.browser
    write_bundle(pyramid(), page.folder / "phone")
    added = browser.call("Page.addScriptToEvaluateOnNewDocument", source=_BEFORE)
    browser.events.clear()
    browser.size(390, 844)
    browser.open(f"{page.home}phone/index.html")
    yield browser
    assert not browser.problems(page.home)
    browser.size(1280, 900)
    browser.call("Page.removeScriptToEvaluateOnNewDocument", identifier=added["identifier"])


def results(browser: Browser, act: str) -> str:
    """The numbers that the page shows after something was done."""
    browser.run("at('results').replaceChildren()")
    browser.run(act)
    browser.run("until(() => at('results').textContent)")
    return str(browser.run("[...at('results').rows].map((row) => row.cells[1].textContent).join(' ').trim()"))


def said(browser: Browser, act: str, start: str) -> str:
    browser.run(act)
    browser.run(f"until(() => at('time').textContent.startsWith({start!r}))")
    return str(browser.run("at('time').textContent"))


def expected(factor: Any = 1.0, shift: Any = 0.0) -> str:
    """The largest numbers for a picture of one colour, with five digits."""
    values = np.array(COLOUR, np.float32) / 255 * factor + shift
    with edgemem.GpuExecutor(pyramid(), adapter=need_adapter("SwiftShader")) as executor:
        (made,) = executor.run(None, {"x": np.broadcast_to(values[:, None, None], (1, 3, 32, 32)).astype(np.float32)})
    return " ".join(f"{n:.5g}" for n in np.sort(made.ravel())[::-1][:5])


def numbers(text: str) -> list[float]:
    return [float(n) for n in text.split()]


PICTURE = "new Promise((done) => coloured().toBlob((blob) => done(give(blob))))"


def test_a_picture_runs_in_the_plan_and_without_it(phone: Browser) -> None:
    assert phone.run("document.documentElement.scrollWidth") == 390
    found = results(phone, PICTURE)
    assert numbers(found) == pytest.approx(numbers(expected()), rel=1e-4)
    allocated = "at('memory').rows[0].cells[1].textContent"
    planned, naive = phone.run(f"[{allocated}, at('memory').rows[3].cells[1].textContent]")
    assert planned != naive
    assert results(phone, "at('shared').click()") == found  # by itself, once it is loaded again
    assert phone.run(allocated) == naive
    again = results(phone, "void (at('range').selectedIndex = 3, at('range').dispatchEvent(new Event('change')))")
    mean, deviation = np.array([0.485, 0.456, 0.406]), np.array([0.229, 0.224, 0.225])
    assert numbers(again) == pytest.approx(numbers(expected(1 / deviation, -mean / deviation)), rel=1e-4)
    assert (
        said(phone, "give(new Blob(['no picture']))", "picture.png")
        == "picture.png is no picture that this browser reads"
    )


def test_a_lost_device_is_opened_again(phone: Browser) -> None:
    found = results(phone, PICTURE)
    phone.run("device.destroy()")
    assert results(phone, PICTURE) == found
    phone.run("device.destroy()")
    assert len(results(phone, "at('random').click()").split()) == 5


def test_a_camera_that_is_denied_and_one_that_is_given(phone: Browser) -> None:
    denied = said(phone, "at('camera').click()", "no camera")
    assert denied == "no camera: Permission denied; give a picture instead"
    found = results(phone, PICTURE)
    phone.run("void (window.stream = () => (window.last = coloured().captureStream(10)))")
    assert numbers(results(phone, "at('camera').click()")) == pytest.approx(numbers(found), rel=0.05)  # of a video
    assert phone.run("at('camera').textContent") == "stop the camera"
    assert results(phone, PICTURE) == found  # and the camera is off
    assert phone.run("[last.active, at('camera').textContent]") == [False, "camera"]
