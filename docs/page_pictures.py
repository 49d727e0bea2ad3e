"""Takes the pictures of pages, wide and on a phone: report.png and report-phone.png, web.png and web-phone.png.

    python docs/page_pictures.py

Needs Chromium (apt-get install chromium), whose WebGPU in software runs the model, and ai-edge-litert.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

import edgemem
from edgemem.runtime.webgpu.web_bundle import write_bundle
from models.build import build_tflite
from tests.chromium import Browser, need_chromium
from tests.web_bundles import served

PHONE = 390, 844


def report(folder: Path) -> None:
    """The page of a report, with the largest record of the peak pinned."""
    model = folder / "person_detect.tflite"
    model.write_bytes(build_tflite("mobilenet_v2_tflite", alpha=0.35, size=96, classes=2, int8=True))
    page = folder / "report.html"
    edgemem.save_report(model, page, budget=256 << 10)
    scripts = ("document.querySelector('.row').click()", "scrollTo({top: 0, behavior: 'instant'})")
    with Browser(need_chromium(), folder / "profile") as browser:
        _take(browser, page, "report", (1280, 1010), *scripts)


def web(folder: Path) -> None:
    """The page of a bundle, after a run on random values."""
    model = folder / "mobilenet_v2.tflite"
    model.write_bytes(build_tflite("mobilenet_v2_tflite", alpha=0.35, size=96))
    edgemem.save(model, edgemem.plan(model, target="gpu-buffer"), model)
    write_bundle(model, folder)
    scripts = ("document.getElementById('random').click()", "new Promise((done) => setTimeout(done, 3000))")
    with served(folder) as home, Browser(need_chromium(), folder / "profile", webgpu=True) as browser:
        _take(browser, f"{home}index.html", "web", (1280, 680), *scripts)


def _take(browser: Browser, page: Path | str, name: str, wide: tuple[int, int], *scripts: str) -> None:
    """Take a page wide and on a phone, each after the scripts."""
    for picture, size in ((f"{name}.png", wide), (f"{name}-phone.png", PHONE)):
        browser.size(*size)
        browser.open(page)
        for script in scripts:
            browser.run(script)
        browser.frame()
        browser.frame()
        browser.screenshot(ROOT / "docs" / picture)


def main() -> None:
    """Write all pictures."""
    for make in (report, web):
        with tempfile.TemporaryDirectory() as name:
            make(Path(name))


if __name__ == "__main__":
    main()
