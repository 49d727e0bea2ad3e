"""Takes docs/report.png and docs/report-phone.png: a page of `edgemem report`, wide and on a phone.

    python docs/report_pictures.py

Needs Chromium (apt-get install chromium) and ai-edge-litert.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

import edgemem
from models.build import build_tflite
from tests.chromium import Browser, need_chromium


def main() -> None:
    """Write both pictures."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model = folder / "person_detect.tflite"
        model.write_bytes(build_tflite("mobilenet_v2_tflite", alpha=0.35, size=96, classes=2, int8=True))
        edgemem.save_report(model, folder / "report.html", budget=256 << 10)
        with Browser(need_chromium(), folder / "profile") as browser:
            for picture, width, height in (("report.png", 1280, 1010), ("report-phone.png", 390, 844)):
                browser.size(width, height)
                browser.open(folder / "report.html")
                browser.run("document.querySelector('.row').click()")  # pins the largest record of the peak
                browser.run("scrollTo({top: 0, behavior: 'instant'})")
                browser.frame()
                browser.frame()
                browser.screenshot(ROOT / "docs" / picture)


if __name__ == "__main__":
    main()
